//! The pod that a subcommand is about: its configuration and facts.

use crate::commands::arguments::PodArguments;
use crate::commands::failure::failed;
use crate::plan::config::read_config;
use crate::plan::decide::{self, Surroundings, surroundings};
use crate::plan::facts::Facts;
use crate::plan::step::{AwaitLead, Role};
use crate::system::output::{chain, complain};
use crate::system::root::Root;
use flux_contract::{AgentConfig, CURVE_MOUNT, CURVE_SECRET_KEY, CurveCertificate, Exit};
use std::fs;
use std::path::{Path, PathBuf};

/// Configuration and facts of a pod.
#[derive(Debug)]
pub(crate) struct Pod {
    pub(crate) config: AgentConfig,
    pub(crate) facts: Facts,
    pub(crate) root: Root,
}

impl Pod {
    /// Reads them; where that fails, the code to end with and what to say.
    pub(crate) fn gather(arguments: &PodArguments) -> Result<Self, (Exit, String)> {
        let root = Root::new(&arguments.root);
        let config = read_config(&root.at(&arguments.config))
            .map_err(|error| (Exit::Config, chain(&error)))?;
        let facts = Facts::gather(&config, &root, arguments.hostname.clone())
            .map_err(|error| (Exit::Internal, chain(&error)))?;
        Ok(Self { config, facts, root })
    }

    /// Reads them; complains and gives the code to end with where that fails.
    pub(crate) fn read(arguments: &PodArguments) -> Result<Self, u8> {
        Self::gather(arguments).map_err(|(exit, text)| {
            complain(&text);
            exit.code()
        })
    }

    /// The resource set by which Flux schedules; a worker has none.
    pub(crate) fn resource_set(&self) -> Option<PathBuf> {
        let role = decide::role(&self.config, &self.facts);
        let is_lead = role.is_ok_and(|(role, _)| role == Role::Lead);
        is_lead.then(|| self.config.layout.resource_file())
    }

    /// Where its certificate is: the broker's copy, else the mounted one.
    pub(crate) fn certificate_path(&self) -> PathBuf {
        let copy = self.root.at(self.config.layout.curve_certificate());
        let mounted = self.root.at(Path::new(CURVE_MOUNT).join(CURVE_SECRET_KEY));
        if copy.exists() { copy } else { mounted }
    }

    /// What a client of its broker needs.
    pub(crate) fn surroundings(&self) -> Result<Surroundings, u8> {
        surroundings(&self.config, &self.facts).map_err(|error| failed(error.exit(), &error))
    }

    /// Where and how long to wait for the lead.
    pub(crate) fn lead(&self) -> Result<AwaitLead, u8> {
        decide::lead(&self.config, &self.facts).map_err(|error| failed(error.exit(), &error))
    }
}

/// The certificate at `path`; what is wrong is the error's text.
pub(crate) fn read_certificate(path: &Path) -> Result<CurveCertificate, String> {
    let text =
        fs::read_to_string(path).map_err(|error| format!("read {}: {error}", path.display()))?;
    CurveCertificate::parse(&text).map_err(|error| chain(&error))
}

/// The certificate at `path`; complains and gives the code to end with where there is none.
pub(crate) fn certificate_at(path: &Path) -> Result<CurveCertificate, u8> {
    read_certificate(path).map_err(|text| {
        complain(&text);
        Exit::Prepare.code()
    })
}
