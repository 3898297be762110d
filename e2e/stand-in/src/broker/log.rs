//! Broker log lines, each shown by the broker that writes it (`log-stderr-mode=local`).

use super::attributes::Attributes;
use crate::output;

/// Severity of a line, RFC 5424.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    /// The broker cannot go on.
    Critical = 2,
    /// Something failed.
    Error = 3,
    /// Something may fail.
    Warning = 4,
    /// Ordinary progress.
    Info = 6,
    /// For developers.
    Debug = 7,
}

impl Severity {
    fn name(self) -> &'static str {
        match self {
            Self::Critical => "crit",
            Self::Error => "err",
            Self::Warning => "warning",
            Self::Info => "info",
            Self::Debug => "debug",
        }
    }
}

/// Shows lines up to a level.
#[derive(Debug, Clone)]
pub(crate) struct Logger {
    /// Rank, or the host name before the rank is known.
    pub(crate) place: String,
    level: u8,
}

impl Logger {
    /// The logger that the attributes ask for; the error is Flux's text.
    pub(crate) fn new(attributes: &Attributes, place: &str) -> Result<Self, String> {
        let level = attributes.get("log-stderr-level").unwrap_or("3");
        match level.parse() {
            Ok(level @ 0..=7) => Ok(Self { place: place.to_owned(), level }),
            Ok(_) | Err(_) => Err("Error initializing logging: Invalid argument".to_owned()),
        }
    }

    /// Shows `text`, said by `source`, if it matters enough.
    pub(crate) fn log(&self, source: &str, severity: Severity, text: &str) {
        let number = severity as u8;
        if number <= self.level {
            let (name, place) = (severity.name(), &self.place);
            output::error_line(&format!("<{number}>{source}.{name}[{place}]: {text}"));
        }
    }
}
