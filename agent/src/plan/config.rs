//! Reading `agent.toml`, which may change while a run goes on.

use crate::failure::{Failure, Result};
use crate::system::output::log_line;
use flux_contract::{AgentConfig, Exit};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

/// How often a run reads its configuration again. The kubelet needs about a minute to bring a changed one to the pod.
pub(crate) const CONFIG_POLL: Duration = Duration::from_secs(10);

/// How long one read may take.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) fn read_config(path: &Path) -> Result<AgentConfig> {
    let name = path.display();
    let text = fs::read_to_string(path)
        .map_err(|error| Failure::because(Exit::Config, format!("read {name}"), &error))?;
    AgentConfig::from_toml(&text).map_err(|error| Failure::because(Exit::Config, name, &error))
}

/// Reads the configuration on a thread of its own: PID 1 goes on where the volume does not answer.
pub(crate) struct ConfigReader {
    path: PathBuf,
    timeout: Duration,
    /// There is one read at a time, however long it takes.
    pending: Option<JoinHandle<Option<String>>>,
    warned: bool,
}

impl ConfigReader {
    pub(crate) const fn new(path: PathBuf) -> Self {
        Self { path, timeout: READ_TIMEOUT, pending: None, warned: false }
    }

    /// The text of the configuration, if it can be read in time.
    pub(crate) async fn read(&mut self) -> Option<String> {
        let path = self.path.clone();
        let start = || spawn_blocking(move || fs::read_to_string(path).ok());
        let read = self.pending.get_or_insert_with(start);
        if let Ok(text) = timeout(self.timeout, read).await {
            self.pending = None;
            return text.ok().flatten();
        }
        if !self.warned {
            self.warned = true;
            let path = self.path.display();
            log_line(&format!("warning: {path} cannot be read now: going on with what it had"));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    /// A pipe without a writer stands for a volume that does not answer.
    #[tokio::test]
    async fn a_volume_that_does_not_answer_holds_up_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("agent.toml");
        mkfifo(&path, Mode::S_IRWXU).unwrap();
        let mut reader = ConfigReader::new(path.clone());
        reader.timeout = Duration::from_millis(5);
        for _ in 0..2 {
            assert_eq!(reader.read().await, None);
        }
        fs::write(&path, "text").unwrap();
        reader.timeout = READ_TIMEOUT;
        assert_eq!(reader.read().await.unwrap(), "text", "it is the read of before");
    }
}
