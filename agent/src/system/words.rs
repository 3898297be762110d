//! Words of a POSIX shell.

pub(crate) fn quoted(text: &str) -> String {
    // Only NUL cannot be quoted, and neither a path nor a variable can hold it.
    shlex::try_quote(text).map_or_else(|_| "''".to_owned(), Into::into)
}

/// `words` as a person would type them.
pub(crate) fn shown(words: &[String]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}
