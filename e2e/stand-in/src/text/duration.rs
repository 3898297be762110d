//! Flux Standard Duration (RFC 23): `1.5h`, `300ms`, `inf`.

/// Seconds of a duration, `None` where Flux would refuse the text.
pub(crate) fn parse(text: &str) -> Option<f64> {
    let digits =
        text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '+')).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    if number.is_empty() {
        let endless = ["inf", "infinity"].contains(&text.to_ascii_lowercase().as_str());
        return endless.then_some(f64::INFINITY);
    }
    let factor = match unit {
        "" | "s" => 1.0,
        "ms" => 0.001,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        _ => return None,
    };
    number.parse::<f64>().ok().map(|value| value * factor)
}

/// The form Flux prints, with as many significant digits as asked for.
pub(crate) fn format(seconds: f64, digits: usize) -> String {
    if seconds.is_infinite() {
        return "infinity".to_owned();
    }
    let (value, unit) = match seconds {
        s if s < 0.1 && s > 0.0 => (s * 1000.0, "ms"),
        s if s < 60.0 => (s, "s"),
        s if s < 3600.0 => (s / 60.0, "m"),
        s if s < 86400.0 => (s / 3600.0, "h"),
        s => (s / 86400.0, "d"),
    };
    format!("{}{unit}", significant(value, digits))
}

/// C's `%.*g` for the small positive numbers of a duration.
fn significant(value: f64, digits: usize) -> String {
    let mut decimals = digits.saturating_sub(1);
    let mut bound = 10.0;
    while value >= bound && decimals > 0 {
        decimals -= 1;
        bound *= 10.0;
    }
    if value > 0.0 && value < 1.0 {
        decimals += 1;
    }
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_understood() {
        assert_eq!(parse("300ms"), Some(0.3));
        assert_eq!(parse("1.5h"), Some(5400.0));
        assert_eq!(parse("60"), Some(60.0));
        assert_eq!(parse("inf"), Some(f64::INFINITY));
        for bad in ["", "1x", "abc", "-1", "none"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn durations_print_like_flux() {
        assert_eq!(format(0.8, 2), "0.8s");
        assert_eq!(format(60.0, 6), "1m");
        assert_eq!(format(0.012, 2), "12ms");
        assert_eq!(format(45.0, 2), "45s");
        assert_eq!(format(20.0, 6), "20s");
    }
}
