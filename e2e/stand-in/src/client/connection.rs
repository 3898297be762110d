//! Asking the broker.

use std::io::{BufRead, BufReader, Error, Read, Write};
use std::os::unix::net::UnixStream;

use serde_json::Value;

use super::Call;
use crate::failure::{Failure, strerror};
use crate::output::Stream;
use crate::protocol::{Reply, Request};

/// Where brokers of the system listen.
const DEFAULT_URI: &str = "local:///run/flux/local";

/// The path behind a `local://` URI.
pub(crate) fn socket_path(uri: &str) -> Result<&str, Failure> {
    uri.strip_prefix("local://")
        .ok_or_else(|| Failure::not_simulated(&format!("connecting to {uri}")))
}

/// Connects to the broker of `FLUX_URI`.
fn connect(call: &Call, prefix: &str) -> Result<UnixStream, Failure> {
    let uri = call.environment.get("FLUX_URI").map_or(DEFAULT_URI, String::as_str);
    let path = socket_path(uri)?;
    let fault = |error: Error| Failure::new(format!("{prefix}: {path}: {}", strerror(&error)));
    UnixStream::connect(path).and_then(admitted).map_err(fault)
}

/// Reads the byte with which the broker lets a client in, 0, or refuses it, an errno.
fn admitted(mut stream: UnixStream) -> std::io::Result<UnixStream> {
    let mut byte = [0_u8; 1];
    stream.read_exact(&mut byte)?;
    match byte {
        [0] => Ok(stream),
        [errno] => Err(Error::from_raw_os_error(i32::from(errno))),
    }
}

/// Asks and returns the answer; output that comes before it goes to `print`.
///
/// # Errors
/// The broker's refusal behind `prefix`.
pub(crate) fn ask_with(
    call: &Call,
    prefix: &str,
    request: &Request,
    print: &mut dyn FnMut(Stream, &str),
) -> Result<Value, Failure> {
    let mut stream = connect(call, prefix)?;
    let fault = |text: &str| Failure::new(format!("{prefix}: {text}"));
    let mut line = serde_json::to_vec(request).map_err(|error| fault(&error.to_string()))?;
    line.push(b'\n');
    stream.write_all(&line).map_err(|error| fault(&strerror(&error)))?;
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).map_err(|error| fault(&strerror(&error)))? == 0 {
            return Err(fault("Connection reset by peer"));
        }
        match serde_json::from_str(&line).map_err(|error| fault(&error.to_string()))? {
            Reply::Done(value) => return Ok(value),
            Reply::Output(stream, text) => print(stream, &text),
            Reply::Failed(reason, code) => {
                return Err(Failure::with_code(code, format!("{prefix}: {reason}")));
            }
        }
    }
}

/// Asks, waits for the answer, and returns it.
pub(crate) fn ask(call: &Call, prefix: &str, request: &Request) -> Result<Value, Failure> {
    ask_with(call, prefix, request, &mut |_, _| {})
}
