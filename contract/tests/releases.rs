//! `agent.toml` across releases: what an operator of this release writes for a run that another one
//! started is read by the agents of that run (docs/design/operator-and-agent.md).
//!
//! `golden/<release>/` holds documents as that release wrote them. They are never changed; a new
//! release adds a folder of its own.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use flux_contract::AgentConfig;
use std::error::Error as _;
use std::fs;
use std::path::{Path, PathBuf};

/// Every document of every release, with its text.
fn documents() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let entries = |path: &Path| fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    let paths = entries(&root).flat_map(|release| entries(&release).collect::<Vec<_>>());
    paths.map(|path| (path.clone(), fs::read_to_string(&path).unwrap())).collect()
}

/// A new field without a default cannot be read; one that is not left out at its default is written
/// where no agent of that release knows it.
#[test]
fn a_document_of_every_release_is_read_and_written_again_to_the_byte() {
    let documents = documents();
    assert!(documents.len() >= 7, "only {} documents", documents.len());
    for (path, text) in documents {
        let config = AgentConfig::from_toml(&text).unwrap_or_else(|error| {
            let cause = error.source().map(ToString::to_string);
            panic!("{}: {error}: {}", path.display(), cause.unwrap_or_default())
        });
        assert_eq!(config.to_toml().unwrap(), text, "{}", path.display());
    }
}

/// It came within 0.1.0 without a default: some documents of that release do not have it.
#[test]
fn a_document_from_before_capabilities_is_read() {
    for (path, text) in documents() {
        let lines = text.lines().filter(|line| !line.starts_with("capabilities = "));
        let text: Vec<&str> = lines.collect();
        assert!(AgentConfig::from_toml(&text.join("\n")).is_ok(), "{}", path.display());
    }
}
