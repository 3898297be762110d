//! The environment that everything after the set-up sees.

use super::{Pod, fluxion};
use crate::environment::Change;
use crate::facts::{Facts, IMAGE_SHELLS, VIEW_SHELLS};
use flux_contract::{AgentConfig, Workload};
use std::path::{Path, PathBuf};

/// Where jobs may leave their output when the specification names no directory.
pub(super) const DEFAULT_OUTPUT_DIRECTORY: &str = "/tmp/fluxout";

/// The directory of the jobs' output files.
pub(super) fn output_directory(pod: Pod<'_>) -> &str {
    match &pod.config.workload {
        Workload::Batch { output_directory, .. } => output_directory,
        Workload::Interactive { .. }
        | Workload::Submit { .. }
        | Workload::Launcher { .. }
        | Workload::Diagnostics {} => DEFAULT_OUTPUT_DIRECTORY,
    }
}

/// For temporary files, among them those of nested Flux instances, in an image that has no place
/// for them.
pub(super) fn temporary(pod: Pod<'_>) -> PathBuf {
    pod.config.layout.config_root().join("tmp")
}

/// The changes, in order.
pub(super) fn changes(pod: Pod<'_>) -> Vec<Change> {
    let (config, facts) = (pod.config, pod.facts);
    let layout = &config.layout;
    let mut changes = Vec::new();
    if config.view.enabled {
        let view = layout.view();
        // At the end: the image's own programs stay what they were.
        changes.push(append("PATH", &view.join("bin")));
        let own = facts.site_packages.as_deref();
        if let Some(packages) = config.view.python_path.as_deref().map(Path::new).or(own) {
            changes.push(append("PYTHONPATH", packages));
        }
        changes.extend(fluxion::search_paths(pod).iter().map(|(list, path)| append(list, path)));
    }
    changes.extend(shell(pod));
    if !facts.has_temporary_directories {
        let (name, value) = ("TMPDIR".to_owned(), temporary(pod).display().to_string());
        changes.push(Change::Default { name, value });
    }
    changes.push(set("STATE_DIR", &layout.state_dir()));
    changes.push(set("FLUX_OUTPUT_DIR", Path::new(output_directory(pod))));
    // An outer instance of Flux would be taken for ours, or for a launcher of brokers.
    for name in ["FLUX_URI", "FLUX_PMI_CLIENT_METHODS"] {
        changes.push(Change::Unset { name: name.to_owned() });
    }
    changes
}

/// Flux runs its rc tasks with `$SHELL`, by default /bin/bash; one that is missing is fatal.
fn shell(pod: Pod<'_>) -> Option<Change> {
    let there = |path: &Path| pod.facts.executables.contains(path);
    let own = pod.facts.environment.get("SHELL").map(Path::new);
    if own.is_some_and(there) {
        return None;
    }
    let (name, value) =
        ("SHELL".to_owned(), chosen_shell(pod.config, pod.facts).display().to_string());
    Some(match own {
        Some(_) => Change::Set { name, value },
        None => Change::Default { name, value },
    })
}

/// bash of the image, else of the view, else the image's `sh`.
pub fn chosen_shell(config: &AgentConfig, facts: &Facts) -> PathBuf {
    let there = |path: &PathBuf| facts.executables.contains(path);
    let [bash, sh] = IMAGE_SHELLS.map(PathBuf::from);
    let view = config.layout.view().join(VIEW_SHELLS[0]);
    let view = Some(view).filter(|path| config.view.enabled && there(path));
    Some(bash).filter(there).or(view).unwrap_or(sh)
}

fn append(name: &str, value: &Path) -> Change {
    Change::Append { name: name.to_owned(), value: value.display().to_string() }
}

fn set(name: &str, value: &Path) -> Change {
    Change::Set { name: name.to_owned(), value: value.display().to_string() }
}
