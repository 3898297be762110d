//! What PID 1 says of itself, on a ZeroMQ REP socket: to the request `{"ask":"status"}` a [`StatusReport`], to
//! anything else `{"error":"..."}`.

use crate::status::timing::milliseconds;
use flux_contract::Phase;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::Instant;

/// Longest path of a Unix socket (unix(7): 108 bytes with the terminating one).
pub(super) const PATH_LIMIT: usize = 107;

/// What a run is doing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusReport {
    /// The phase that runs, as in [`Phase::name`].
    pub phase: String,
    /// What it does just now, as the name of the hook that runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doing: Option<String>,
    /// `lead` or `worker`.
    pub role: String,
    /// Host name of the pod.
    pub hostname: String,
    /// Rank of the broker, once it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// State the broker itself reports (`join`, `quorum`, `run`, ...), once it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broker_state: Option<String>,
    /// True when this rank's broker is part of the instance.
    #[serde(default)]
    pub online: bool,
    /// True when the pod is ready: a worker when it is online, the lead at quorum. It stays so while
    /// the broker ends.
    #[serde(default)]
    pub ready: bool,
    /// True when the run is over, so that nothing of this will change any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub over: bool,
    /// How many times the broker was started again.
    #[serde(default)]
    pub restarts: u32,
    /// What went wrong last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// Where the time went so far.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<Phase>,
    /// When the phase that runs began, the last of `phases`: each answer counts it up to then.
    #[serde(skip)]
    pub since: Option<Instant>,
}

impl StatusReport {
    /// All phases; the one that runs ends `now`.
    pub(crate) fn phases_until(&self, now: Instant) -> Vec<Phase> {
        let mut phases = self.phases.clone();
        if let (Some(since), Some(phase)) = (self.since, phases.last_mut()) {
            phase.duration_milliseconds = milliseconds(now - since);
        }
        phases
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "lowercase", deny_unknown_fields)]
pub(super) enum Request {
    Status {},
}

/// Why the state of a run could not be served or queried; a path is that of the socket.
#[derive(Debug, thiserror::Error)]
pub enum StatusError {
    /// The socket's directory or a stale socket is in the way: what was being done, to what.
    #[error("could not {} {}", .0, .1.display())]
    Prepare(&'static str, PathBuf, #[source] io::Error),
    /// Unix sockets have a length limit.
    #[error("the path {} is longer than the {PATH_LIMIT} bytes a Unix socket may have", .0.display())]
    LongPath(PathBuf),
    /// There is no agent that could answer.
    #[error("no agent runs here: nothing listens on {}", .0.display())]
    NotRunning(PathBuf),
    /// The question could not be asked.
    #[error("could not ask the agent at {}", .0.display())]
    Ask(PathBuf, #[source] zeromq::ZmqError),
    /// No answer came in time.
    #[error("the agent at {} gave no answer within {} ms", .0.display(), .1.as_millis())]
    TimedOut(PathBuf, Duration),
    /// The answer was no report.
    #[error("the agent at {} answered with something else than a status: {}", .0.display(), .1)]
    Answer(PathBuf, String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_camel_case_and_leaves_out_what_is_unset() {
        let report = StatusReport {
            phase: "hooks".to_owned(),
            broker_state: Some("run".to_owned()),
            restarts: 2,
            ..StatusReport::default()
        };
        let text = r#"{"phase":"hooks","role":"","hostname":"","brokerState":"run","online":false,"ready":false,"restarts":2}"#;
        assert_eq!(serde_json::to_string(&report).unwrap(), text);
        assert_eq!(serde_json::from_str::<StatusReport>(text).unwrap(), report);
    }
}
