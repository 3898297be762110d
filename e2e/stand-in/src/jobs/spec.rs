//! A job as submitted.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The batch job in whose instance something is asked, none for the instance itself.
pub(crate) type Scope = Option<u64>;

/// What a job is and needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct JobSpec {
    /// Command and arguments; for a batch job, the arguments of its script.
    pub(crate) command: Vec<String>,
    /// Text of a batch script.
    pub(crate) script: Option<String>,
    /// Number of tasks; for a batch job, of slots.
    pub(crate) tasks: u32,
    /// Number of nodes, where one was asked for.
    pub(crate) nodes: Option<u32>,
    /// Cores each task gets.
    pub(crate) cores_per_task: u32,
    /// Whole nodes only.
    pub(crate) exclusive: bool,
    /// Working directory.
    pub(crate) directory: String,
    /// Environment of the submitter, after its options.
    pub(crate) environment: BTreeMap<String, String>,
    /// Standard input; none leaves it open and empty.
    pub(crate) input: Option<String>,
    /// File for standard output.
    pub(crate) output: Option<String>,
    /// File for standard error; the output's file if only that is given.
    pub(crate) error: Option<String>,
    /// `flux job wait` may take the result.
    pub(crate) waitable: bool,
    /// Job name.
    pub(crate) name: String,
    /// The batch job in whose instance it was submitted.
    pub(crate) scope: Scope,
    /// User id of the submitter.
    pub(crate) user: u32,
}

impl JobSpec {
    /// Tasks that are started: a batch job is one script.
    pub(crate) fn processes(&self) -> u32 {
        if self.script.is_some() { 1 } else { self.tasks }
    }
}
