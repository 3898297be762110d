//! `flux-agent exec`: becomes another user and then another program, under the same process id. Code between fork and exec
//! in the parent would need `unsafe`.

use crate::accounts::capabilities::lacking;
use crate::failure::{Failure, Result};
use crate::process::exit_status::start_failure_code;
use crate::system::output::chain;
use crate::system::subcommand::{EXEC, call};
use caps::errors::CapsError;
use caps::{CapSet, Capability, CapsHashSet};
use clap::Args;
use flux_contract::Exit;
use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// The user to become.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub(crate) struct Target {
    /// User id.
    #[arg(long)]
    pub uid: u32,
    /// Group id.
    #[arg(long)]
    pub gid: u32,
    /// Supplementary groups.
    #[arg(long, value_delimiter = ',')]
    pub groups: Vec<u32>,
    /// Root's capabilities to keep, as Kubernetes writes them (`IPC_LOCK`, `ALL`); those that the container lacks are
    /// ignored.
    #[arg(long, value_delimiter = ',')]
    pub capabilities: Vec<String>,
}

impl Target {
    /// The command line of `agent` that becomes this user and then `argv`.
    pub(crate) fn command(&self, agent: &Path, argv: &[String]) -> Vec<String> {
        let groups: Vec<String> = self.groups.iter().map(u32::to_string).collect();
        let mut all = call(agent, EXEC);
        all.extend([format!("--uid={}", self.uid), format!("--gid={}", self.gid)]);
        for (name, list) in [("groups", &groups), ("capabilities", &self.capabilities)] {
            if !list.is_empty() {
                all.push(format!("--{name}={}", list.join(",")));
            }
        }
        all.push("--".to_owned());
        all.extend_from_slice(argv);
        all
    }
}

/// Capabilities with which root starts processes as another user and sends them signals.
const NEEDED: [Capability; 3] =
    [Capability::CAP_SETUID, Capability::CAP_SETGID, Capability::CAP_KILL];
/// Fails if root cannot run and end processes as user `uid`.
pub(crate) fn check_capabilities(name: &str, uid: u32) -> Result<()> {
    let lacking = lacking(&NEEDED);
    if lacking.is_empty() {
        return Ok(());
    }
    let text = format!(
        "run Flux as user {name}: the container starts as root without the capabilities {lacking}; add them \
         (securityContext.capabilities.add), or start the container as that user (pod.securityContext.runAsUser: {uid})"
    );
    Err(Failure::new(Exit::Prepare, text))
}

/// Becomes `target`, if there is one, and then the program of `argv`. Returns only after a failure.
pub(crate) fn exec(target: Option<&Target>, argv: &[String]) -> Result<()> {
    target.map_or(Ok(()), change_user)?;
    let program = argv.first().map(String::as_str).unwrap_or_default();
    become_command(Command::new(program).args(argv.iter().skip(1)))
}

/// Becomes `command` as the current user. Returns only after a failure.
pub(crate) fn become_command(command: &mut Command) -> Result<()> {
    let error = command.exec();
    let message = format!("start {:?}: {error}", command.get_program().to_string_lossy());
    Err(Failure::with_code(start_failure_code(&error), message))
}

/// Becomes `target`. The groups come first, because only root may change them.
pub(crate) fn change_user(target: &Target) -> Result<()> {
    let Target { uid, gid, groups, capabilities } = target;
    let failed = |message| Failure::new(Exit::Prepare, message);
    let denied = |errno: nix::Error| {
        let error = io::Error::from(errno);
        failed(format!(
            "become uid {uid} gid {gid}: the container lacks the capabilities SETUID and SETGID; keep them, or start the container as another user than root: {error}"
        ))
    };
    let lost = |error: CapsError| {
        let names = capabilities.join(", ");
        failed(format!("keep the capabilities {names} as uid {uid}: {}", chain(&error)))
    };
    let groups: Vec<Gid> = groups.iter().copied().map(Gid::from_raw).collect();
    let (user, group) = (Uid::from_raw(*uid), Gid::from_raw(*gid));
    let retained = capabilities_to_retain(capabilities).map_err(lost)?;
    caps::securebits::set_keepcaps(!retained.is_empty()).map_err(lost)?;
    setgroups(&groups).map_err(denied)?;
    setresgid(group, group, group).map_err(denied)?;
    setresuid(user, user, user).map_err(denied)?;
    if !retained.is_empty() {
        // Ambient capabilities survive execve(2) of programs without privileges (capabilities(7)).
        for set in [CapSet::Inheritable, CapSet::Ambient, CapSet::Permitted] {
            caps::set(None, set, &retained).map_err(lost)?;
        }
    }
    Ok(())
}

fn capabilities_to_retain(wanted: &[String]) -> Result<CapsHashSet, CapsError> {
    if wanted.is_empty() {
        return Ok(CapsHashSet::new());
    }
    let mut had = caps::read(None, CapSet::Permitted)?;
    let wanted: Vec<String> = wanted.iter().map(|name| caps::to_canonical(name)).collect();
    let all = wanted.iter().any(|name| name == "CAP_ALL");
    had.retain(|capability| all || wanted.contains(&capability.to_string()));
    Ok(had)
}
