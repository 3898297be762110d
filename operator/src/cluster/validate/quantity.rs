//! Resource quantities (`Quantity` of the Kubernetes API).

/// Powers of ten of the smallest unit there is, a billionth.
const SMALLEST: i32 = -9;

/// Whether `text` is a quantity: number and suffix, not negative.
pub(super) fn is_quantity(text: &str) -> bool {
    parts(text).is_some()
}

/// The quantity in billionths; absent if it is none, or larger than any that exists.
pub(super) fn billionths(text: &str) -> Option<u128> {
    let Parts { number, exponent, factor } = parts(text)?;
    let decimals = number.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let digits: String = number.chars().filter(char::is_ascii_digit).collect();
    let digits: u128 = digits.parse().ok()?;
    let power = exponent.checked_sub(SMALLEST)?.checked_sub(i32::try_from(decimals).ok()?)?;
    let value = digits.checked_mul(factor)?;
    let scale = 10_u128.checked_pow(power.unsigned_abs());
    match power {
        0.. => value.checked_mul(scale?),
        // Kubernetes rounds up what is smaller than it counts.
        ..0 => Some(match scale {
            Some(scale) => value.div_ceil(scale),
            None => u128::from(value > 0),
        }),
    }
}

/// A quantity: `number` times `factor`, times ten to the power of `exponent`.
struct Parts<'text> {
    number: &'text str,
    exponent: i32,
    factor: u128,
}

fn parts(text: &str) -> Option<Parts<'_>> {
    let text = text.strip_prefix('+').unwrap_or(text);
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let has_digits = number.contains(|c: char| c.is_ascii_digit());
    if !has_digits || number.matches('.').count() > 1 {
        return None;
    }
    let (exponent, factor) = match suffix {
        "n" => (-9, 1),
        "u" => (-6, 1),
        "m" => (-3, 1),
        "" => (0, 1),
        "k" => (3, 1),
        "M" => (6, 1),
        "G" => (9, 1),
        "T" => (12, 1),
        "P" => (15, 1),
        "E" => (18, 1),
        "Ki" => (0, 1 << 10),
        "Mi" => (0, 1 << 20),
        "Gi" => (0, 1 << 30),
        "Ti" => (0, 1 << 40),
        "Pi" => (0, 1 << 50),
        "Ei" => (0, 1 << 60),
        other => (other.strip_prefix(['e', 'E'])?.parse().ok()?, 1),
    };
    Some(Parts { number, exponent, factor })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_what_kubernetes_parses() {
        for text in ["1", "0.5", ".5", "5.", "100m", "64Gi", "1e3", "1E-3", "+2k", "1E"] {
            assert!(is_quantity(text), "{text}");
        }
        for text in ["", ".", "-1", "1.2.3", "64gi", "64 Gi", "Gi", "1e", "1e+", "ten"] {
            assert!(!is_quantity(text), "{text}");
        }
    }

    #[test]
    fn quantities_in_different_units_are_compared() {
        for (one, other) in [
            ("1", "1000m"),
            ("0.5", "500m"),
            (".25", "2500e-4"),
            ("1Gi", "1073741824"),
            ("1.5Ki", "1536"),
            ("1E", "1e18"),
            ("1e-12", "1n"),
            ("1e-2000000000", "1n"),
            ("0e-2000000000", "0"),
        ] {
            assert_eq!(billionths(one), billionths(other), "{one} {other}");
            assert!(billionths(one).is_some(), "{one}");
        }
        assert!(billionths("1Gi") > billionths("1G"));
        for text in ["1e2000000000", &"9".repeat(100), "x"] {
            assert_eq!(billionths(text), None, "{text}");
        }
    }
}
