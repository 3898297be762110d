//! Reading `agent.toml`.

use crate::failure::Failure;
use flux_contract::{AgentConfig, Exit};
use std::fs;
use std::path::Path;

pub(crate) fn read_config(path: &Path) -> Result<AgentConfig, Failure> {
    let name = path.display();
    let text = fs::read_to_string(path)
        .map_err(|error| Failure::because(Exit::Config, format!("read {name}"), &error))?;
    AgentConfig::from_toml(&text).map_err(|error| Failure::because(Exit::Config, name, &error))
}
