//! `flux-agent connect`: a shell, or a command, of the user whose broker this is, connected to it.
//! `flux-connect.sh` is this as well.

use crate::cli::PodArguments;
use crate::commands::Pod;
use crate::environment::{Change, Environment};
use crate::exec::Target;
use crate::output::complain;
use crate::plan::{chosen_shell, surroundings};
use crate::program::start_failure_code;
use flux_contract::Exit;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Becomes `words`, or a shell; returns only when it failed. Only root can become the broker's user;
/// anybody else stays who they are, and Flux takes them for a guest.
pub fn connect(arguments: &PodArguments, words: &[String]) -> u8 {
    let pod = match Pod::read(arguments) {
        Ok(pod) => pod,
        Err(code) => return code,
    };
    let around = match surroundings(&pod.config, &pod.facts) {
        Ok(around) => around,
        Err(error) => {
            complain(&error.to_string());
            return error.exit().code();
        }
    };
    let socket = pod.root.at(&around.socket);
    let owner = match fs::metadata(&socket) {
        Ok(found) => (found.uid(), found.gid()),
        Err(error) => {
            complain(&format!(
                "look at the broker's socket {}: {error}: the broker is not up (yet): see flux-agent status, flux-agent doctor",
                socket.display()
            ));
            return Exit::Broker.code();
        }
    };
    let mut changes = around.changes;
    for name in ["FLUX_URI", "fluxsocket"] {
        changes.push(Change::Set { name: name.to_owned(), value: around.uri.clone() });
    }
    let shell = chosen_shell(&pod.config, &pod.facts).display().to_string();
    let words = if words.is_empty() { &[shell][..] } else { words };
    let all = switched(&pod, owner, &mut changes, words);
    become_command(&changes, &all)
}

/// `words`, through the agent's own change of the user where that is needed and possible.
fn switched(
    pod: &Pod,
    (uid, gid): (u32, u32),
    changes: &mut Vec<Change>,
    words: &[String],
) -> Vec<String> {
    let set = |name: &str, value: String| Change::Set { name: name.to_owned(), value };
    if pod.facts.uid != 0 || uid == 0 {
        let value = pod.config.layout.home().display().to_string();
        changes.push(Change::Default { name: "HOME".to_owned(), value });
        return words.to_vec();
    }
    let account = pod.facts.accounts.find_uid(uid);
    let groups =
        account.as_ref().map_or_else(|| vec![gid], |user| pod.facts.accounts.groups_of(user));
    let home = account.as_ref().map_or_else(|| pod.config.layout.home(), |user| user.home.clone());
    changes.push(set("HOME", home.display().to_string()));
    // A sidecar's image does not know the user: then the names stay unset.
    let names = account.iter().flat_map(|user| [("USER", &user.name), ("LOGNAME", &user.name)]);
    changes.extend(names.map(|(variable, name)| set(variable, name.clone())));
    let groups = groups.into_iter().chain(pod.facts.pod_groups()).collect();
    let capabilities = pod.config.user.capabilities.clone();
    Target { uid, gid, groups, capabilities }.command(&pod.facts.agent, words)
}

fn become_command(changes: &[Change], words: &[String]) -> u8 {
    let mut environment: Environment = std::env::vars_os().collect();
    for change in changes {
        change.apply(&mut environment);
    }
    let (program, arguments) =
        words.split_first().map_or(("", &[][..]), |(first, rest)| (first.as_str(), rest));
    let error = Command::new(program).args(arguments).env_clear().envs(&environment).exec();
    complain(&format!("start {program:?}: {error}"));
    start_failure_code(&error)
}
