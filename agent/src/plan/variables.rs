//! The variables of the broker, its command, and its clients.

use crate::plan::facts::{Facts, IMAGE_SHELLS, MEMORY, VIEW_SHELLS};
use crate::plan::pod::Pod;
use crate::system::environment::Change;
use flux_contract::{AgentConfig, DEFAULT_OUTPUT_DIRECTORY, Workload};
use std::path::{Path, PathBuf};

/// The variable that keeps Flux from registering its cleanup, and its value: some releases ask for this one.
pub(crate) const DISABLE_JOB_CLEANUP: (&str, &str) = ("FLUX_DISABLE_JOB_CLEANUP", "t");

pub(super) fn output_directory(pod: Pod<'_>) -> &str {
    if let Workload::Batch { output_directory, .. } = &pod.config.workload {
        return output_directory;
    }
    DEFAULT_OUTPUT_DIRECTORY
}

/// For temporary files, among them those of nested Flux instances, in an image that has no place
/// for them. Sidecars cannot write to the shared volume.
pub(super) fn temporary(pod: Pod<'_>) -> PathBuf {
    if pod.facts.is_runner {
        format!("{}/tmp", pod.config.layout.config_root()).into()
    } else {
        MEMORY.into()
    }
}

/// Changes of the lists on which programs and Flux look for files: the view's directories, and the agent's.
pub(super) fn lists(pod: Pod<'_>) -> Vec<Change> {
    let mut lists =
        vec![Change::append("FLUX_SHELL_RC_PATH", pod.config.layout.broker_config_dir())];
    if !pod.config.view.enabled {
        return lists;
    }
    let view = PathBuf::from(pod.config.layout.view());
    // At the end: the image's own programs stay what they were.
    lists.push(append("PATH", &view.join("bin")));
    let own = pod.facts.site_packages.as_deref();
    let packages = pod.config.view.python_path.as_deref().map(Path::new).or(own);
    lists.extend(packages.map(|packages| append("PYTHONPATH", packages)));
    if let Some(modules) = &pod.facts.fluxion_modules {
        // Flux looks below the prefix it was compiled for; where the view is made of links, as Spack does it, that is
        // flux-core's own, and Fluxion is in another one.
        lists.push(append("FLUX_MODULE_PATH", modules));
        lists.push(append("FLUX_MODPROBE_PATH_APPEND", &view.join("etc/flux/modprobe")));
        lists.push(append("FLUX_EXEC_PATH", &view.join("libexec/flux/cmd")));
    }
    lists
}

/// Puts the client `flux` first, before the view's and the image's.
pub(super) fn client_first(pod: Pod<'_>) -> Change {
    Change::prepend("PATH", pod.config.layout.bin_dir())
}

pub(super) fn of_client(pod: Pod<'_>) -> Vec<Change> {
    let mut changes = changes(pod);
    changes.push(client_first(pod));
    changes.extend(["FLUX_URI", "fluxsocket"].map(|name| Change::set(name, pod.uri())));
    changes
}

/// Removes variables from the broker's environment (a hook may have sourced `flux-view.sh`) by which it would take an
/// instance of Flux for the one around it, or for a launcher of brokers. The broker of a command registers no cleanup: the
/// agent does that after the command.
pub(super) fn of_broker(pod: Pod<'_>, has_command: bool) -> Vec<Change> {
    let unset = |name: &str| Change::Unset { name: name.to_owned() };
    let mut changes = ["FLUX_URI", "FLUX_PMI_CLIENT_METHODS"].map(unset).to_vec();
    let (name, value) = DISABLE_JOB_CLEANUP;
    let disables = has_command && cleans_up_later(pod.facts);
    changes.extend(disables.then(|| Change::set(name, value)));
    // Otherwise the PMIx server in Flux's shell would load plugins of the image.
    let plugins = pod.facts.pmix_plugins.iter();
    changes.extend(plugins.map(|it| Change::set("PMIX_PKGLIBDIR", it.display().to_string())));
    changes
}

/// Whether Flux's cleanup is registered after the command: not where a user has switched it off.
pub(super) fn cleans_up_later(facts: &Facts) -> bool {
    !facts.environment.contains_key(DISABLE_JOB_CLEANUP.0)
}

pub(super) fn changes(pod: Pod<'_>) -> Vec<Change> {
    let (config, facts) = (pod.config, pod.facts);
    let layout = &config.layout;
    let mut changes = lists(pod);
    changes.extend(shell(pod));
    if !facts.has_temporary_directories {
        changes.push(Change::fallback("TMPDIR", temporary(pod).display().to_string()));
    }
    changes.push(Change::set("STATE_DIR", layout.state_dir()));
    changes.push(Change::set("FLUX_OUTPUT_DIR", output_directory(pod)));
    changes
}

/// Flux runs its rc tasks with `$SHELL`, by default /bin/bash; one that is missing is fatal.
fn shell(pod: Pod<'_>) -> Option<Change> {
    let there = |path: &Path| pod.facts.executables.contains(path);
    let own = pod.facts.environment.get("SHELL").map(Path::new);
    if own.is_some_and(there) {
        return None;
    }
    let change = if own.is_some() { Change::set } else { Change::fallback };
    Some(change("SHELL", chosen_shell(pod.config, pod.facts).display().to_string()))
}

/// bash of the image, else of the view, else the image's `sh`.
pub(crate) fn chosen_shell(config: &AgentConfig, facts: &Facts) -> PathBuf {
    let there = |path: &PathBuf| facts.executables.contains(path);
    let [bash, sh] = IMAGE_SHELLS.map(PathBuf::from);
    let view = PathBuf::from(config.layout.view()).join(VIEW_SHELLS[0]);
    let view = Some(view).filter(|path| config.view.enabled && there(path));
    Some(bash).filter(there).or(view).unwrap_or(sh)
}

fn append(name: &str, value: &Path) -> Change {
    Change::append(name, value.display().to_string())
}
