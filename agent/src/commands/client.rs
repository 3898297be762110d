//! Clients of this pod's broker. Flux accepts jobs only from its own user, while people and the Python SDK enter a pod as
//! root. `flux-agent connect` starts a shell or a command as Flux's user. This program under the name `flux`
//! ([`Layout::client`]) becomes the `flux` of the view as that user.

use crate::accounts::become_user::{Target, become_command, change_user};
use crate::commands::arguments::PodArguments;
use crate::commands::pod::{PodContext, own_layout};
use crate::failure::{Failure, Result};
use crate::flux::idle::begin_session;
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

/// The variable with the URI of the instance (flux-environment(7)).
const URI: &str = "FLUX_URI";
const NOT_FOUND: u8 = 127;

/// When a client changes to its home directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GoHome {
    /// If it cannot write to the working directory: it is a shell, and commands in it may write files.
    IfNotWritable,
    /// If it cannot enter the working directory, or if that is the root directory, in which a container without a working
    /// directory starts. In other directories, a command may name files relative to it.
    IfUseless,
}

/// Becomes the program of `argv`, or a shell. Returns only after a failure.
pub(crate) fn connect(arguments: &PodArguments, argv: &[OsString]) -> Result<()> {
    let pod = PodContext::read(arguments)?;
    let (client, _) = connected(&pod)?;
    if let Err(error) = begin_session(&pod.root.at("/"), &pod.config.layout) {
        log_line(&format!("this session does not keep the instance in use: {error}"));
    }
    if let Some((program, arguments)) = argv.split_first() {
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

/// A client of this pod's broker, and the address of the broker. Fails without a broker.
pub(crate) fn connected(pod: &PodContext) -> Result<(Client, BrokerAddress)> {
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

/// Becomes the real `flux` with `arguments`. Returns only after a failure.
pub(crate) fn flux(arguments: &[OsString]) -> Result<()> {
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

/// The client of this pod's broker, or of the one in the environment. `None` without a broker, and for a user other than
/// root who is connected already, as in a job.
fn client(pod: &PodContext) -> Option<Client> {
    let connected = std::env::var_os(URI);
    if connected.is_some() && pod.facts.uid != 0 {
        return None;
    }
    let environment = client_environment(&pod.config, &pod.facts).ok()?;
    let socket = connected.as_deref().and_then(local_socket).unwrap_or(&environment.socket);
    let mut client = Client::new(pod, &environment, &pod.root.at(socket)).ok()?;
    // A URI in the environment, as in a batch job or below `flux proxy`, takes precedence.
    client.environment.extend(connected.map(|uri| (URI.into(), uri)));
    Some(client)
}

fn local_socket(uri: &OsStr) -> Option<&Path> {
    uri.to_str()?.strip_prefix("local://").map(Path::new)
}

/// The `flux` of the view, if there is one; otherwise the first on the `PATH` that is not this program.
fn real_flux(pod: Option<&PodContext>) -> Option<PathBuf> {
    let layout = pod
        .map_or_else(own_layout, |pod| pod.config.view.enabled.then(|| pod.config.layout.clone()));
    let of_view = layout.map(|layout| PathBuf::from(layout.view()).join("bin/flux"));
    let own = std::env::current_exe().ok();
    let is_other = |path: &Path| is_executable(path) && fs::canonicalize(path).ok() != own;
    of_view.filter(|path| is_executable(path)).or_else(|| {
        let environment: Environment = std::env::vars_os().collect();
        find_program(&environment, Layout::CLIENT_NAME, is_other)
    })
}

/// The user and the environment of a program that is a client of the broker.
#[derive(Debug)]
pub(crate) struct Client {
    environment: Environment,
    /// The user to become, if that is necessary and possible.
    target: Option<Target>,
}

impl Client {
    /// The client of the broker at `socket`. Root becomes the owner of the socket, which is the broker's user and group.
    /// Other users remain themselves: for Flux they are guests.
    fn new(pod: &PodContext, environment: &ClientEnvironment, socket: &Path) -> io::Result<Self> {
        let socket = fs::metadata(socket)?;
        let owner = (socket.uid(), socket.gid());
        let mut changes = environment.changes.clone();
        let target =
            (pod.facts.uid == 0 && owner.0 != 0).then(|| brokers_user(pod, owner, &mut changes));
        changes.push(Change::fallback("HOME", pod.config.layout.home()));
        let mut environment: Environment = std::env::vars_os().collect();
        for change in &changes {
            change.apply(&mut environment);
        }
        Ok(Self { environment, target })
    }

    pub(crate) fn find(&self, program: &str, is_wanted: impl Fn(&Path) -> bool) -> Option<PathBuf> {
        find_program(&self.environment, program, is_wanted)
    }

    /// A command that starts `argv` as this client, by means of `agent`, this program.
    pub(crate) fn command(&self, agent: &Path, argv: &[String]) -> Command {
        let target = self.target.as_ref();
        let argv = target.map_or_else(|| argv.to_vec(), |target| target.command(agent, argv));
        let mut command = Command::new(argv.first().map(String::as_str).unwrap_or_default());
        command.args(argv.iter().skip(1)).env_clear().envs(&self.environment);
        command
    }

    /// Becomes `program` with `arguments`. Returns only after a failure.
    pub(crate) fn become_program(
        mut self,
        program: &OsStr,
        arguments: &[OsString],
        go_home: GoHome,
    ) -> Result<()> {
        self.target.as_ref().map_or(Ok(()), change_user)?;
        self.leave_useless_directory(go_home);
        let mut command = Command::new(program);
        become_command(command.args(arguments).env_clear().envs(self.environment))
    }

    /// Changes from an unusable working directory to the home directory. Prints this only on a terminal, as a script may
    /// read the output.
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

/// The user of the broker. Adds the names of the user to `changes`, unless the image, as that of a sidecar, has no such
/// account.
fn brokers_user(pod: &PodContext, (uid, gid): (u32, u32), changes: &mut Vec<Change>) -> Target {
    let accounts = &pod.facts.accounts;
    let account = accounts.find_uid(uid);
    let groups = account.as_ref().map_or_else(|| vec![gid], |user| accounts.groups_of(user));
    let home =
        account.as_ref().map_or_else(|| pod.config.layout.home().into(), |user| user.home.clone());
    changes.push(Change::set("HOME", home.display().to_string()));
    let names = account.iter().flat_map(|user| [("USER", &user.name), ("LOGNAME", &user.name)]);
    changes.extend(names.map(|(variable, name)| Change::set(variable, name)));
    let groups = groups.into_iter().chain(pod.facts.pod_groups()).collect();
    Target { uid, gid, groups, capabilities: pod.config.user.capabilities.clone() }
}
