//! Our agent in a pod, as far as the operator sees it: with which code and message it ends.
//!
//! It reads the same `agent.toml` as the real one.

use super::objects::index_of;
use flux_api::objects::AGENT_CONFIG_KEY;
use flux_contract::invocation::REPLACED_VARIABLES;
use flux_contract::{AgentConfig, Exit, Phase, TerminationMessage, Workload, phase};
use serde_json::Value;

/// How a runner ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    pub code: i32,
    pub message: Option<TerminationMessage>,
}

impl End {
    /// A kill, which leaves no message.
    pub const fn killed() -> Self {
        Self { code: 137, message: None }
    }

    /// The end of a command by itself, or by a signal.
    pub fn of_command(code: i32) -> Self {
        let message = TerminationMessage {
            exit_code: code,
            command_ran: true,
            signal: (code > 128).then(|| code - 128),
            phases: vec![command_phase()],
            ..TerminationMessage::default()
        };
        Self { code, message: Some(message) }
    }

    /// The agent's own end: before the command ran, or while it ran where it has `begun`.
    pub fn of_agent(exit: Exit, begun: bool) -> Self {
        let code = i32::from(exit.code());
        let message = TerminationMessage {
            exit_code: code,
            phases: if begun { vec![command_phase()] } else { vec![] },
            ..TerminationMessage::default()
        };
        Self { code, message: Some(message) }
    }
}

fn command_phase() -> Phase {
    Phase { name: phase::COMMAND.to_owned(), start_milliseconds: 5, duration_milliseconds: 9 }
}

/// The configuration of the agent in a pod.
pub(crate) struct Agent {
    config: AgentConfig,
    is_lead: bool,
    replaced: u32,
}

impl Agent {
    /// The agent of `pod`, whose `ConfigMap` is `config`; or its end, where it cannot start.
    pub(crate) fn start(pod: &Value, config: &Value) -> Result<Self, Box<End>> {
        let text = config["data"][AGENT_CONFIG_KEY].as_str().unwrap_or_default();
        let config = AgentConfig::from_toml(text)
            .map_err(|_| Box::new(End::of_agent(Exit::Config, false)))?;
        let annotations = &pod["metadata"]["annotations"];
        let count = |name: &str| annotations[name].as_str().map_or(0, |it| it.parse().unwrap());
        let replaced = REPLACED_VARIABLES.iter().map(|(_, name)| count(name)).sum::<u32>();
        let agent = Self { config, is_lead: index_of(pod) == 0, replaced };
        // As in `decide` of the agent's plan.
        if agent.has_command() && agent.replaced > agent.config.unstarted_leads {
            return Err(Box::new(End::of_agent(Exit::LeadLost, false)));
        }
        Ok(agent)
    }

    /// True for a lead that runs a command and ends with it.
    pub(crate) fn has_command(&self) -> bool {
        let runs = match self.config.workload {
            Workload::Submit { .. } | Workload::Launcher { .. } | Workload::Batch { .. } => true,
            Workload::Interactive { .. } | Workload::Diagnostics {} => false,
        };
        self.is_lead && runs
    }

    pub(crate) fn deadline(&self) -> Option<u64> {
        self.config.shutdown.deadline_seconds.filter(|_| self.is_lead)
    }
}
