//! Job ids (RFC 19): 64 bits, written in base 58 with a leading `ƒ`, or `f` where the locale is not
//! one of UTF-8.

const ALPHABET: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

/// The F58 text of an id, as programs written in C print it.
pub(crate) fn encode(id: u64) -> String {
    with_prefix(id, is_plain(|name| std::env::var(name).ok()))
}

/// The F58 text of an id, as Flux's Python programs print it: Python has a locale of UTF-8 where the
/// environment names none (PEP 538).
pub(crate) fn encode_in_python(id: u64) -> String {
    let variable = |name: &str| std::env::var(name).ok();
    with_prefix(id, variable("FLUX_F58_FORCE_ASCII").is_some() || is_plain_in_python(variable))
}

fn is_plain_in_python(variable: impl Fn(&str) -> Option<String>) -> bool {
    let names = ["LC_ALL", "LC_CTYPE", "LANG"];
    let locale = names.into_iter().filter_map(&variable).find(|value| !value.is_empty());
    let none = locale.is_none_or(|locale| ["C", "POSIX"].contains(&locale.as_str()));
    // `LC_ALL` is obeyed whatever it says.
    let forced = variable("LC_ALL").is_some_and(|value| !value.is_empty());
    if none && !forced { false } else { is_plain(variable) }
}

fn with_prefix(mut id: u64, plain: bool) -> String {
    let mut digits = Vec::new();
    while id > 0 || digits.is_empty() {
        digits.push(char::from(ALPHABET[usize::try_from(id % 58).unwrap_or_default()]));
        id /= 58;
    }
    let prefix = if plain { 'f' } else { 'ƒ' };
    std::iter::once(prefix).chain(digits.into_iter().rev()).collect()
}

/// Whether the environment allows ASCII only. Real Flux also needs the locale's data at hand
/// (`common/libutil/fluid.c`).
fn is_plain(variable: impl Fn(&str) -> Option<String>) -> bool {
    let names = ["LC_ALL", "LC_CTYPE", "LANG"];
    let locale = names.into_iter().filter_map(&variable).find(|value| !value.is_empty());
    let locale = locale.unwrap_or_default().to_ascii_lowercase();
    let wide = locale.ends_with("utf-8") || locale.ends_with("utf8");
    !wide || variable("FLUX_F58_FORCE_ASCII").is_some()
}

/// An id in F58 (either prefix), decimal or hexadecimal.
pub(crate) fn decode(text: &str) -> Option<u64> {
    if let Some(hex) = text.strip_prefix("0x") {
        return u64::from_str_radix(hex, 16).ok();
    }
    let Some(digits) = text.strip_prefix('ƒ').or_else(|| text.strip_prefix('f')) else {
        return text.parse().ok();
    };
    if digits.is_empty() {
        return None;
    }
    digits.bytes().try_fold(0_u64, |id, byte| {
        let digit = ALPHABET.iter().position(|&letter| letter == byte)?;
        id.checked_mul(58)?.checked_add(u64::try_from(digit).ok()?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_locale_decides_on_the_prefix() {
        let plain = |pairs: &[(&str, &str)]| {
            is_plain(|name| {
                let found = pairs.iter().find(|(key, _)| *key == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        assert!(plain(&[]));
        assert!(plain(&[("LC_ALL", "C"), ("LANG", "C.UTF-8")]));
        assert!(!plain(&[("LC_ALL", ""), ("LANG", "en_US.utf8")]));
        assert!(plain(&[("LC_ALL", "C.UTF-8"), ("FLUX_F58_FORCE_ASCII", "1")]));
    }

    #[test]
    fn python_has_a_locale_of_its_own_where_none_is_given() {
        let plain = |given: Option<(&str, &str)>| {
            is_plain_in_python(|name| {
                given.filter(|(key, _)| *key == name).map(|(_, value)| value.to_owned())
            })
        };
        assert!(!plain(None) && !plain(Some(("LANG", "C"))));
        assert!(plain(Some(("LC_ALL", "C"))) && plain(Some(("LANG", "en_US.ISO-8859-1"))));
    }

    #[test]
    fn ids_survive_the_round_trip() {
        for id in [0, 1, 57, 58, 123_456_789_012, u64::MAX] {
            assert_eq!(decode(&encode(id)), Some(id));
        }
        assert_eq!(decode("f1"), Some(0));
        assert_eq!(decode("42"), Some(42));
        assert_eq!(decode("ƒ0"), None);
    }
}
