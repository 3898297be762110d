//! The key of a run is in its Secret and in its runners only: users without the right to read Secrets, and other
//! containers, even those of root, do not find it.

use crate::prelude::*;
use e2e::product::install::{NAME, NAMESPACE};
use e2e::trial::logs::pod_logs;

/// The Secret is deleted with the MiniCluster.
#[test]
#[ignore = "needs a cluster"]
fn the_key_pair_is_in_a_secret_only() {
    trial("secret", async |trial| {
        trial.apply(include_str!("manifests/talkative.yaml")).await?;
        let run = trial.named("secret");
        let lead = run.ready().await?;
        let keys = keys_of(&run)?;
        for key in &keys {
            let found = search(&run, &lead, run.name, key)?;
            ensure!(found.contains("/flux_operator/private/"), "the search finds nothing: {found}");
            let found = search(&run, &lead, "beside", key)?;
            ensure!(found.is_empty(), "a key of the certificate is in the sidecar's {found}");
        }
        let listed = run.exec_in(&lead, "beside", &["ls", "/flux_operator"])?;
        let shared = ["agent", "config", "view"];
        ensure!(listed.lines().all(|it| shared.contains(&it)), "the sidecar has {listed}");
        for text in every_text(trial).await? {
            ensure!(!keys.iter().any(|key| text.contains(key)), "a CURVE key is in {text}");
        }
        run.delete().await?;
        let left = run.kubectl(&["get", "secrets", "-oname"])?;
        ensure!(left.is_empty(), "left: {left}");
        Ok(())
    });
}

/// Prints the files that hold the text whose halves are the arguments, wherever a container can look:
/// every directory, and what it sees of processes. So the text itself is in no command line.
const SEARCH: &str = r#"
test "$(id -u)" = 0 || exit 9
places=$(ls -d /* /proc/[0-9]*/cmdline /proc/[0-9]*/environ | grep -vxE '/(proc|sys|dev)')
printf '%s' "$1$2" | grep -rasFl -f - $places /dev/shm
exit 0
"#;

fn search(run: &Instance<'_>, pod: &str, container: &str, text: &str) -> Result<String> {
    let (first, second) = text.split_at(text.len() / 2);
    run.exec_in(pod, container, &["sh", "-c", SEARCH, "search", first, second])
}

/// The two keys of the certificate in the Secret, 40 characters of Z85 each.
fn keys_of(run: &Instance<'_>) -> Result<Vec<String>> {
    let certificate = r#"{{range .items}}{{index .data "curve.cert" | base64decode}}{{end}}"#;
    let text = run.kubectl(&["get", "secrets", "-ogo-template", "--template", certificate])?;
    let lines = text.lines().filter(|line| line.contains("-key"));
    let keys: Vec<String> =
        lines.filter_map(|line| line.split('"').nth(1).map(str::to_owned)).collect();
    ensure!(keys.len() == 2 && keys.iter().all(|key| key.len() == 40), "{} keys", keys.len());
    Ok(keys)
}

/// Everything that users can read without the right to read Secrets.
async fn every_text(trial: &Trial) -> Result<Vec<String>> {
    let objects =
        trial.kubectl(&["get", "miniclusters,jobs,pods,configmaps,services,events", "-oyaml"])?;
    let selector = format!("--selector=app.kubernetes.io/name={NAME}");
    let operator = trial.kubectl(&["logs", "--namespace", NAMESPACE, &selector, "--tail=-1"])?;
    ensure!(objects.len() > 1000 && operator.len() > 1000, "there is nothing to be read");
    let mut texts = vec![objects, operator];
    for pod in trial.pods("secret").await? {
        texts.extend(pod_logs(trial, &pod).await.into_iter().map(|(_, log)| log));
    }
    Ok(texts)
}
