//! Requests to the API server, read from its audit log.

use anyhow::{Context as _, Result};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde::Deserialize;
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

/// A request that was answered.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    stage: String,
    /// The verb, such as `patch`.
    pub verb: String,
    user: User,
    /// The object of the request; `None` for a path such as `/healthz`.
    pub object_ref: Option<Object>,
    #[serde(rename = "requestReceivedTimestamp")]
    received: MicroTime,
    #[serde(rename = "stageTimestamp")]
    answered: MicroTime,
}

/// The object of a request.
#[derive(Debug, Clone, Deserialize)]
pub struct Object {
    /// The kind in the plural, such as `jobs`.
    pub resource: Option<String>,
    /// The subresource, such as `status`.
    pub subresource: Option<String>,
    /// Its namespace, if it is in one.
    pub namespace: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
struct User {
    username: String,
}

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
            requests.extend(serde_json::from_slice::<Request>(&line).ok());
            line.clear();
        }
        // The log has a watch twice: when the watch begins and when it ends.
        requests.retain(|it| it.stage == "ResponseComplete" && it.is_by_the_operator());
        Ok(requests)
    }
}

impl Request {
    fn is_by_the_operator(&self) -> bool {
        let name = &self.user.username;
        name.starts_with("system:serviceaccount:") && name.ends_with(":flux-operator")
    }

    /// Verb, kind and subresource, as `patch miniclusters status`.
    pub fn kind(&self) -> String {
        let object = self.object_ref.as_ref();
        let words = [
            Some(&self.verb),
            object.and_then(|object| object.resource.as_ref()),
            object.and_then(|object| object.subresource.as_ref()),
        ];
        words.into_iter().flatten().map(String::as_str).collect::<Vec<_>>().join(" ")
    }

    /// Whether it asks for a change.
    pub fn is_write(&self) -> bool {
        !["get", "list", "watch"].contains(&self.verb.as_str())
    }

    /// How long the answer took.
    pub fn took(&self) -> Duration {
        let took = self.answered.0.duration_since(self.received.0);
        Duration::try_from(took).unwrap_or_default()
    }
}
