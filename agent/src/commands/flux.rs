//! `flux`: what this program is when it is called by that name ([`Layout::client`]). It finds the
//! running broker, becomes its user, and then the Flux of the view. So whoever comes into a pod as
//! root, as people, tutorials and the Python SDK do, needs to know nothing of Flux's user.

use crate::commands::arguments::PodArguments;
use crate::commands::client::{Client, Leaves, become_command};
use crate::commands::pod::Pod;
use crate::plan::decide::surroundings;
use crate::system::environment::{Environment, find_program};
use crate::system::files::is_executable;
use crate::system::output::complain;
use flux_contract::Layout;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names the instance to talk to (flux-environment(7)).
const URI: &str = "FLUX_URI";
/// Code of a command that was not found, as shells have it.
const NOT_FOUND: u8 = 127;

/// Becomes the real `flux` with `arguments`; returns only when that failed, the code to end with.
pub(crate) fn run(arguments: &[OsString]) -> u8 {
    let pod = Pod::gather(&PodArguments::of_this_pod()).ok();
    let Some(flux) = real_flux(pod.as_ref()) else {
        complain("the view is not there (yet), and no other flux is on the PATH");
        return NOT_FOUND;
    };
    match pod.and_then(|pod| client(&pod)) {
        Some(client) => client.become_program(flux.as_os_str(), arguments, Leaves::Useless),
        None => become_command(Command::new(flux).args(arguments)),
    }
}

/// What has to change for the broker to take this process for its own; `None` where there is no
/// broker (yet), and for whoever is connected already and no root, as in a job.
fn client(pod: &Pod) -> Option<Client> {
    let connected = std::env::var_os(URI);
    if connected.is_some() && pod.facts.uid != 0 {
        return None;
    }
    let around = surroundings(&pod.config, &pod.facts).ok()?;
    let socket = connected.as_deref().and_then(local_socket).unwrap_or(&around.socket);
    let owner = fs::metadata(pod.root.at(socket)).ok()?;
    let mut client = Client::new(pod, &around, (owner.uid(), owner.gid()));
    // The instance of a batch job, or what `flux proxy` has opened, stays the one that is meant.
    client.environment.extend(connected.map(|uri| (URI.into(), uri)));
    Some(client)
}

/// The path of the socket in a URI `local://PATH`.
fn local_socket(uri: &OsStr) -> Option<&Path> {
    uri.to_str()?.strip_prefix("local://").map(Path::new)
}

/// The view's, where there is one; otherwise the first on the `PATH` that is not this program.
fn real_flux(pod: Option<&Pod>) -> Option<PathBuf> {
    let own = std::env::current_exe().ok();
    // Without a configuration, this program's own place says where the view is.
    let beside = own.as_deref().and_then(Path::parent).and_then(Path::parent).map(Layout::new);
    let layout =
        pod.map_or(beside, |pod| pod.config.view.enabled.then(|| pod.config.layout.clone()));
    let of_view = layout.map(|layout| layout.view().join("bin/flux"));
    let is_other = |path: &Path| is_executable(path) && fs::canonicalize(path).ok() != own;
    of_view.filter(|path| is_executable(path)).or_else(|| {
        let environment: Environment = std::env::vars_os().collect();
        find_program(&environment, Layout::CLIENT_NAME, is_other)
    })
}
