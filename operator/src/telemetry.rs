//! The log.

use clap::ValueEnum;
use std::io::IsTerminal as _;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// For people.
    Text,
}

/// Why there is no log.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The level is no filter.
    #[error("read the log level {level:?}")]
    Level {
        /// The text.
        level: String,
        /// Why.
        #[source]
        source: ParseError,
    },
    /// There is a log already.
    #[error("start the log")]
    Start {
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Starts the log on stderr. `level` is one of `error`, `warn`, `info`, `debug`, `trace`, or
/// directives such as `info,kube=debug`.
pub fn start(format: LogFormat, level: &str) -> Result<(), TelemetryError> {
    let filter = EnvFilter::try_new(level)
        .map_err(|source| TelemetryError::Level { level: level.to_owned(), source })?;
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    match format {
        LogFormat::Json => log.json().flatten_event(true).with_span_list(false).try_init(),
        LogFormat::Text => log.try_init(),
    }
    .map_err(|source| TelemetryError::Start { source })
}
