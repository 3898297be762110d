//! Job ids (RFC 19): 64 bits, written in base 58 with a leading `ƒ`, or `f` where the locale is not
//! one of UTF-8.

const ALPHABET: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

/// The F58 text of an id, as programs written in C print it (flux-core, `common/libutil/fluid.c`).
pub(crate) fn encode(id: u64) -> String {
    with_prefix(id, is_of_utf_8(&locale()))
}

/// The F58 text of an id, as Flux's Python programs print it: Python has a locale of UTF-8 where the
/// environment names none (PEP 538), unless it is `LC_ALL` that does so.
pub(crate) fn encode_in_python(id: u64) -> String {
    let locale = locale();
    let none = ["", "C", "POSIX"].contains(&locale.as_str()) && variable("LC_ALL").is_none();
    with_prefix(id, none || is_of_utf_8(&locale))
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn locale() -> String {
    ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(variable).unwrap_or_default()
}

fn is_of_utf_8(locale: &str) -> bool {
    let locale = locale.to_ascii_lowercase();
    locale.ends_with("utf-8") || locale.ends_with("utf8")
}

fn with_prefix(mut id: u64, wide: bool) -> String {
    let mut digits = Vec::new();
    while id > 0 || digits.is_empty() {
        digits.push(char::from(ALPHABET[usize::try_from(id % 58).unwrap_or_default()]));
        id /= 58;
    }
    let prefix = if wide { 'ƒ' } else { 'f' };
    std::iter::once(prefix).chain(digits.into_iter().rev()).collect()
}

/// The id behind an F58 text, with either prefix.
pub(crate) fn decode(text: &str) -> Option<u64> {
    let digits = text.strip_prefix('ƒ').or_else(|| text.strip_prefix('f'))?;
    digits.bytes().try_fold(0_u64, |id, byte| {
        let digit = ALPHABET.iter().position(|&letter| letter == byte)?;
        id.checked_mul(58)?.checked_add(u64::try_from(digit).ok()?)
    })
}
