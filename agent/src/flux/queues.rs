//! Queues with names (flux-config-queues(5)), which a user's configuration may have. Flux starts the queue of an
//! instance without names; those with names it leaves stopped, and their jobs would wait for ever.

use crate::flux::client::FluxClient;
use crate::system::output::Log;
use std::fs;
use std::path::Path;
use std::time::Duration;
use toml::Table;

/// How long the start may take, on a machine with much to do.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Whether a file of the broker's configuration in `directory` names queues. Hooks may have added files.
pub(crate) fn are_named(directory: &Path) -> bool {
    let files = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    files.filter(|path| path.extension().is_some_and(|it| it == "toml")).any(|path| {
        let text = fs::read_to_string(path).unwrap_or_default();
        text.parse::<Table>().is_ok_and(|table| table.contains_key("queues"))
    })
}

/// Starts all of them, and logs when that fails.
pub(crate) async fn start(client: FluxClient, log: Log) {
    let why = match client.ask(&["queue", "start", "--all", "--quiet"], None, TIMEOUT).await {
        Ok(output) if output.status.success() => return log.info("the queues are started"),
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    log.error(&format!(
        "jobs wait until somebody starts their queue: flux queue start --all: {why}"
    ));
}

#[cfg(test)]
mod tests {
    use super::are_named;
    use std::fs;

    #[test]
    fn a_file_of_the_user_beside_that_of_the_agent_may_name_queues() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name, text: &str| fs::write(directory.path().join(name), text).unwrap();
        assert!(!are_named(&directory.path().join("absent")));
        write("broker.toml", "[access]\nallow-root-owner = true\n");
        write("queues.txt", "[queues.debug]\n");
        assert!(!are_named(directory.path()));
        write("queues.toml", "[queues.debug]\n[queues.batch]\n");
        assert!(are_named(directory.path()));
    }
}
