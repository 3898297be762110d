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
pub enum HostlistError {
    /// A `[` without its `]`, or the reverse.
    #[error("hostlist {text:?} has an unmatched bracket")]
    Bracket {
        /// The text refused, or its beginning.
        text: String,
    },
    /// A range that is not `N` or `N-M` with N not above M.
    #[error("hostlist {text:?} has an invalid range {range:?}")]
    Range {
        /// The text refused, or its beginning.
        text: String,
        /// The range refused, or its beginning.
        range: String,
    },
    /// A number of more digits than any host has.
    #[error("hostlist {text:?} has a number of {digits} digits, at most {limit} are read", limit = DIGITS_LIMIT)]
    Digits {
        /// The text refused, or its beginning.
        text: String,
        /// How many digits the number has.
        digits: usize,
    },
    /// No host at all, or nothing between two commas.
    #[error("hostlist {text:?} has an empty host name")]
    Empty {
        /// The text refused, or its beginning.
        text: String,
    },
    /// A character that no host name has.
    #[error("hostlist {text:?} has a character {character:?} that no host name has")]
    Character {
        /// The text refused, or its beginning.
        text: String,
        /// The character.
        character: char,
    },
    /// A host name longer than DNS allows.
    #[error("hostlist {text:?} has a host name of {length} characters, at most {limit} are allowed", limit = NAME_LIMIT)]
    Name {
        /// The text refused, or its beginning.
        text: String,
        /// How many characters the name has.
        length: usize,
    },
    /// More brackets in one host name than anybody needs.
    #[error("hostlist {text:?} has more than {limit} brackets in one host name", limit = BRACKETS_LIMIT)]
    Brackets {
        /// The text refused, or its beginning.
        text: String,
    },
    /// More hosts than any instance could have: the text is a mistake or an attack.
    #[error("hostlist {text:?} names more than {limit} hosts", limit = SIZE_LIMIT)]
    Size {
        /// The text refused, or its beginning.
        text: String,
    },
    /// Longer than any instance needs, as it was given or written in ranges.
    #[error("hostlist {text:?} takes more than {limit} characters", limit = TEXT_LIMIT)]
    Text {
        /// The text refused, or its beginning.
        text: String,
    },
}

/// The beginning of `text`, for people.
pub(super) fn excerpt(text: &str) -> String {
    match text.char_indices().nth(EXCERPT) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
