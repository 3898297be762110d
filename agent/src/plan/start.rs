//! The command line of a broker at the moment of its start: hooks may have changed what it depends on.

use crate::plan::broker::attribute;
use crate::plan::step::BrokerRun;
use std::path::{Path, PathBuf};

/// What the command line depends on besides the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BeforeStart {
    /// The options by which the agent is the broker's rc1 and rc3, or why Flux does that.
    pub rc_options: Result<Vec<String>, String>,
    /// What is restored, if there is an archive or a checkpoint.
    pub restored: Option<Restored>,
    /// There is a directory for the next state of the archive.
    pub can_dump: bool,
}

/// The state that a broker begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Restored {
    pub path: PathBuf,
    /// The states of the queues are part of it.
    pub has_queues: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BrokerStart {
    pub argv: Vec<String>,
    /// The agent is the broker's rc1, which does not wait until the scheduler runs.
    pub loads_modules: bool,
    /// The named queues of the instance are stopped, as it is new or was lost. In an archive they are as they were left.
    pub starts_queues: bool,
}

pub(crate) fn broker_start(broker: &BrokerRun, before: &BeforeStart) -> BrokerStart {
    let mut argv = broker.command.clone();
    let set = |name: &str, path: &Path| attribute(&format!("{name}={}", path.display()));
    argv.extend(before.restored.as_ref().map(|it| set("content.restore", &it.path)));
    let dumped = broker.archive.as_ref().filter(|_| before.can_dump);
    argv.extend(dumped.map(|archive| set("content.dump", &archive.dump)));
    argv.extend(before.rc_options.iter().flatten().cloned());
    BrokerStart {
        argv,
        loads_modules: before.rc_options.is_ok(),
        starts_queues: !before.restored.as_ref().is_some_and(|it| it.has_queues),
    }
}
