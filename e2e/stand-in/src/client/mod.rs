//! The commands, most of which talk to a broker.

pub(crate) mod jobs;
pub(crate) mod simple;
pub(crate) mod submit;

use crate::environment::Environment;
use crate::options::{Parsed, parse};
use crate::output::{Failure, Stream, strerror};
use crate::protocol::{Reply, Request, Scope};
use flux_protocol::job_id;
use serde_json::{Deserializer, Value, json};
use std::io::{BufReader, Error, Read, Write};
use std::os::unix::net::UnixStream;

/// Where brokers of the system listen.
const DEFAULT_URI: &str = "local:///run/flux/local";

#[derive(Clone)]
pub(crate) struct Call {
    /// The command, with its sub-command.
    pub(crate) name: &'static str,
    pub(crate) words: Vec<String>,
    /// The environment after the front end's additions.
    pub(crate) environment: Environment,
}

impl Call {
    fn options(&self, list: &str) -> Result<Parsed, Failure> {
        parse(self.name, &self.words, list)
    }

    /// The words after the command's name.
    fn given(&self) -> Vec<&str> {
        self.words.iter().map(String::as_str).collect()
    }

    /// Refuses this call, and names the calls that are simulated.
    fn but(&self, form: &str) -> Failure {
        Failure::not_simulated(&format!("{} but {form}", self.name))
    }

    /// The batch job this runs in: its script has an instance of its own.
    pub(crate) fn scope(&self) -> Scope {
        self.environment.get("FLUX_ENCLOSING_ID").and_then(|text| job_id::parse(text))
    }

    /// Asks the broker of `FLUX_URI` and returns the answer; output that comes before it goes to
    /// `print`. The error is what went wrong, behind `prefix`.
    fn ask_with(
        &self,
        prefix: &str,
        request: &Request,
        print: &mut dyn FnMut(Stream, &str),
    ) -> Result<Value, Failure> {
        let path =
            socket_path(self.environment.get("FLUX_URI").map_or(DEFAULT_URI, String::as_str))?;
        let fault = |error: Error| Failure::new(format!("{prefix}: {path}: {}", strerror(&error)));
        let mut stream = UnixStream::connect(path).and_then(admitted).map_err(fault)?;
        writeln!(stream, "{}", json!(request)).map_err(fault)?;
        for reply in Deserializer::from_reader(BufReader::new(stream)).into_iter() {
            match reply.map_err(|error| fault(error.into()))? {
                Reply::Done(value) => return Ok(value),
                Reply::Output(stream, text) => print(stream, &text),
                Reply::Failed(reason, code) => {
                    return Err(Failure::with_code(code, format!("{prefix}: {reason}")));
                }
            }
        }
        Err(Failure::new(format!("{prefix}: Connection reset by peer")))
    }

    fn ask(&self, prefix: &str, request: &Request) -> Result<Value, Failure> {
        self.ask_with(prefix, request, &mut |_, _| {})
    }
}

fn parsed_id(text: &str) -> Result<u64, Failure> {
    let fault = || Failure::new(format!("flux-job: error parsing jobid: \"{text}\""));
    job_id::parse(text).ok_or_else(fault)
}

fn socket_path(uri: &str) -> Result<&str, Failure> {
    uri.strip_prefix("local://")
        .ok_or_else(|| Failure::not_simulated(&format!("connecting to {uri}")))
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

/// What `format` makes of values by their names. Real Flux has more names, and other forms.
fn formatted(format: &str, values: &Value) -> Result<String, Failure> {
    let values = values.as_object().into_iter().flatten();
    let line = values.fold(format.to_owned(), |line, (name, value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        line.replace(&format!("{{{name}}}"), &value)
    });
    if line.contains('{') {
        return Err(Failure::not_simulated(&format!("format {format}")));
    }
    Ok(line)
}
