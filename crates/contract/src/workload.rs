//! The work of an instance, as `agent.toml` has it.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// The work of the lead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, tag = "kind", rename_all = "kebab-case")]
pub enum Workload {
    /// No command: the broker runs until it is shut down. A submission is made once.
    Interactive {
        /// Submitted at the quorum. The agent does not wait for its end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        submission: Option<Submission>,
    },
    /// `flux run`, or `flux submit --watch` for several jobs: the instance ends with the command.
    Submit {
        /// The command and its flags.
        submission: Submission,
    },
    /// The command is the instance's initial program and launches Flux jobs itself.
    Launcher {
        /// Goes before the command (`commands.prefix`).
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        prefix: Vec<String>,
        /// Program and arguments.
        command: Vec<String>,
        /// Content of [`CUSTOM_SCRIPT_PATH`](crate::CUSTOM_SCRIPT_PATH) (`commands.script`); the command then runs it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        script: Option<String>,
    },
    /// The lines are written to a script that `flux batch` runs.
    Batch {
        /// Goes before the batch program (`commands.prefix`).
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        prefix: Vec<String>,
        /// Node, task and option flags.
        flags: Vec<String>,
        /// The script, complete with its first line.
        script: String,
        /// Directory of the jobs' output files (`logs`).
        output_directory: String,
    },
    /// `diagnostics: true`: in place of a command, the lead prints the state of the instance and then sleeps until the pod
    /// is deleted, so that a person can examine the instance.
    Diagnostics {},
}

impl Workload {
    /// Whether a person ends the instance, not a command.
    pub const fn is_interactive(&self) -> bool {
        matches!(self, Self::Interactive { .. } | Self::Diagnostics {})
    }
}

/// A command and the flags of its submission.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Submission {
    /// Goes before the submit program (`commands.prefix`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prefix: Vec<String>,
    /// The submit program: `flux submit` unless `flux.submitCommand` says otherwise.
    pub submit: Vec<String>,
    /// Node, task and option flags.
    pub flags: Vec<String>,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Content of [`CUSTOM_SCRIPT_PATH`](crate::CUSTOM_SCRIPT_PATH) (`commands.script`); the command then runs it.
    pub script: Option<String>,
}
