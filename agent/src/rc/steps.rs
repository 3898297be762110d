//! The steps of Flux's own `rc1.py` and `rc3.py` beside loading and removing modules.

use crate::rc::task::{Action, Task};
use serde::Deserialize;

/// Attributes of the broker on which steps depend (flux-broker-attributes(7)).
pub(crate) const RESTORE: &str = "content.restore";
pub(crate) const DUMP: &str = "content.dump";
pub(crate) const CRON_DIRECTORY: &str = "cron.directory";
pub(crate) const BACKING_MODULE: &str = "content.backing-module";
pub(crate) const RECOVERY: &str = "broker.recovery-mode";

/// The steps that run the scripts of `rc1.d` and `rc3.d`.
pub(crate) const SCRIPTS: [&str; 2] = ["run-all-rc1", "run-all-rc3"];

/// The contents of `steps.toml`.
#[derive(Debug, Deserialize)]
pub(crate) struct Steps {
    /// The modules that `rc1.py` names, by name or by service.
    pub(crate) modules: Vec<String>,
    pub(crate) rc1: Vec<Task>,
    pub(crate) rc3: Vec<Task>,
}

impl Steps {
    pub(crate) fn read() -> Result<Self, String> {
        let steps: Result<Self, _> = toml::from_str(include_str!("steps.toml"));
        let mut steps = steps.map_err(|error| error.to_string())?;
        for step in steps.rc1.iter_mut().chain(&mut steps.rc3) {
            step.action = Action::Step;
            step.needs_attribute = match step.name.as_str() {
                "check-restore" | "restore" => Some(RESTORE),
                "cron-load" => Some(CRON_DIRECTORY),
                "content-dump" => Some(DUMP),
                _ => None,
            };
        }
        Ok(steps)
    }
}
