//! Clients of this pod's broker. Flux takes jobs from nobody but the user it runs as, and people, tutorials and the
//! Python SDK come in as root: they need to know nothing of that user. `flux-agent connect` starts a shell or a
//! command; this program called `flux` ([`Layout::client`]) becomes the Flux of the view.

use crate::accounts::become_user::{Target, become_command, change_user};
use crate::commands::arguments::PodArguments;
use crate::commands::pod::{PodContext, own_layout};
use crate::failure::Failure;
use crate::plan::decide::{ClientEnvironment, client_environment};
use crate::plan::variables::chosen_shell;
use crate::system::environment::{Change, Environment, find_program};
use crate::system::files::is_executable;
use crate::system::output::log_line;
use flux_contract::{Exit, Layout};
use flux_protocol::client::BrokerAddress;
use nix::unistd::{AccessFlags, access};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, IsTerminal};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names the instance to talk to (flux-environment(7)).
const URI: &str = "FLUX_URI";
/// Code of a command that was not found, as shells have it.
const NOT_FOUND: u8 = 127;

/// Which working directory a client leaves for its home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GoHome {
    /// One that it cannot write to: it is a shell, in which people type commands that leave files.
    IfNotWritable,
    /// One that is closed even to entering, or the root directory, in which a container without a working directory
    /// starts. Elsewhere a command may name files relative to it.
    IfUseless,
}

/// Becomes `words`, or a shell; returns only when it failed.
pub(crate) fn connect(arguments: &PodArguments, words: &[OsString]) -> Result<(), Failure> {
    let pod = PodContext::read(arguments)?;
    let (client, _) = connected(&pod)?;
    if let Some((program, arguments)) = words.split_first() {
        return client.become_program(program, arguments, GoHome::IfUseless);
    }
    let shell = chosen_shell(&pod.config, &pod.facts);
    if !is_executable(&pod.root.at(&shell)) {
        let message = "neither the image nor the view has a shell: name a program that the image has \
                       (flux-agent connect -- PROGRAM)";
        return Err(Failure::with_code(NOT_FOUND, message));
    }
    client.become_program(shell.as_os_str(), &[], GoHome::IfNotWritable)
}

/// A client of this pod's broker, and how to connect to that.
pub(crate) fn connected(pod: &PodContext) -> Result<(Client, BrokerAddress), Failure> {
    let environment = client_environment(&pod.config, &pod.facts)?;
    let socket = pod.root.at(&environment.socket);
    let client = Client::new(pod, &environment, &socket).map_err(|error| {
        let message = format!(
            "look at the broker's socket {}: {error}: the broker is not up (yet): see flux-agent status, flux-agent doctor",
            socket.display()
        );
        Failure::new(Exit::Broker, message)
    })?;
    let owner = client.target.as_ref().map(|target| target.uid);
    Ok((client, BrokerAddress { socket, owner }))
}

/// Becomes the real `flux` with `arguments`; returns only when that failed.
pub(crate) fn flux(arguments: &[OsString]) -> Result<(), Failure> {
    let pod = PodContext::read(&PodArguments::of_this_pod()).ok();
    let flux = real_flux(pod.as_ref()).ok_or_else(|| {
        let message = "the view is not there (yet), and no other flux is on the PATH".to_owned();
        Failure::with_code(NOT_FOUND, message)
    })?;
    match pod.and_then(|pod| client(&pod)) {
        Some(client) => client.become_program(flux.as_os_str(), arguments, GoHome::IfUseless),
        None => become_command(Command::new(flux).args(arguments)),
    }
}

/// `None` where there is no broker (yet), and for whoever is connected already and no root, as in a job.
fn client(pod: &PodContext) -> Option<Client> {
    let connected = std::env::var_os(URI);
    if connected.is_some() && pod.facts.uid != 0 {
        return None;
    }
    let environment = client_environment(&pod.config, &pod.facts).ok()?;
    let socket = connected.as_deref().and_then(local_socket).unwrap_or(&environment.socket);
    let mut client = Client::new(pod, &environment, &pod.root.at(socket)).ok()?;
    // The instance of a batch job, or what `flux proxy` has opened, stays the one that is meant.
    client.environment.extend(connected.map(|uri| (URI.into(), uri)));
    Some(client)
}

fn local_socket(uri: &OsStr) -> Option<&Path> {
    uri.to_str()?.strip_prefix("local://").map(Path::new)
}

/// The view's, where there is one; otherwise the first on the `PATH` that is not this program.
fn real_flux(pod: Option<&PodContext>) -> Option<PathBuf> {
    let layout = pod
        .map_or_else(own_layout, |pod| pod.config.view.enabled.then(|| pod.config.layout.clone()));
    let of_view = layout.map(|layout| layout.view().join("bin/flux"));
    let own = std::env::current_exe().ok();
    let is_other = |path: &Path| is_executable(path) && fs::canonicalize(path).ok() != own;
    of_view.filter(|path| is_executable(path)).or_else(|| {
        let environment: Environment = std::env::vars_os().collect();
        find_program(&environment, Layout::CLIENT_NAME, is_other)
    })
}

/// What a session with this pod's broker is; `None` where there is no broker (yet).
pub(crate) fn session(pod: &PodContext) -> Option<Client> {
    connected(pod).ok().map(|(client, _)| client)
}

/// As whom, and in which environment, a program is a client of the broker.
#[derive(Debug)]
pub(crate) struct Client {
    environment: Environment,
    /// Whom to become; nobody where that is not needed or not possible.
    target: Option<Target>,
}

impl Client {
    /// The client of the broker at `socket`. Only root can become the owner of the socket, the broker's user and group.
    /// Other users stay who they are, guests of Flux.
    fn new(pod: &PodContext, environment: &ClientEnvironment, socket: &Path) -> io::Result<Self> {
        let socket = fs::metadata(socket)?;
        let owner = (socket.uid(), socket.gid());
        let mut changes = environment.changes.clone();
        let target =
            (pod.facts.uid == 0 && owner.0 != 0).then(|| brokers_user(pod, owner, &mut changes));
        changes.push(Change::fallback("HOME", pod.config.layout.home().display().to_string()));
        let mut environment: Environment = std::env::vars_os().collect();
        for change in &changes {
            change.apply(&mut environment);
        }
        Ok(Self { environment, target })
    }

    /// The first `program` on its `PATH` that `is_wanted`.
    pub(crate) fn find(&self, program: &str, is_wanted: impl Fn(&Path) -> bool) -> Option<PathBuf> {
        find_program(&self.environment, program, is_wanted)
    }

    /// What starts `words` as this client by `agent`, this program.
    pub(crate) fn command(&self, agent: &Path, words: &[String]) -> Command {
        let target = self.target.as_ref();
        let words = target.map_or_else(|| words.to_vec(), |target| target.command(agent, words));
        let mut command = Command::new(words.first().map(String::as_str).unwrap_or_default());
        command.args(words.iter().skip(1)).env_clear().envs(&self.environment);
        command
    }

    /// Becomes `program` with `arguments`; returns only when that failed.
    fn become_program(
        self,
        program: &OsStr,
        arguments: &[OsString],
        go_home: GoHome,
    ) -> Result<(), Failure> {
        let environment = self.become_user(go_home)?;
        let mut command = Command::new(program);
        become_command(command.args(arguments).env_clear().envs(environment))
    }

    /// Becomes the broker's user, in a directory that is of use, and gives the environment of what it starts.
    pub(crate) fn become_user(mut self, go_home: GoHome) -> Result<Environment, Failure> {
        self.target.as_ref().map_or(Ok(()), change_user)?;
        self.leave_useless_directory(go_home);
        Ok(self.environment)
    }

    /// Goes home from a working directory that is of no use. A script may read all that is printed.
    fn leave_useless_directory(&mut self, go_home: GoHome) {
        let usable = |path: &Path| access(path, AccessFlags::W_OK | AccessFlags::X_OK).is_ok();
        let here = Path::new(".");
        let is_root = std::env::current_dir().is_ok_and(|path| path == Path::new("/"));
        let stays =
            go_home == GoHome::IfUseless && !is_root && access(here, AccessFlags::X_OK).is_ok();
        let home = self.environment.get(OsStr::new("HOME")).filter(|home| usable(Path::new(home)));
        let Some(home) = home.filter(|_| !usable(here) && !stays).cloned() else { return };
        if std::env::set_current_dir(&home).is_ok() {
            if io::stderr().is_terminal() {
                let home = home.to_string_lossy();
                log_line(&format!(
                    "the working directory is closed to Flux's user: going to {home}"
                ));
            }
            self.environment.insert("PWD".into(), home);
        }
    }
}

/// The user to whom the broker belongs, whose names go into `changes`: not where a sidecar's image does not know it.
fn brokers_user(pod: &PodContext, (uid, gid): (u32, u32), changes: &mut Vec<Change>) -> Target {
    let accounts = &pod.facts.accounts;
    let account = accounts.find_uid(uid);
    let groups = account.as_ref().map_or_else(|| vec![gid], |user| accounts.groups_of(user));
    let home = account.as_ref().map_or_else(|| pod.config.layout.home(), |user| user.home.clone());
    changes.push(Change::set("HOME", home.display().to_string()));
    let names = account.iter().flat_map(|user| [("USER", &user.name), ("LOGNAME", &user.name)]);
    changes.extend(names.map(|(variable, name)| Change::set(variable, name)));
    let groups = groups.into_iter().chain(pod.facts.pod_groups()).collect();
    Target { uid, gid, groups, capabilities: pod.config.user.capabilities.clone() }
}
