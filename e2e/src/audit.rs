//! Requests to the API server, read from its audit log.

use anyhow::{Context as _, Result};
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The audit log of an API server, read as it grows.
#[derive(Debug)]
pub struct Audit {
    log: PathBuf,
    /// How many bytes have been read.
    read: u64,
}

/// A request that was answered: an Event of the API group `audit.k8s.io`.
#[derive(Debug, Clone)]
pub struct Request(Value);

impl Audit {
    /// Opens the log at this path and skips what it has already.
    pub fn from_now_on(log: &Path) -> Result<Self> {
        let mut audit = Self { log: log.to_owned(), read: 0 };
        audit.operator()?;
        Ok(audit)
    }

    /// Returns the operator's requests that the API server has answered since the last call.
    pub fn operator(&mut self) -> Result<Vec<Request>> {
        let mut log = File::open(&self.log).context("opening the audit log")?;
        log.seek(SeekFrom::Start(self.read)).context("reading the audit log")?;
        let (mut log, mut line, mut requests) = (BufReader::new(log), Vec::new(), Vec::new());
        // The API server may have written half of the last line: the next call reads that line.
        while log.read_until(b'\n', &mut line)? > 0 && line.ends_with(b"\n") {
            self.read += u64::try_from(line.len())?;
            requests.extend(serde_json::from_slice(&line).ok().map(Request));
            line.clear();
        }
        // The log has a watch twice: when the watch begins and when it ends.
        requests.retain(|it| it.0["stage"] == "ResponseComplete" && it.is_by_the_operator());
        Ok(requests)
    }
}

impl Request {
    fn text(&self, pointer: &str) -> &str {
        self.0.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    fn is_by_the_operator(&self) -> bool {
        let name = self.text("/user/username");
        name.starts_with("system:serviceaccount:") && name.ends_with(":flux-operator")
    }

    /// The namespace of the object; empty if it is in none.
    pub fn namespace(&self) -> &str {
        self.text("/objectRef/namespace")
    }

    /// Verb, kind and subresource, as `patch miniclusters status`.
    pub fn kind(&self) -> String {
        let words = ["/verb", "/objectRef/resource", "/objectRef/subresource"];
        words.map(|pointer| self.text(pointer)).join(" ").trim_end().to_owned()
    }

    pub fn is_write(&self) -> bool {
        !["get", "list", "watch"].contains(&self.text("/verb"))
    }

    pub fn took(&self) -> Duration {
        let times = ["/stageTimestamp", "/requestReceivedTimestamp"];
        let [answered, received] = times.map(|pointer| self.text(pointer).parse::<Timestamp>());
        let took = answered.ok().zip(received.ok()).map(|(end, begin)| end.duration_since(begin));
        took.and_then(|took| Duration::try_from(took).ok()).unwrap_or_default()
    }
}
