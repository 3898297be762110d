//! The log.

use anyhow::{Context as _, anyhow};
use clap::ValueEnum;
use std::io::IsTerminal as _;
use tracing_subscriber::EnvFilter;

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// For people.
    Text,
}

/// Starts the log on stderr. `level` is one of `error`, `warn`, `info`, `debug`, `trace`, or
/// directives such as `info,kube=debug`.
pub fn start(format: LogFormat, level: &str) -> anyhow::Result<()> {
    let filter =
        EnvFilter::try_new(level).with_context(|| format!("read the log level {level:?}"))?;
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    match format {
        LogFormat::Json => log.json().flatten_event(true).with_span_list(false).try_init(),
        LogFormat::Text => log.try_init(),
    }
    .map_err(|error| anyhow!(error).context("start the log"))
}
