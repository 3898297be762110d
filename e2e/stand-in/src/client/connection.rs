//! Asking the broker.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::Call;
use crate::failure::{Failure, strerror};
use crate::protocol::{Reply, Request};

/// Where brokers of the system listen.
const DEFAULT_URI: &str = "local:///run/flux/local";

/// How long a missing socket is waited for.
const PATIENCE: Duration = Duration::from_millis(500);

/// The path behind a `local://` URI.
pub(crate) fn socket_path(uri: &str) -> Result<&str, Failure> {
    uri.strip_prefix("local://")
        .ok_or_else(|| Failure::not_simulated(&format!("connecting to {uri}")))
}

/// Connects to the broker of `FLUX_URI`.
fn connect(call: &Call, prefix: &str) -> Result<UnixStream, Failure> {
    let uri = call.environment.get("FLUX_URI").map_or(DEFAULT_URI, String::as_str);
    let path = socket_path(uri)?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        match UnixStream::connect(path) {
            Ok(stream) => return admitted(stream).map_err(|error| closed(prefix, path, &error)),
            Err(error) if Instant::now() >= deadline => return Err(closed(prefix, path, &error)),
            Err(_) => std::thread::park_timeout(Duration::from_millis(50)),
        }
    }
}

/// Commands of Flux that are Python scripts, which word their failures in another way.
const SCRIPTS: &[&str] = &[
    "flux-submit",
    "flux-run",
    "flux-batch",
    "flux-cancel",
    "flux-jobs",
    "flux-queue",
    "flux-resource",
];

/// What a command says when the broker does not let it in.
fn closed(prefix: &str, path: &str, error: &std::io::Error) -> Failure {
    let name = prefix.split(':').next().unwrap_or_default();
    let reason = strerror(error);
    if !SCRIPTS.contains(&name) {
        let name = if name == "flux-overlay" { name } else { "flux" };
        return Failure::new(format!("{name}: flux_open: {reason}"));
    }
    let missing = error.kind() == std::io::ErrorKind::NotFound;
    let reason = if missing { format!("broker socket {path} was not found") } else { reason };
    Failure::new(format!("{name}: ERROR: Unable to connect to Flux: {reason}"))
}

/// Reads the byte with which the broker lets a client in, 0, or refuses it, an errno.
fn admitted(mut stream: UnixStream) -> std::io::Result<UnixStream> {
    let mut byte = [0_u8; 1];
    stream.read_exact(&mut byte)?;
    match byte {
        [0] => Ok(stream),
        [errno] => Err(std::io::Error::from_raw_os_error(i32::from(errno))),
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The broker was not reached, or was lost.
    Lost(Failure),
    /// The broker refused.
    Refused {
        /// Why.
        reason: String,
        /// Exit code for the command.
        code: u8,
        /// The error number behind the reason.
        errno: i32,
    },
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::Lost(failure)
    }
}

/// Asks and returns the answer; what comes before it goes to `part`. `None` waits without limit.
///
/// # Errors
/// The broker's refusal behind `prefix`, or `prefix: Connection timed out`.
pub(crate) fn ask_with(
    call: &Call,
    prefix: &str,
    request: &Request,
    limit: Option<Duration>,
    part: &mut dyn FnMut(Reply),
) -> Result<Value, Failure> {
    exchange(call, prefix, request, limit, part).map_err(|trouble| match trouble {
        Trouble::Lost(failure) => failure,
        Trouble::Refused { reason, code, errno: _ } => {
            Failure::with_code(code, format!("{prefix}: {reason}"))
        }
    })
}

/// As [`ask_with`], with the broker's refusal as it came.
pub(crate) fn exchange(
    call: &Call,
    prefix: &str,
    request: &Request,
    limit: Option<Duration>,
    part: &mut dyn FnMut(Reply),
) -> Result<Value, Trouble> {
    let mut stream = connect(call, prefix)?;
    let fault = |text: &str| Failure::new(format!("{prefix}: {text}"));
    let broken = |error: std::io::Error| {
        let late = [std::io::ErrorKind::WouldBlock, std::io::ErrorKind::TimedOut];
        let text = strerror(&error);
        fault(if late.contains(&error.kind()) { "Connection timed out" } else { &text })
    };
    let mut line = serde_json::to_vec(request).map_err(|error| fault(&error.to_string()))?;
    line.push(b'\n');
    stream.write_all(&line).map_err(broken)?;
    let deadline = limit.map(|limit| Instant::now() + limit);
    let mut reader = BufReader::new(stream);
    loop {
        if let Some(deadline) = deadline {
            let left = deadline.saturating_duration_since(Instant::now());
            let left = left.max(Duration::from_millis(1));
            reader.get_ref().set_read_timeout(Some(left)).map_err(broken)?;
        }
        let mut line = String::new();
        if reader.read_line(&mut line).map_err(broken)? == 0 {
            return Err(fault("Connection reset by peer").into());
        }
        match serde_json::from_str(&line).map_err(|error| fault(&error.to_string()))? {
            Reply::Done(value) => return Ok(value),
            Reply::Failed { reason, code, errno } => {
                return Err(Trouble::Refused { reason, code, errno });
            }
            other @ (Reply::Output { .. } | Reply::Event { .. } | Reply::Log(_)) => part(other),
        }
    }
}

/// Asks, waits for the answer, and returns it.
pub(crate) fn ask(call: &Call, prefix: &str, request: &Request) -> Result<Value, Failure> {
    ask_with(call, prefix, request, None, &mut |_| {})
}
