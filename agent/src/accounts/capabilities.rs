//! The capabilities that root lacks in this container.

use caps::{CapSet, Capability};
use nix::unistd::geteuid;
use std::io::{self, ErrorKind};

/// Capabilities with which root has all rights on files.
const ON_FILES: [Capability; 4] = [
    Capability::CAP_CHOWN,
    Capability::CAP_DAC_OVERRIDE,
    Capability::CAP_DAC_READ_SEARCH,
    Capability::CAP_FOWNER,
];

/// The capabilities among `wanted` that this process lacks, as Kubernetes writes them.
pub(super) fn lacking(wanted: &[Capability]) -> String {
    let had = caps::read(None, CapSet::Permitted).unwrap_or_else(|_| caps::all());
    let lacking = wanted.iter().filter(|capability| !had.contains(capability));
    let names =
        lacking.map(|capability| capability.to_string().trim_start_matches("CAP_").to_owned());
    names.collect::<Vec<_>>().join(", ")
}

/// The remedy for `error`, if the system has refused something to root.
pub(crate) fn remedy_for_root(error: &io::Error) -> Option<String> {
    if error.kind() != ErrorKind::PermissionDenied || !geteuid().is_root() {
        return None;
    }
    let lacking = lacking(&ON_FILES);
    let why = if lacking.is_empty() {
        "the file system refuses root, as NFS with root_squash does".to_owned()
    } else {
        format!("root lacks the capabilities {lacking} (securityContext.capabilities)")
    };
    let remedy =
        "start the container as the user who owns the place (pod.securityContext.runAsUser)";
    Some(format!("{why}; {remedy}"))
}
