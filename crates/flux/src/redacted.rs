//! A value that must never be printed.

use std::fmt;

/// Wraps a secret so that `Debug` shows `[redacted]` instead of the value.
#[derive(Clone, PartialEq, Eq)]
pub struct Redacted<T>(T);

impl<T> Redacted<T> {
    /// Hides `value` from every formatter.
    pub const fn new(value: T) -> Self {
        Self(value)
    }

    /// The value itself: call this only where the secret is written to its destination.
    pub const fn expose(&self) -> &T {
        &self.0
    }
}

impl<T> fmt::Debug for Redacted<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("[redacted]")
    }
}
