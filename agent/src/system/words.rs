//! Quotes words for a POSIX shell.

pub(crate) fn quoted(text: &str) -> String {
    // Only NUL cannot be quoted, and neither a path nor a variable can hold it.
    shlex::try_quote(text).map_or_else(|_| "''".to_owned(), Into::into)
}

/// The command line `argv` as a person would type it.
pub(crate) fn shown(argv: &[String]) -> String {
    argv.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}
