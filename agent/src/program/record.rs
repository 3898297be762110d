//! What the wrapper of the initial program leaves for PID 1.

use crate::system::files;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;

/// Most bytes of a record: its longest text is a message of Flux. The jobs may write where it lies.
const LIMIT: u64 = 64 * 1024;

/// What the wrapper leaves for PID 1.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ProgramRecord {
    /// When the command started, by `monotonic_nanoseconds`.
    pub started_monotonic_nanoseconds: u64,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_monotonic_nanoseconds: Option<u64>,
    /// The code the wrapper passed on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that ended the command, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Why the user's command never ran, where that is certain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_run: Option<NotRun>,
    /// What is known about its failure besides the code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Why the user's command never ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NotRun {
    /// Code of [`Exit`](flux_contract::Exit) to end with.
    pub exit_code: u8,
    /// The reason, for people.
    pub reason: String,
}

impl ProgramRecord {
    /// The record at `path`, if there is one.
    pub(crate) fn read(path: &Path) -> Option<Self> {
        serde_json::from_slice(&files::read_bounded(path, LIMIT).ok()?).ok()
    }

    /// Whether the command had ended at `time`, by `monotonic_nanoseconds`.
    pub(crate) fn ended_before(&self, time: Option<u64>) -> bool {
        self.ended_monotonic_nanoseconds.zip(time).is_some_and(|(ended, time)| ended <= time)
    }

    /// Writes the record in one step: a reader sees this one or the one before.
    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        files::write(path, &serde_json::to_vec(self)?, 0o644, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_record_survives_the_round_trip_and_half_a_record_is_none() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("program.json");
        let record = ProgramRecord {
            started_monotonic_nanoseconds: 12,
            ended_monotonic_nanoseconds: Some(34),
            exit_code: Some(143),
            signal: Some(15),
            not_run: Some(NotRun { exit_code: 71, reason: "refused".to_owned() }),
            error: Some("said".to_owned()),
        };
        record.write(&path).unwrap();
        assert_eq!(ProgramRecord::read(&path), Some(record));
        fs::write(&path, "{\"started").unwrap();
        assert_eq!(ProgramRecord::read(&path), None);
    }
}
