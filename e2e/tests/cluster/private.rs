//! What belongs to the runner alone is in no other container's reach, not even in that of root.

use crate::{apply, exec, ready_lead, secrets::keys_of, trial};
use anyhow::{Result, ensure};
use e2e::trial::Trial;

/// Prints the files that hold the text whose halves are the arguments, wherever a container can look:
/// every directory, and what it sees of processes. So the text itself is in no command line.
const SEARCH: &str = r#"
test "$(id -u)" = 0 || exit 9
places=$(ls -d /* /proc/[0-9]*/cmdline /proc/[0-9]*/environ | grep -vxE '/(proc|sys|dev)')
printf '%s' "$1$2" | grep -rasFl -f - $places /dev/shm
exit 0
"#;

fn search(trial: &Trial, pod: &str, container: &str, text: &str) -> Result<String> {
    let (first, second) = text.split_at(text.len() / 2);
    exec(trial, pod, container, &["sh", "-c", SEARCH, "search", first, second])
}

#[test]
#[ignore = "needs a cluster"]
fn a_sidecar_that_is_root_finds_nothing_of_the_key() {
    trial("private", &[], async |trial| {
        let spec = "{size: 1, interactive: true, containers: [{image: 'ubuntu:24.04', runFlux: true}, {image: 'ubuntu:24.04', name: wrapped, runFlux: false, command: sleep 600}]}";
        let name = apply(trial, "private", spec).await?;
        let lead = ready_lead(trial, &name).await?;
        let keys = keys_of(trial, &name).await?;
        for key in &keys {
            let found = search(trial, &lead, &name, key)?;
            ensure!(found.contains("/flux_operator/private/"), "the search finds nothing: {found}");
            let found = search(trial, &lead, "wrapped", key)?;
            ensure!(found.is_empty(), "a key of the certificate is in the sidecar's {found}");
        }
        let listed = exec(trial, &lead, "wrapped", &["ls", "/flux_operator"])?;
        let shared = ["agent", "config", "view"];
        ensure!(listed.lines().all(|it| shared.contains(&it)), "the sidecar has {listed}");
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn the_private_volume_works_for_any_user_and_with_a_read_only_root() {
    trial("anybody", &[], async |trial| {
        let context = "{runAsUser: 54321, runAsGroup: 54321, readOnlyRootFilesystem: true}";
        let spec = format!(
            "{{size: 1, interactive: true, containers: [{{image: 'ubuntu:24.04', securityContext: {context}}}]}}"
        );
        let name = apply(trial, "anybody", &spec).await?;
        let lead = ready_lead(trial, &name).await?;
        let certificate = "/flux_operator/private/curve/curve.cert";
        let mode = exec(trial, &lead, &name, &["stat", "-c", "%a %u", certificate])?;
        ensure!(mode == "600 54321\n", "{certificate}: {mode}");
        Ok(())
    });
}
