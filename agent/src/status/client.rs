//! Asking PID 1.

use crate::status::document::StatusReport;
use anyhow::{Context as _, Result, anyhow};
use std::path::Path;
use std::time::Duration;
use tokio::io::AsyncReadExt as _;
use tokio::net::UnixStream;

/// Asks the agent whose socket is at `path`, waiting at most `timeout`.
pub async fn ask(path: &Path, timeout: Duration) -> Result<StatusReport> {
    let shown = path.display();
    let stream = UnixStream::connect(path).await;
    let mut stream =
        stream.map_err(|_| anyhow!("no agent runs here: nothing listens on {shown}"))?;
    let mut answer = Vec::new();
    let read = tokio::time::timeout(timeout, stream.read_to_end(&mut answer)).await;
    let read = read.map_err(|_| {
        anyhow!("the agent at {shown} gave no answer within {} ms", timeout.as_millis())
    })?;
    read.with_context(|| format!("could not ask the agent at {shown}"))?;
    serde_json::from_slice(&answer).map_err(|_| {
        let text = String::from_utf8_lossy(&answer);
        anyhow!("the agent at {shown} answered with something else than a status: {text}")
    })
}
