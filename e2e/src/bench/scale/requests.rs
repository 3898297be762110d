//! The requests of one user, counted in the API server's audit log.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufRead, BufReader, Seek as _, SeekFrom},
    path::PathBuf,
};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

/// How many requests of each kind, as `patch miniclusters status`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct Requests(BTreeMap<String, u64>);

impl Requests {
    /// All of them.
    pub(super) fn all(&self) -> u64 {
        self.0.values().sum()
    }

    /// Those that may change something.
    pub(super) fn writes(&self) -> u64 {
        let reads = ["get", "list", "watch"];
        let is_write = |kind: &str| !reads.iter().any(|verb| kind.starts_with(verb));
        self.0.iter().filter(|(kind, _)| is_write(kind)).map(|(_, count)| count).sum()
    }

    /// The kinds, most of them first.
    pub(super) fn describe(&self) -> String {
        let mut kinds: Vec<_> = self.0.iter().collect();
        kinds.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let kinds: Vec<_> = kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        kinds.join(", ")
    }
}

/// The audit log, and whose requests are counted.
pub(super) struct Audit {
    pub(super) log: PathBuf,
    pub(super) user: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    stage: String,
    verb: String,
    user: User,
    object_ref: Option<Object>,
}

#[derive(Deserialize)]
struct User {
    username: String,
}

#[derive(Deserialize)]
struct Object {
    resource: Option<String>,
    subresource: Option<String>,
}

impl Audit {
    /// Where the log ends now.
    pub(super) fn position(&self) -> Result<u64> {
        let metadata = std::fs::metadata(&self.log).context("looking at the audit log")?;
        Ok(metadata.len())
    }

    /// What was asked for since `position`. A watch counts once it has ended.
    pub(super) fn since(&self, position: u64) -> Result<Requests> {
        let mut file = File::open(&self.log).context("opening the audit log")?;
        file.seek(SeekFrom::Start(position)).context("finding a place in the audit log")?;
        self.count(BufReader::new(file))
    }

    fn count(&self, log: impl BufRead) -> Result<Requests> {
        let mut requests = Requests::default();
        for line in log.lines() {
            let line = line.context("reading the audit log")?;
            // Most lines are somebody else's, and the last one may be half written.
            if !line.contains(&self.user) {
                continue;
            }
            let Ok(entry) = serde_json::from_str::<Entry>(&line) else { continue };
            if entry.user.username != self.user || entry.stage != "ResponseComplete" {
                continue;
            }
            let object = entry.object_ref.map(|it| [it.resource, it.subresource]);
            let words = object.into_iter().flatten().flatten();
            let words: Vec<String> = [entry.verb].into_iter().chain(words).collect();
            *requests.0.entry(words.join(" ")).or_default() += 1;
        }
        Ok(requests)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_the_user_alone_are_counted_by_kind() {
        let line = |user: &str, stage: &str, verb: &str, sub: &str| {
            format!(
                r#"{{"stage":"{stage}","verb":"{verb}","user":{{"username":"{user}"}},"objectRef":{{"resource":"jobs"{sub}}}}}"#
            )
        };
        let status = r#","subresource":"status""#;
        let log = [
            line("us", "ResponseComplete", "create", ""),
            line("us", "ResponseComplete", "patch", status),
            line("us", "ResponseComplete", "get", ""),
            line("us", "ResponseStarted", "watch", ""),
            line("us too", "ResponseComplete", "get", ""),
            line("us", "ResponseComplete", "get", ""),
            r#"{"stage":"ResponseComplete","verb":"get","user":{"username":"us"#.to_owned(),
        ]
        .join("\n");
        let audit = Audit { log: PathBuf::new(), user: "us".to_owned() };
        let requests = audit.count(log.as_bytes()).unwrap();
        assert_eq!((requests.all(), requests.writes()), (4, 2));
        assert_eq!(requests.describe(), "2 get jobs, 1 create jobs, 1 patch jobs status");
    }
}
