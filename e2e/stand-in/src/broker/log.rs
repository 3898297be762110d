//! Broker log lines, each shown by the broker that writes it (`log-stderr-mode=local`).

use crate::output;

/// Severity of a line, RFC 5424.
#[derive(Clone, Copy)]
pub(crate) enum Severity {
    Critical = 2,
    Error = 3,
    Warning = 4,
    Info = 6,
    Debug = 7,
}

/// Shows lines up to a level.
#[derive(Clone)]
pub(crate) struct Logger {
    /// Rank, or the host name before the rank is known.
    pub(crate) place: String,
    pub(crate) level: u8,
}

impl Logger {
    /// Shows `text`, said by `source`, if it matters enough.
    pub(crate) fn log(&self, source: &str, severity: Severity, text: &str) {
        let (number, place) = (severity as u8, &self.place);
        let name = match severity {
            Severity::Critical => "crit",
            Severity::Error => "err",
            Severity::Warning => "warning",
            Severity::Info => "info",
            Severity::Debug => "debug",
        };
        if number <= self.level {
            output::error_line(&format!("<{number}>{source}.{name}[{place}]: {text}"));
        }
    }
}
