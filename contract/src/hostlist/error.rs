//! Why a text is not a hostlist, and what is too much for one.

/// Most hosts: more than an Indexed Job of Kubernetes can have, for clusters that extend each other.
pub(super) const SIZE_LIMIT: usize = 1 << 17;
/// Most characters of a text that is read, and of a list's own text.
pub(super) const TEXT_LIMIT: usize = 1 << 16;
/// Longest host name (RFC 1035, without the root's dot).
pub(super) const NAME_LIMIT: usize = 253;
/// Most digits of a number in brackets: more would not be counted in 64 bits.
pub(super) const DIGITS_LIMIT: usize = 18;
/// Most brackets in one host name; `rack[0-7]node[0-15]` has two.
pub(super) const BRACKETS_LIMIT: usize = 8;
/// How much of a refused text is shown.
const EXCERPT: usize = 60;

/// Why a text is not a hostlist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("hostlist {text:?} {fault}")]
pub struct HostlistError {
    /// The text, or its beginning.
    text: String,
    fault: Fault,
}

impl HostlistError {
    pub(super) fn new(text: &str, fault: Fault) -> Self {
        Self { text: excerpt(text), fault }
    }
}

/// What is wrong with a text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Fault {
    #[error("has an unmatched bracket")]
    Bracket,
    #[error("has an invalid range {0:?}")]
    Range(String),
    #[error("has a number of {0} digits, at most {DIGITS_LIMIT} are read")]
    Digits(usize),
    #[error("has an empty host name")]
    Empty,
    #[error("has a character {0:?} that no host name has")]
    Character(char),
    #[error("has a host name of {0} characters, at most {NAME_LIMIT} are allowed")]
    Name(usize),
    #[error("has more than {BRACKETS_LIMIT} brackets in one host name")]
    Brackets,
    #[error("names more than {SIZE_LIMIT} hosts")]
    Size,
    #[error("takes more than {TEXT_LIMIT} characters")]
    Text,
}

/// The beginning of `text`, for people.
pub(super) fn excerpt(text: &str) -> String {
    match text.char_indices().nth(EXCERPT) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
