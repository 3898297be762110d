//! The environment that everything after the set-up sees.

use super::Pod;
use crate::environment::Change;
use crate::facts::{IMAGE_SHELLS, VIEW_SHELLS};
use flux_contract::Workload;
use std::path::Path;

/// Where jobs may leave their output when the specification names no directory.
pub(super) const DEFAULT_OUTPUT_DIRECTORY: &str = "/tmp/fluxout";

/// The directory of the jobs' output files.
pub(super) fn output_directory(pod: Pod<'_>) -> &str {
    match &pod.config.workload {
        Workload::Batch { output_directory, .. } => output_directory,
        Workload::Interactive { .. } | Workload::Submit { .. } | Workload::Launcher { .. } => {
            DEFAULT_OUTPUT_DIRECTORY
        }
    }
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
        if !config.broker.simple_scheduler {
            changes.push(set("FLUX_RC_EXTRA", &view.join("etc/flux/rc1.d")));
        }
    }
    changes.extend(shell(pod));
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
    let (config, facts) = (pod.config, pod.facts);
    let there = |path: &Path| facts.executables.contains(path);
    let own = facts.environment.get("SHELL").map(Path::new);
    if own.is_some_and(there) {
        return None;
    }
    let [bash, sh] = IMAGE_SHELLS.map(Path::new);
    let view_bash = config.layout.view().join(VIEW_SHELLS[0]);
    let chosen = if there(bash) {
        bash
    } else if config.view.enabled && there(&view_bash) {
        &view_bash
    } else {
        sh
    };
    let (name, value) = ("SHELL".to_owned(), chosen.display().to_string());
    Some(match own {
        Some(_) => Change::Set { name, value },
        None => Change::Default { name, value },
    })
}

fn append(name: &str, value: &Path) -> Change {
    Change::Append { name: name.to_owned(), value: value.display().to_string() }
}

fn set(name: &str, value: &Path) -> Change {
    Change::Set { name: name.to_owned(), value: value.display().to_string() }
}
