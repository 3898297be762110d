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

/// The id behind an F58 text, with either prefix.
pub(crate) fn decode(text: &str) -> Option<u64> {
    let digits = text.strip_prefix('ƒ').or_else(|| text.strip_prefix('f'))?;
    digits.bytes().try_fold(0_u64, |id, byte| {
        let digit = ALPHABET.iter().position(|&letter| letter == byte)?;
        id.checked_mul(58)?.checked_add(u64::try_from(digit).ok()?)
    })
}
