//! Broker configuration. Tables in which Flux refuses unknown keys, and those it gives types to, are
//! read as strictly here; keys that only real Flux understands are unknown as well.

pub(crate) mod bootstrap;
pub(crate) mod resource;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::failure::{Failure, strerror};

/// The whole configuration.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Config {
    /// Who may talk to the broker's socket.
    #[serde(default)]
    pub(crate) access: Access,
    /// Who the brokers are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bootstrap: Option<bootstrap::Table>,
    /// How jobs are run.
    #[serde(default)]
    pub(crate) exec: Exec,
    /// What the brokers have.
    #[serde(default)]
    pub(crate) resource: resource::Table,
    /// The overlay network.
    #[serde(default)]
    pub(crate) tbon: Tbon,
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

/// flux-config-access(5).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Access {
    /// Other users may connect as guests.
    pub(crate) allow_guest_user: bool,
    /// Root acts as the owner.
    pub(crate) allow_root_owner: bool,
}

/// flux-config-exec(5).
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct Exec {
    /// Time from SIGTERM to SIGKILL.
    pub(crate) kill_timeout: Option<String>,
    imp: Option<String>,
    service: Option<String>,
}

/// flux-config-tbon(5).
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Tbon {
    /// Scheme of the tree of brokers.
    pub(crate) topo: Option<String>,
    /// Limit of one TCP connection attempt.
    pub(crate) connect_timeout: Option<String>,
}

/// Tables of real Flux that would change what is seen here. Any other is nobody's business.
const NOT_SIMULATED: [&str; 6] =
    ["modules", "fake-resources", "heartbeat", "policy", "queues", "systemd"];

/// The configuration at `path`: a file, or a directory with one `*.toml`.
pub(crate) fn load(path: &str) -> Result<Config, Failure> {
    let fault = |error: &std::io::Error| {
        Failure::new(format!("broker: Config file error: {path}: {}", strerror(error)))
    };
    let found = std::fs::metadata(path).map_err(|error| fault(&error))?;
    let file = if found.is_dir() {
        only_file(Path::new(path)).map_err(|error| fault(&error))?
    } else {
        Some(PathBuf::from(path))
    };
    let file = file
        .ok_or_else(|| Failure::not_simulated(&format!("more or less than one file in {path}")))?;
    let text = std::fs::read_to_string(&file).map_err(|error| fault(&error))?;
    let config: Config = toml::from_str(&text).map_err(|error| {
        Failure::new(format!("broker: Config file error: {}: {error}", file.display()))
    })?;
    match config.not_simulated() {
        Some(table) => Err(Failure::not_simulated(&format!("configuration of {table}"))),
        None => Ok(config),
    }
}

fn only_file(directory: &Path) -> std::io::Result<Option<PathBuf>> {
    let entries: Result<Vec<_>, _> = std::fs::read_dir(directory)?.collect();
    let mut files = entries?
        .into_iter()
        .map(|entry| entry.path())
        .filter(|file| file.extension().is_some_and(|suffix| suffix == "toml"));
    Ok(files.next().filter(|_| files.next().is_none()))
}

impl Config {
    fn not_simulated(&self) -> Option<&'static str> {
        let table = NOT_SIMULATED.into_iter().find(|table| self.others.contains_key(*table));
        let imp = self.exec.imp.as_ref().or(self.exec.service.as_ref());
        let discovery = self.resource.path.is_empty().then_some("resource without a path");
        table.or_else(|| imp.map(|_| "exec.imp and exec.service")).or(discovery)
    }
}
