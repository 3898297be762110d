//! What PID 1 says of itself: a REP socket that `flux-agent status` and the readiness probe ask.
//!
//! The socket is a file in a directory of mode 0700, so only the container's own user and root
//! reach it. A request is one JSON document, `{"ask":"status"}`; the answer is a
//! [`StatusReport`] or `{"error":"..."}`.

use flux_contract::Phase;
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::time::timeout;
use zeromq::{RepSocket, ReqSocket, Socket, SocketRecv, SocketSend, ZmqError, ZmqMessage};

/// Longest path of a Unix socket (unix(7): 108 bytes with the terminating one).
const PATH_LIMIT: usize = 107;
/// How long a client may take to accept its answer before the next one is served.
const SEND_TIMEOUT: Duration = Duration::from_secs(1);

/// What a run is doing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusReport {
    /// The phase that runs, as in [`Phase::name`].
    pub phase: String,
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
    /// True when the pod is ready: a worker when it is online, the lead at quorum.
    #[serde(default)]
    pub ready: bool,
    /// How many times the broker was started again.
    #[serde(default)]
    pub restarts: u32,
    /// What went wrong last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// Where the time went so far.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<Phase>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "lowercase", deny_unknown_fields)]
enum Request {
    Status {},
}

#[derive(Debug, Serialize, Deserialize)]
struct Refusal {
    error: String,
}

/// Why the state of a run cannot be told or asked.
#[derive(Debug, thiserror::Error)]
pub enum StatusError {
    /// The socket's directory or a stale socket is in the way.
    #[error("could not {doing} {}", path.display())]
    Prepare {
        /// What was being done.
        doing: &'static str,
        /// To what.
        path: PathBuf,
        /// What the system said.
        #[source]
        cause: io::Error,
    },
    /// Unix sockets have a length limit.
    #[error("the path {} is longer than the {PATH_LIMIT} bytes a Unix socket may have", path.display())]
    LongPath {
        /// The path.
        path: PathBuf,
    },
    /// The socket cannot be served.
    #[error("could not serve {}", path.display())]
    Serve {
        /// The socket.
        path: PathBuf,
        /// What was wrong.
        #[source]
        cause: ZmqError,
    },
    /// There is no agent that could answer.
    #[error("no agent runs here: nothing listens on {}", path.display())]
    NotRunning {
        /// The socket.
        path: PathBuf,
    },
    /// The question could not be asked.
    #[error("could not ask the agent at {}", path.display())]
    Ask {
        /// The socket.
        path: PathBuf,
        /// What was wrong.
        #[source]
        cause: ZmqError,
    },
    /// No answer came in time.
    #[error("the agent at {} gave no answer within {} ms", path.display(), after.as_millis())]
    TimedOut {
        /// The socket.
        path: PathBuf,
        /// How long was waited.
        after: Duration,
    },
    /// The answer was no report.
    #[error("the agent at {} answered with something else than a status: {answer}", path.display())]
    Answer {
        /// The socket.
        path: PathBuf,
        /// What it answered.
        answer: String,
    },
}

/// The REP socket of a run.
pub struct StatusServer {
    socket: RepSocket,
    path: PathBuf,
}

impl StatusServer {
    /// Binds the socket at `path`. Its directory is made, or taken over, with mode 0700; a socket
    /// that an earlier run left behind is removed.
    pub async fn bind(path: &Path) -> Result<Self, StatusError> {
        if path.as_os_str().len() > PATH_LIMIT {
            return Err(StatusError::LongPath { path: path.to_owned() });
        }
        make_private_directory(path.parent().unwrap_or(path))?;
        match fs::remove_file(path) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
                let path = path.to_owned();
                return Err(StatusError::Prepare { doing: "remove stale socket", path, cause });
            }
            Ok(()) | Err(_) => {}
        }
        let mut socket = RepSocket::new();
        match socket.bind(&endpoint(path)).await {
            Ok(_) => Ok(Self { socket, path: path.to_owned() }),
            Err(cause) => Err(StatusError::Serve { path: path.to_owned(), cause }),
        }
    }

    /// Answers every question with the latest of `reports`, until the future is dropped. What a
    /// client does wrong is the client's to bear.
    pub async fn serve(
        mut self,
        reports: watch::Receiver<StatusReport>,
    ) -> Result<(), StatusError> {
        loop {
            let request = match self.socket.recv().await {
                Ok(request) => request,
                Err(cause @ ZmqError::NoMessage) => {
                    return Err(StatusError::Serve { path: self.path, cause });
                }
                // A client that broke off, or spoke no ZeroMQ.
                Err(_) => continue,
            };
            let reply = answer(&request, &reports.borrow());
            // A client that went away, or stopped reading, loses its answer.
            let _ = timeout(SEND_TIMEOUT, self.socket.send(reply.into())).await;
        }
    }
}

/// Binds the socket at `path` and answers with the latest of `reports` until the future is
/// dropped.
pub async fn serve(path: &Path, reports: watch::Receiver<StatusReport>) -> Result<(), StatusError> {
    StatusServer::bind(path).await?.serve(reports).await
}

/// Asks the agent whose socket is at `path`, waiting at most `timeout`.
pub async fn ask(path: &Path, timeout: Duration) -> Result<StatusReport, StatusError> {
    // A ZeroMQ socket would try again and again until the time is up; no socket, or one that
    // nobody serves, is an answer by itself.
    if UnixStream::connect(path).await.is_err() {
        return Err(StatusError::NotRunning { path: path.to_owned() });
    }
    let asked = tokio::time::timeout(timeout, exchange(path)).await;
    let reply = asked
        .map_err(|_| StatusError::TimedOut { path: path.to_owned(), after: timeout })?
        .map_err(|cause| StatusError::Ask { path: path.to_owned(), cause })?;
    let text = first_frame(&reply);
    serde_json::from_slice(text).map_err(|_| StatusError::Answer {
        path: path.to_owned(),
        answer: String::from_utf8_lossy(text).into_owned(),
    })
}

async fn exchange(path: &Path) -> Result<ZmqMessage, ZmqError> {
    let mut socket = ReqSocket::new();
    socket.connect(&endpoint(path)).await?;
    let request = serde_json::to_string(&Request::Status {}).unwrap_or_default();
    socket.send(request.into()).await?;
    socket.recv().await
}

fn answer(request: &ZmqMessage, report: &StatusReport) -> String {
    let reply = match serde_json::from_slice(first_frame(request)) {
        Ok(Request::Status {}) => serde_json::to_string(report),
        Err(error) => {
            serde_json::to_string(&Refusal { error: format!("unknown request: {error}") })
        }
    };
    reply.unwrap_or_default()
}

fn first_frame(message: &ZmqMessage) -> &[u8] {
    message.get(0).map_or(&[], |frame| frame)
}

fn endpoint(path: &Path) -> String {
    format!("ipc://{}", path.display())
}

fn make_private_directory(directory: &Path) -> Result<(), StatusError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .and_then(|()| fs::set_permissions(directory, Permissions::from_mode(0o700)))
        .map_err(|cause| {
            let path = directory.to_owned();
            StatusError::Prepare { doing: "make private directory", path, cause }
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_camel_case_and_leaves_out_what_is_not_known() {
        let report =
            StatusReport { phase: "hooks".to_owned(), restarts: 2, ..StatusReport::default() };
        assert_eq!(
            serde_json::to_string(&report).unwrap(),
            r#"{"phase":"hooks","role":"","hostname":"","online":false,"ready":false,"restarts":2}"#
        );
        let known = StatusReport {
            broker_state: Some("run".to_owned()),
            last_error: Some("x".to_owned()),
            ..report
        };
        let text = serde_json::to_string(&known).unwrap();
        assert!(text.contains(r#""brokerState":"run""#) && text.contains(r#""lastError":"x""#));
        assert_eq!(serde_json::from_str::<StatusReport>(&text).unwrap(), known);
    }

    #[test]
    fn what_is_no_request_is_answered_with_an_error() {
        let report = StatusReport::default();
        let say = |text: &str| answer(&text.to_owned().into(), &report);
        for wrong in ["", "status", "{}", r#"{"ask":"reboot"}"#, r#"{"ask":"status","x":1}"#] {
            assert!(
                say(wrong).starts_with(r#"{"error":"unknown request"#),
                "{wrong}: {}",
                say(wrong)
            );
        }
        assert!(say(r#"{"ask":"status"}"#).starts_with(r#"{"phase""#));
    }
}
