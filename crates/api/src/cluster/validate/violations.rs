//! The faults of a specification.

use serde_ignored::Path as FieldPath;
use std::fmt;

/// One fault of a specification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Where, e.g. `spec.containers[1].name`.
    pub path: String,
    /// What is wrong, and what to do about it.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.path, self.message)
    }
}

/// The faults of a specification.
#[derive(Debug, Clone, Default, PartialEq, Eq, thiserror::Error)]
pub struct Violations(pub Vec<Violation>);

impl fmt::Display for Violations {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, violation) in self.0.iter().enumerate() {
            let separator = if position == 0 { "" } else { "; " };
            write!(formatter, "{separator}{violation}")?;
        }
        Ok(())
    }
}

impl Violations {
    /// Adds the fault `message` of the field at `path`.
    pub fn add(&mut self, path: impl Into<String>, message: impl Into<String>) {
        let (path, message) = (shortened(path.into()), shortened(message.into()));
        self.0.push(Violation { path, message });
    }

    pub(super) fn require(
        &mut self,
        holds: bool,
        path: impl Into<String>,
        message: impl FnOnce() -> String,
    ) {
        if !holds {
            self.add(path, message());
        }
    }
}

pub(crate) fn field_path(path: &FieldPath<'_>) -> String {
    match path {
        FieldPath::Root => String::new(),
        FieldPath::Seq { parent, index } => format!("{}[{index}]", field_path(parent)),
        FieldPath::Map { parent: FieldPath::Root, key } => key.clone(),
        FieldPath::Map { parent, key } => format!("{}.{key}", field_path(parent)),
        FieldPath::Some { parent }
        | FieldPath::NewtypeStruct { parent }
        | FieldPath::NewtypeVariant { parent } => field_path(parent),
    }
}

/// Longest path and longest message of a fault in bytes: both may quote the user's text.
const QUOTE_LIMIT: usize = 1_000;

/// `text` without its middle if it is too long: the end has the reason of a fault.
fn shortened(text: String) -> String {
    if text.len() <= QUOTE_LIMIT {
        return text;
    }
    let (begin, end) = (QUOTE_LIMIT / 2, text.len() - QUOTE_LIMIT / 2);
    format!(
        "{} ... {}",
        &text[..text.floor_char_boundary(begin)],
        &text[text.ceil_char_boundary(end)..]
    )
}
