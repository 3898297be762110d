//! The environment of commands and tasks: what the `flux` front end adds to it, and which programs it leads to.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Values that are not UTF-8 are taken over as near as possible.
pub(crate) type Environment = BTreeMap<String, String>;

/// The environment of this process, with what the front end adds.
///
/// Called by a path, `flux` puts its own directory into `PATH`, in front of any other `flux`;
/// called as plain `flux` it takes `PATH` to be right (flux-core, `cmd/flux.c`).
pub(crate) fn of_this_process(called_as: &str) -> Environment {
    let mut environment: Environment = std::env::vars_os()
        .map(|(name, value)| {
            (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned())
        })
        .collect();
    let own = std::env::current_exe().ok().filter(|_| !called_as.ends_with("flux-job"));
    let Some(own) = own.as_deref().and_then(Path::parent) else { return environment };
    if called_as != "flux" {
        let path = with_own_first(path(&environment), own);
        environment.insert("PATH".to_owned(), path);
    }
    let commands = own.with_file_name("libexec").join("flux/cmd").display().to_string();
    environment.insert("FLUX_EXEC_PATH".to_owned(), commands);
    environment
}

fn path(environment: &Environment) -> &str {
    environment.get("PATH").map_or("/bin:/usr/bin", String::as_str)
}

fn with_own_first(path: &str, own: &Path) -> String {
    let mut parts: Vec<String> = path.split(':').map(str::to_owned).collect();
    let is_own = |part: &String| Path::new(part).canonicalize().is_ok_and(|real| real == own);
    let has_flux = |part: &String| is_executable(&Path::new(part).join("flux"));
    match parts.iter().position(|part| is_own(part) || has_flux(part)) {
        Some(at) if is_own(&parts[at]) => {}
        Some(at) => parts.insert(at, own.display().to_string()),
        None => parts.push(own.display().to_string()),
    }
    parts.join(":")
}

/// Whether any execute bit is set, which will do for a test's purpose.
fn is_executable(path: &Path) -> bool {
    std::fs::metadata(path)
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

fn is_in_path(environment: &Environment, program: &str) -> bool {
    path(environment).split(':').any(|part| is_executable(&Path::new(part).join(program)))
}

/// Why rc1 fails if its shells are missing: exit code and message.
pub(crate) fn rc1_fault(environment: &Environment, leader: bool) -> Option<(i32, &'static str)> {
    let shell = Path::new(environment.get("SHELL").map_or("/bin/bash", String::as_str));
    if !shell.exists() {
        return Some((127, "rc1.0: flux modprobe rc1 No such file or directory (rc=127)"));
    }
    if !is_in_path(environment, "flux") {
        return Some((127, "rc1.0: flux: command not found"));
    }
    let text = "rc1.0: flux-modprobe: ERROR: [Errno 2] No such file or directory: 'bash'";
    (leader && !is_in_path(environment, "bash")).then_some((1, text))
}
