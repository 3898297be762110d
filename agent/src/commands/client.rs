//! Clients of this pod's broker: people, and programs that call `flux` as people do. Flux takes jobs
//! from nobody but the user it runs as, and people come in as root.

use crate::accounts::become_user::{ExecError, Target, change_user};
use crate::commands::pod::Pod;
use crate::plan::decide::Surroundings;
use crate::process::exit_status::start_failure_code;
use crate::system::environment::{Change, Environment};
use crate::system::output::complain;
use nix::unistd::{AccessFlags, access};
use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// When a client leaves its working directory for its home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leaves {
    /// When it cannot write there: it is a shell, in which people type commands that leave files.
    Closed,
    /// When nothing can be done there: it is closed even to entering, or it is the root directory, in
    /// which a container without a working directory starts. Elsewhere a command may name files
    /// relative to it.
    Useless,
}

/// As whom, and in which environment, a program is a client of the broker.
#[derive(Debug)]
pub(crate) struct Client {
    /// Its environment.
    pub(crate) environment: Environment,
    /// Whom to become; nobody where that is not needed or not possible.
    target: Option<Target>,
}

impl Client {
    /// The client that this process can be of the broker with `around`, whose user and group are
    /// `owner`. Only root can become another; anybody else stays who they are, Flux's guest.
    pub(crate) fn new(pod: &Pod, around: &Surroundings, owner: (u32, u32)) -> Self {
        let mut changes = around.changes.clone();
        let target =
            (pod.facts.uid == 0 && owner.0 != 0).then(|| brokers_user(pod, owner, &mut changes));
        changes.push(Change::fallback("HOME", pod.config.layout.home().display().to_string()));
        let mut environment: Environment = std::env::vars_os().collect();
        for change in &changes {
            change.apply(&mut environment);
        }
        Self { environment, target }
    }

    /// Becomes `program` with `arguments`; returns only when that failed, the code to end with.
    pub(crate) fn become_program(
        mut self,
        program: &OsStr,
        arguments: &[OsString],
        leaves: Leaves,
    ) -> u8 {
        if let Some(target) = &self.target
            && let Err(error) = change_user(target)
        {
            complain(&error.text());
            return error.code();
        }
        self.find_a_place(leaves);
        let mut command = Command::new(program);
        become_command(command.args(arguments).env_clear().envs(&self.environment))
    }

    /// Goes home from a working directory that is of no use. On a terminal that is said; a script may
    /// read all that is printed.
    fn find_a_place(&mut self, leaves: Leaves) {
        let usable = |path: &Path| access(path, AccessFlags::W_OK | AccessFlags::X_OK).is_ok();
        let here = Path::new(".");
        let is_root = std::env::current_dir().is_ok_and(|path| path == Path::new("/"));
        let stays =
            leaves == Leaves::Useless && !is_root && access(here, AccessFlags::X_OK).is_ok();
        let home = self.environment.get(OsStr::new("HOME")).filter(|home| usable(Path::new(home)));
        let Some(home) = home.filter(|_| !usable(here) && !stays).cloned() else { return };
        if std::env::set_current_dir(&home).is_ok() {
            if io::stderr().is_terminal() {
                let home = home.to_string_lossy();
                complain(&format!(
                    "the working directory is closed to Flux's user: going to {home}"
                ));
            }
            self.environment.insert("PWD".into(), home);
        }
    }
}

/// Becomes `command` as whoever this is; returns only when that failed, the code to end with.
pub(crate) fn become_command(command: &mut Command) -> u8 {
    let source = command.exec();
    let program = command.get_program().to_string_lossy().into_owned();
    let code = start_failure_code(&source);
    complain(&ExecError::Start { program, source }.text());
    code
}

/// The user to whom the broker belongs, whose names go into `changes`. The image of a sidecar does not
/// know that user: then the names stay unset.
fn brokers_user(pod: &Pod, (uid, gid): (u32, u32), changes: &mut Vec<Change>) -> Target {
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
