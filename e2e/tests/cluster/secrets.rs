//! The key of a run is in its Secret and in its runners: people who cannot read Secrets, and other containers, even
//! those of root, find nothing of it.

use anyhow::{Context as _, Result, ensure};
use e2e::{
    product::install::NAMESPACE,
    trial::{Trial, instance::Instance, logs::pod_logs},
};
use k8s_openapi::api::core::v1::{ConfigMap, Event, Pod, Secret};
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, LogParams},
};

use crate::{apply, trial};

/// A run that says as much as it can, with a sidecar that does not use Flux.
const TALKATIVE: &str = "
  size: 2
  interactive: true
  logging: {debug: true, zeromq: true}
  flux: {logLevel: 7}
  containers:
    - {image: 'ubuntu:24.04', runFlux: true}
    - {image: 'ubuntu:24.04', name: beside, runFlux: false, command: sleep 600}
";

#[test]
#[ignore = "needs a cluster"]
fn the_key_pair_is_in_a_secret_only() {
    trial("secret", &[], async |trial| {
        let run = apply(trial, "secret", TALKATIVE).await?;
        let lead = run.ready().await?;
        let keys = keys_of(trial, run.name).await?;
        for key in &keys {
            let found = search(&run, &lead, run.name, key)?;
            ensure!(found.contains("/flux_operator/private/"), "the search finds nothing: {found}");
            let found = search(&run, &lead, "beside", key)?;
            ensure!(found.is_empty(), "a key of the certificate is in the sidecar's {found}");
        }
        let listed = run.exec_in(&lead, "beside", &["ls", "/flux_operator"])?;
        let shared = ["agent", "config", "view"];
        ensure!(listed.lines().all(|it| shared.contains(&it)), "the sidecar has {listed}");
        for (place, text) in every_text(trial).await? {
            ensure!(!keys.iter().any(|key| text.contains(key)), "a CURVE key is in {place}");
        }
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
async fn keys_of(trial: &Trial, name: &str) -> Result<Vec<String>> {
    let secrets = trial.api::<Secret>().list(&ListParams::default()).await?.items;
    let ours = |secret: &Secret| secret.name_any().starts_with(&format!("{name}-curve-"));
    let secret =
        secrets.into_iter().find(ours).context("there is no Secret with the certificate")?;
    let data = secret.data.unwrap_or_default();
    let text = data.get("curve.cert").context("the Secret has no curve.cert")?;
    let text = String::from_utf8(text.0.clone()).context("the certificate is no text")?;
    let lines = text.lines().filter(|line| line.contains("-key"));
    let keys: Vec<String> =
        lines.filter_map(|line| line.split('"').nth(1).map(str::to_owned)).collect();
    ensure!(keys.len() == 2 && keys.iter().all(|key| key.len() == 40), "{} keys", keys.len());
    Ok(keys)
}

/// Everything people can read without the right to read Secrets.
async fn every_text(trial: &Trial) -> Result<Vec<(String, String)>> {
    let all = ListParams::default();
    let mut texts = Vec::new();
    for pod in trial.api::<Pod>().list(&all).await?.items {
        for (container, log) in pod_logs(trial, &pod).await {
            texts.push((format!("the log of {}/{container}", pod.name_any()), log));
        }
        texts.push((format!("the pod {}", pod.name_any()), format!("{pod:?}")));
    }
    for map in trial.api::<ConfigMap>().list(&all).await?.items {
        texts.push((format!("the ConfigMap {}", map.name_any()), format!("{:?}", map.data)));
    }
    for event in trial.api::<Event>().list(&all).await?.items {
        texts.push(("an Event".to_owned(), format!("{event:?}")));
    }
    let operators: Api<Pod> = Api::namespaced(trial.client().clone(), NAMESPACE);
    for pod in operators.list(&all).await?.items {
        let log = operators.logs(&pod.name_any(), &LogParams::default()).await;
        let log = log.context("reading the operator's log")?;
        ensure!(!log.is_empty(), "the operator has logged nothing");
        texts.push(("the operator's log".to_owned(), log));
    }
    ensure!(texts.len() > 4, "only {} texts were looked at", texts.len());
    Ok(texts)
}
