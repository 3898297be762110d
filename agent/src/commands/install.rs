//! `flux-agent install` and `flux-agent view install`: what the init containers do that copy agent and view.

use crate::failure::{Failure, Result};
use crate::flux::resources::memory_limit;
use crate::system::files;
use crate::system::output::{chain, log_line};
use crate::system::root::Root;
use crate::view::{InstallRequest, ViewError, failed, install_view};
use flux_contract::{Exit, Layout};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// The running binary, whatever it is called and wherever it lies.
const SELF: &str = "/proc/self/exe";

pub(crate) fn agent(directory: &Path) -> Result<()> {
    let rest = std::env::current_exe().map(|own| own.with_file_name(Layout::REST_NAME));
    let rest = rest.ok().filter(|path| path.is_file());
    if rest.is_none() {
        log_line(
            "flux-rest, which serves the API of an instance, is not beside this program: it is not installed",
        );
    }
    let path = copy_to(directory, rest.as_deref());
    let path = path.map_err(|error| Failure::new(Exit::Prepare, chain(&error)))?;
    log_line(&format!("installed {}", path.display()));
    Ok(())
}

/// Copies the view; before it this program, if `with_agent` says so.
pub(crate) fn view(mut request: InstallRequest, with_agent: bool) -> Result<()> {
    if with_agent {
        agent(Path::new(&Layout::new(request.destination.to_string_lossy()).bin_dir()))?;
    }
    request.memory_limit = memory_limit(&Root::new("/"));
    let report = install_view(&request, &log_line)
        .map_err(|error| Failure::new(Exit::View, chain(&error)))?;
    log_line(&report.to_string());
    Ok(())
}

/// Copies the running binary to `directory`/flux-agent and `rest` to `directory`/flux-rest, makes the link `flux`, and
/// returns the path of the first. Nothing is flushed to the disk, which would wait for all that other pods write there at the moment: after a crash of the
/// node the init container runs again.
fn copy_to(directory: &Path, rest: Option<&Path>) -> Result<PathBuf, ViewError> {
    let installed = directory.join(Layout::AGENT_NAME);
    files::make_directory(directory, 0o755, None).map_err(failed("create directory", directory))?;
    let programs = [(Path::new(SELF), Layout::AGENT_NAME)];
    for (from, name) in programs.into_iter().chain(rest.map(|path| (path, Layout::REST_NAME))) {
        let copy = |file: &mut File| io::copy(&mut File::open(from)?, file).map(drop);
        let to = directory.join(name);
        files::replace(&to, 0o755, None, copy).map_err(failed("copy the agent to", &to))?;
    }
    let link = directory.join(Layout::CLIENT_NAME);
    files::link(&link, Path::new(Layout::AGENT_NAME)).map_err(failed("make the link", &link))?;
    Ok(installed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_second_install_replaces_the_first() {
        let root = tempfile::tempdir().unwrap();
        let (directory, rest) = (root.path().join("not/there/yet"), root.path().join("rest"));
        fs::write(&rest, "rest").unwrap();
        for (rest, files) in [(None, 2), (Some(&*rest), 3), (Some(&*rest), 3)] {
            assert_eq!(copy_to(&directory, rest).unwrap(), directory.join("flux-agent"));
            assert_eq!(fs::read_dir(&directory).unwrap().count(), files);
        }
        for (name, content) in
            [("flux-agent", fs::read(SELF).unwrap()), ("flux-rest", b"rest".into())]
        {
            let installed = directory.join(name);
            assert_eq!(fs::metadata(&installed).unwrap().permissions().mode() & 0o7777, 0o755);
            assert_eq!(fs::read(&installed).unwrap(), content);
        }
        assert_eq!(fs::read_link(directory.join("flux")).unwrap(), Path::new("flux-agent"));
    }
}
