//! The eventlogs of a job (RFC 21), read by `flux job eventlog`: a program in C, so that the view's Python plays no part.

use crate::flux::client::FluxClient;
use flux_protocol::eventlog::{Event, parse};
use std::process::Output;
use std::time::Duration;

/// How long `flux` may take for an answer that the broker has in memory.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(5);

/// The events of the job `id` from its submission to its end.
pub(super) async fn of_job(client: &FluxClient, id: &str) -> Option<Vec<Event>> {
    log(client, &[id]).await
}

/// The events of the execution of the job `id` (`guest.exec.eventlog`).
pub(super) async fn of_execution(client: &FluxClient, id: &str) -> Option<Vec<Event>> {
    log(client, &["--path=exec", id]).await
}

/// The output of `flux` with `arguments`; none when `flux` cannot be started or takes too long.
pub(super) async fn ask(client: &FluxClient, arguments: &[&str]) -> Option<Output> {
    client.ask(arguments, None, QUESTION_TIMEOUT).await.ok()
}

async fn log(client: &FluxClient, arguments: &[&str]) -> Option<Vec<Event>> {
    let words = [&["job", "eventlog", "--format=json"], arguments].concat();
    let output = ask(client, &words).await.filter(|output| output.status.success())?;
    parse(str::from_utf8(&output.stdout).ok()?)
}

#[cfg(test)]
pub(super) fn parsed(lines: &[&str]) -> Vec<Event> {
    parse(&lines.join("\n")).unwrap()
}
