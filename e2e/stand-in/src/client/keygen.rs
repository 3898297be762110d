//! `flux keygen`.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::time::{SystemTime, UNIX_EPOCH};

use omq_proto::CurveKeypair;

use super::Call;
use crate::certificate;
use crate::failure::{Failure, strerror};
use crate::options::{Argument, short};
use crate::output;

/// `flux keygen [--name=NAME] [--meta=K=V,...] PATH`.
pub(crate) fn run(call: &Call) -> Result<u8, Failure> {
    let choices =
        [short("name", 'n', Argument::Required), crate::options::long("meta", Argument::Split)];
    let parsed = call.options("keygen", &choices)?;
    let path = match parsed.rest.as_slice() {
        [] => {
            let text = "flux-keygen: WARNING: add PATH argument to save generated certificate";
            output::error_line(text);
            return Ok(0);
        }
        [path] => path,
        _ => return Err(Failure::new("Usage: flux-keygen [OPTIONS] [PATH]")),
    };
    let hostname = nix::unistd::gethostname()
        .map_err(|error| Failure::new(format!("flux-keygen: gethostname: {error}")))?;
    let hostname = hostname.to_string_lossy();
    let mut metadata: Vec<(String, String)> = Vec::new();
    let mut add = |key: &str, value: &str| {
        if metadata.iter().all(|(known, _)| known != key) {
            metadata.push((key.to_owned(), value.to_owned()));
        }
    };
    if let Some(name) = parsed.value("name") {
        add("name", name);
    }
    for pair in parsed.values("meta") {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        add(key, value);
    }
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    add("name", &hostname);
    add("keygen.hostname", &hostname);
    add("keygen.time", &seconds.to_string());
    add("keygen.userid", &nix::unistd::getuid().to_string());
    add("keygen.flux-core-version", "0.88.0");
    let text = certificate::write(&CurveKeypair::generate(), &metadata);
    let mut options = std::fs::OpenOptions::new();
    options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| Failure::new(format!("flux-keygen: open {path}: {}", strerror(&error))))?;
    Ok(0)
}
