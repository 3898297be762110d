//! What the `flux` front end does before any command: the environment its children need.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Environment variables by name. Values that are not UTF-8 are taken over as near as possible.
pub(crate) type Environment = BTreeMap<String, String>;

/// The environment of this process, with what the front end adds.
///
/// Called by a path, `flux` puts its own directory into `PATH`, in front of any other `flux`;
/// called as plain `flux` it takes `PATH` to be right (flux-core, `cmd/flux.c`).
pub(crate) fn environment(called_as: &str) -> Environment {
    let mut environment: Environment = std::env::vars_os()
        .map(|(name, value)| {
            (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned())
        })
        .collect();
    let own = std::env::current_exe().ok().filter(|_| called_as != "flux");
    if let Some(own) = own.as_deref().and_then(Path::parent) {
        let path = with_own_first(path(&environment), own);
        environment.insert("PATH".to_owned(), path);
    }
    environment
}

/// The search path of an environment.
pub(crate) fn path(environment: &Environment) -> &str {
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

/// Whether a file can be executed by this process: any execute bit will do for a test's purpose.
pub(crate) fn is_executable(path: &Path) -> bool {
    std::fs::metadata(path)
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Where `program` is: as it says if it names a directory, else the first executable in the
/// directories of `path`.
pub(crate) fn find_program(path: &str, program: &str) -> Option<String> {
    if program.contains('/') {
        return Some(program.to_owned());
    }
    path.split(':')
        .map(|part| if part.is_empty() { "." } else { part })
        .map(|part| Path::new(part).join(program))
        .find(|candidate| is_executable(candidate))
        .map(|found| found.display().to_string())
}
