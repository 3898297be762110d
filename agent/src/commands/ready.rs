//! `flux-agent ready`: whether this pod is ready, for people and scripts.

use crate::commands::arguments::{PodArguments, patience};
use crate::commands::failure::{Done, NO, failed_with};
use crate::commands::running_agent::{PATIENCE, PAUSE, agent_socket};
use crate::commands::status::phase_text;
use crate::status::client::ask_when_ready;
use crate::status::document::StatusReport;
use crate::system::output::complain;
use std::time::Instant;

/// Waits at most `seconds` for it, so that whoever asks learns of it at once.
pub(crate) async fn run(arguments: &PodArguments, seconds: u64) -> Done {
    let socket = agent_socket(arguments);
    let deadline = Instant::now() + patience(seconds);
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let report = ask_when_ready(&socket, left, PATIENCE).await;
        match report {
            Ok(report) if report.ready => return Ok(()),
            Ok(report) if left.is_zero() || report.over => return Err(not_ready(&report)),
            Err(error) if left.is_zero() => return Err(failed_with(NO, &error)),
            // There is no agent yet, or the time is up: then once more, and no longer.
            Ok(_) => {}
            Err(_) => tokio::time::sleep(PAUSE.min(left)).await,
        }
    }
}

fn not_ready(report: &StatusReport) -> u8 {
    let broker =
        report.broker_state.as_ref().map_or_else(String::new, |state| format!(", broker {state}"));
    let error = report.last_error.as_ref().map_or_else(String::new, |error| format!(": {error}"));
    complain(&format!("not ready: {}{broker}{error}", phase_text(report)));
    NO
}
