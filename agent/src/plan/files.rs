//! Directories and files that the broker needs.

use crate::plan::pod::Pod;
use crate::plan::step::{FileToWrite, Owner, Role, Step};
use crate::plan::variables::{output_directory, temporary};
use crate::program::mpi::SHELL_RC;
use flux_contract::{CURVE_MOUNT, CURVE_SECRET_KEY, MUNGE_MOUNT, MUNGE_SECRET_KEY, Workload};
use flux_protocol::resource_set::{ResourceSet, Resources};
use std::path::{Path, PathBuf};

/// Where munged(8) looks for its key.
const MUNGE_KEY: &str = "/etc/munge/munge.key";

/// What Flux's shell runs in every job ([`SHELL_RC`]).
pub(super) fn shell_rc(pod: Pod<'_>) -> Step {
    let agent = pod.config.layout.agent();
    let script = SHELL_RC.replace("@AGENT@", &format!("{agent:?}"));
    let script = script.replace("@OWN_CORES@", &pod.facts.has_own_cores.to_string());
    let directory = pod.config.layout.broker_config_dir();
    Step::WriteFile(file(format!("{directory}/mpi.lua"), 0o644, script))
}

/// Directories, parents first. Those in which only the agent writes belong to the container's user, so that jobs cannot
/// replace files there. The others belong to the broker's user: Flux requires that for its run and state directories, and
/// a command leaves its error in the run directory's parent.
pub(super) fn directories(pod: Pod<'_>) -> Vec<Step> {
    let layout = &pod.config.layout;
    let parent = |path: String| Path::new(&path).parent().map(Path::to_owned).unwrap_or_default();
    // Kubernetes makes it with mode 0777, by which any user could rename files in it.
    let agents = [
        layout.private_volume().into(),
        layout.config_root().into(),
        layout.broker_config_dir().into(),
        parent(layout.hostlist()),
        layout.cron_dir().into(),
        parent(layout.curve_certificate_link()),
    ];
    let brokers =
        [parent(layout.command_failure()), layout.run_dir().into(), layout.state_dir().into()];
    let mut steps = agents.map(|path| directory(path, 0o755, Owner::Container)).to_vec();
    steps.extend(brokers.map(|path| directory(path, 0o755, Owner::Broker)));
    steps.push(directory(parent(layout.curve_certificate()), 0o700, Owner::Broker));
    if !pod.facts.has_temporary_directories {
        // Hooks may be another user than the broker.
        steps.push(directory(temporary(pod), 0o1777, Owner::Container));
    }
    steps.push(Step::MakeDirectory {
        path: output_directory(pod).into(),
        mode: 0o755,
        owner: Owner::Broker,
        ours: false,
        required: matches!(pod.config.workload, Workload::Batch { .. }),
    });
    steps
}

fn directory(path: impl Into<PathBuf>, mode: u32, owner: Owner) -> Step {
    Step::MakeDirectory { path: path.into(), mode, owner, ours: true, required: true }
}

pub(super) fn certificate(pod: Pod<'_>) -> Step {
    Step::InstallCertificate {
        from: Path::new(CURVE_MOUNT).join(CURVE_SECRET_KEY),
        to: pod.config.layout.curve_certificate().into(),
        link: pod.config.layout.curve_certificate_link().into(),
    }
}

/// munged(8) reads the key as the user `munge` and refuses one that others can read.
pub(super) fn munge_key(pod: Pod<'_>) -> Option<Step> {
    let owner = pod.facts.accounts.find_user("munge").map(|account| (account.uid, account.gid));
    pod.config.munge.then(|| Step::InstallMungeKey {
        from: Path::new(MUNGE_MOUNT).join(MUNGE_SECRET_KEY),
        to: MUNGE_KEY.into(),
        owner: owner.filter(|_| pod.facts.uid == 0),
    })
}

/// The resource set, in which all hosts have the resources of the lead. Flux would ask hwloc, which delays the start and
/// knows neither the CPU limit nor, without a library of their vendor, the GPUs. Every worker gets the lead's configuration,
/// which names the file, and opens it (`convert_R_conf` of Flux's module `resource`), so it has one with one core each.
pub(super) fn resources(pod: Pod<'_>) -> FileToWrite {
    let (hosts, facts) = (pod.config.network.bootstrap.hosts(), pod.facts);
    let each = if pod.role == Role::Worker {
        Resources { cores: 1, gpus: 0 }
    } else {
        Resources { cores: facts.cores, gpus: facts.gpus }
    };
    file(pod.config.layout.resource_file(), 0o644, ResourceSet::text(hosts, each))
}

pub(super) fn file(path: impl Into<PathBuf>, mode: u32, content: String) -> FileToWrite {
    FileToWrite { path: path.into(), mode, content }
}
