//! Reading `agent.toml`.

use flux_contract::AgentConfig;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadConfigError {
    #[error("read {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{}", path.display())]
    Parse {
        path: PathBuf,
        #[source]
        source: flux_contract::ConfigError,
    },
}

pub(crate) fn read_config(path: &Path) -> Result<AgentConfig, ReadConfigError> {
    let text = fs::read_to_string(path)
        .map_err(|source| ReadConfigError::Read { path: path.to_owned(), source })?;
    AgentConfig::from_toml(&text)
        .map_err(|source| ReadConfigError::Parse { path: path.to_owned(), source })
}
