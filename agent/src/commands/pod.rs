//! Configuration and facts of the pod of a subcommand.

use crate::commands::arguments::PodArguments;
use crate::failure::{Failure, Result};
use crate::flux::resources::Resources;
use crate::plan::config::read_config;
use crate::plan::decide::{self, client_environment};
use crate::plan::facts::Facts;
use crate::plan::step::Role;
use crate::system::output::chain;
use crate::system::root::Root;
use flux_contract::{AgentConfig, CURVE_MOUNT, CURVE_SECRET_KEY, Exit, Layout, PRIVATE_MOUNT};
use flux_protocol::CurveCertificate;
use flux_protocol::client::BrokerAddress;
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub(crate) struct PodContext {
    pub(crate) config: AgentConfig,
    pub(crate) facts: Facts,
    pub(crate) root: Root,
}

impl PodContext {
    pub(crate) fn read(arguments: &PodArguments) -> Result<Self> {
        let root = arguments.root.clone();
        let config = read_config(&root.at(&arguments.config))?;
        let facts = Facts::gather(&config, &root, arguments.hostname.clone())?;
        Ok(Self { config, facts, root })
    }

    /// The resources of the pod. Only the lead has the resource set of Flux.
    pub(crate) fn resources(&self) -> Resources {
        let role = decide::role(&self.config, &self.facts);
        let is_lead = role.is_ok_and(|(role, _)| role == Role::Lead);
        let set = is_lead.then(|| self.config.layout.resource_file().into());
        Resources::read(&self.root, set, self.facts.has_own_cores)
    }

    /// The broker of this pod, for connections as the user of this process.
    pub(crate) fn broker(&self) -> Result<BrokerAddress> {
        let client = client_environment(&self.config, &self.facts)?;
        Ok(BrokerAddress { socket: self.root.at(client.socket), owner: None })
    }

    /// The path of the certificate: the broker's copy, or else the mounted one.
    pub(crate) fn certificate_path(&self) -> PathBuf {
        let copy = self.root.at(self.config.layout.curve_certificate());
        let mounted = self.root.at(Path::new(CURVE_MOUNT).join(CURVE_SECRET_KEY));
        if copy.exists() { copy } else { mounted }
    }
}

/// The layout of the shared volume, if this program was started from there.
pub(crate) fn own_layout() -> Option<Layout> {
    let own = std::env::current_exe().ok()?;
    let layout = Layout::new(own.parent()?.parent()?.to_str()?).with_private(PRIVATE_MOUNT);
    (own == Path::new(&layout.agent())).then_some(layout)
}

pub(crate) fn read_certificate(path: &Path) -> Result<CurveCertificate> {
    let text =
        fs::read_to_string(path).map_err(|error| format!("read {}: {error}", path.display()));
    text.and_then(|text| CurveCertificate::parse(&text).map_err(|error| chain(&error)))
        .map_err(|text| Failure::new(Exit::Prepare, text))
}
