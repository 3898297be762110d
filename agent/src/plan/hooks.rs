//! The user's scripts and the shell they get.

use crate::plan::error::PlanError;
use crate::plan::facts::{Facts, IMAGE_SHELLS, VIEW_SHELLS};
use crate::plan::pod::Pod;
use crate::plan::step::{Hook, Step};
use flux_contract::AgentConfig;
use std::path::PathBuf;

/// `scripts` as steps, each under the field of the specification that it comes from.
pub(super) fn hooks<'run>(
    pod: Pod<'run>,
    scripts: impl IntoIterator<Item = (&'static str, &'run Option<String>)>,
) -> Result<Vec<Step>, PlanError> {
    let given = scripts.into_iter().filter_map(|(name, script)| Some((name, script.as_ref()?)));
    given
        .map(|(name, script)| {
            let shell = shell(pod.config, pod.facts);
            if shell.is_none() && pod.config.logging.strict {
                return Err(PlanError::NoShell { hook: name });
            }
            Ok(Step::RunHook(Hook { name, shell, script: script.clone() }))
        })
        .collect()
}

/// The shell for scripts of the user: the image's, else the view's.
pub(crate) fn shell(config: &AgentConfig, facts: &Facts) -> Option<PathBuf> {
    let image = IMAGE_SHELLS.iter().map(PathBuf::from);
    let view = VIEW_SHELLS.iter().filter(|_| config.view.enabled);
    let view = view.map(|path| config.layout.view().join(path));
    image.chain(view).find(|path| facts.executables.contains(path))
}

/// A hook of a sidecar.
pub fn sidecar_hook(
    config: &AgentConfig,
    facts: &Facts,
    name: &'static str,
    script: Option<&String>,
) -> Option<Hook> {
    let shell = shell(config, facts);
    script.map(|script| Hook { name, shell, script: script.clone() })
}
