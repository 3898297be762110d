//! The pod that is planned for.

use crate::plan::facts::Facts;
use crate::plan::step::Role;
use flux_contract::AgentConfig;
use std::path::PathBuf;

/// Configuration, facts, role and rank, on which all parts of a plan depend.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pod<'run> {
    pub(crate) config: &'run AgentConfig,
    pub(crate) facts: &'run Facts,
    pub(crate) role: Role,
    pub(crate) rank: u32,
}

impl Pod<'_> {
    pub(crate) fn socket(&self) -> PathBuf {
        let layout = &self.config.layout;
        if self.config.broker.local_socket {
            layout.local_socket().into()
        } else {
            format!("{}/local-{}", layout.run_dir(), self.rank).into()
        }
    }

    pub(crate) fn uri(&self) -> String {
        format!("local://{}", self.socket().display())
    }

    /// The `flux` command: absolute when it is the view's, so that no other one on the image's `PATH` is taken for it.
    pub(crate) fn flux(&self) -> String {
        if self.config.view.enabled {
            format!("{}/bin/flux", self.config.layout.view())
        } else {
            "flux".to_owned()
        }
    }

    /// `words` with [`Self::flux`] in place of a leading `flux`.
    pub(crate) fn with_flux(&self, words: &[String]) -> Vec<String> {
        let mut words = words.to_vec();
        if let Some(first) = words.first_mut().filter(|first| *first == "flux") {
            *first = self.flux();
        }
        words
    }

    /// Whether an earlier pod of this index may have run something: at least one of them was started.
    pub(crate) fn follows_a_run(&self) -> bool {
        self.facts.replaced > self.config.unstarted_leads
    }

    /// Whether the lead submits the command: no earlier lead has done so, and no archive has the job.
    pub(crate) fn submits(&self) -> bool {
        self.role == Role::Lead && !self.follows_a_run() && !self.config.submitted
    }
}
