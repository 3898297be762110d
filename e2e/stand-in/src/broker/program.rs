//! The initial program: how it is called, and whether rc1 could run at all.

use std::path::Path;

use crate::failure::Failure;
use crate::front::{self, Environment};

/// What the program does not inherit; a `*` stands for any end (flux-core, `broker/runat.c`).
const DROPPED: &str = "FLUX_JOB_* FLUX_ENCLOSING_ID FLUX_TASK_* FLUX_URI FLUX_KVS_NAMESPACE FLUX_PROXY_REMOTE \
    PMI_* PMIX_* SLURM_* NOTIFY_SOCKET";

/// The shell Flux uses.
fn shell(environment: &Environment) -> &str {
    environment.get("SHELL").map_or("/bin/bash", String::as_str)
}

/// Decides how the words after the options are run.
pub(crate) fn choose(words: &[String], environment: &Environment) -> Result<Vec<String>, Failure> {
    match words {
        [] => Err(Failure::not_simulated("an interactive shell as the initial program")),
        [one] if !runs_directly(one) => {
            Ok(vec![shell(environment).to_owned(), "-c".to_owned(), one.clone()])
        }
        words => Ok(words.to_vec()),
    }
}

fn runs_directly(word: &str) -> bool {
    !word.contains(char::is_whitespace) && front::is_executable(Path::new(word))
}

/// The command as logs show it.
pub(crate) fn shown(program: &[String]) -> String {
    match program {
        [_, option, command] if option == "-c" => command.clone(),
        words => words.join(" "),
    }
}

/// The program's environment.
pub(crate) fn environment(broker: &Environment, uri: &str) -> Environment {
    let dropped = |name: &str| {
        DROPPED.split_whitespace().any(|rule| match rule.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => name == rule,
        })
    };
    let mut environment = broker.clone();
    environment.retain(|name, _| !dropped(name));
    environment.insert("FLUX_URI".to_owned(), uri.to_owned());
    environment
}

/// Why rc1 fails where its shells are missing: exit code and what is said.
pub(crate) fn rc1_fault(environment: &Environment, leader: bool) -> Option<(i32, &'static str)> {
    let shell = Path::new(shell(environment));
    if !shell.exists() {
        return Some((127, "rc1.0: flux modprobe rc1 No such file or directory (rc=127)"));
    }
    if !front::is_executable(shell) {
        return Some((126, "rc1.0: flux modprobe rc1 Permission denied (rc=126)"));
    }
    let path = front::path(environment);
    if front::find_program(path, "flux").is_none() {
        return Some((127, "rc1.0: flux: command not found"));
    }
    let text = "rc1.0: flux-modprobe: ERROR: [Errno 2] No such file or directory: 'bash'";
    (leader && front::find_program(path, "bash").is_none()).then_some((1, text))
}
