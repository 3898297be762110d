//! What people can read without the right to read Secrets.

use crate::{DEADLINE, apply, trial};
use anyhow::{Context as _, Result, ensure};
use e2e::{
    product::install::NAMESPACE,
    trial::{Trial, logs::pod_logs},
};
use k8s_openapi::api::core::v1::{ConfigMap, Event, Pod, Secret};
use kube::{Api, ResourceExt as _, api::ListParams};

#[test]
#[ignore = "needs a cluster"]
fn the_key_pair_is_in_a_secret_only() {
    trial("secret", &[], async |trial| {
        let spec = "{size: 2, logging: {debug: true, zeromq: true}, flux: {logLevel: 7}, containers: [{image: 'ubuntu:24.04', command: 'echo done'}]}";
        let name = apply(trial, "secret", spec).await?;
        trial.await_finished(&name, DEADLINE).await?;
        let needles = keys_of(trial, &name).await?;
        for (place, text) in every_text(trial).await? {
            for needle in &needles {
                ensure!(!text.contains(needle.as_str()), "a CURVE key is in {place}");
            }
        }
        Ok(())
    });
}

/// The two keys of the certificate in the Secret, 40 characters of Z85 each.
pub(crate) async fn keys_of(trial: &Trial, name: &str) -> Result<Vec<String>> {
    let secrets = trial.api::<Secret>().list(&ListParams::default()).await?.items;
    let ours = |secret: &Secret| secret.name_any().starts_with(&format!("{name}-curve-"));
    let secret =
        secrets.into_iter().find(ours).context("there is no Secret with the certificate")?;
    let data = secret.data.unwrap_or_default();
    let text = data.get("curve.cert").context("the Secret has no curve.cert")?;
    let text = String::from_utf8(text.0.clone()).context("the certificate is no text")?;
    let keys: Vec<String> = text
        .lines()
        .filter(|line| line.contains("-key"))
        .filter_map(|line| line.split('"').nth(1).map(str::to_owned))
        .collect();
    ensure!(keys.len() == 2 && keys.iter().all(|key| key.len() == 40), "{} keys", keys.len());
    Ok(keys)
}

/// Everything people can read without the right to read Secrets.
async fn every_text(trial: &Trial) -> Result<Vec<(String, String)>> {
    let mut texts = Vec::new();
    for pod in trial.api::<Pod>().list(&ListParams::default()).await?.items {
        for (container, log) in pod_logs(trial, &pod).await {
            texts.push((format!("the log of {}/{container}", pod.name_any()), log));
        }
        texts.push((format!("the pod {}", pod.name_any()), format!("{pod:?}")));
    }
    for map in trial.api::<ConfigMap>().list(&ListParams::default()).await?.items {
        texts.push((format!("the ConfigMap {}", map.name_any()), format!("{:?}", map.data)));
    }
    for event in trial.api::<Event>().list(&ListParams::default()).await?.items {
        texts.push(("an Event".to_owned(), format!("{event:?}")));
    }
    let operators: Api<Pod> = Api::namespaced(trial.client().clone(), NAMESPACE);
    for pod in operators.list(&ListParams::default()).await?.items {
        let log = operators
            .logs(&pod.name_any(), &kube::api::LogParams::default())
            .await
            .context("reading the operator's log")?;
        ensure!(!log.is_empty(), "the operator has logged nothing");
        texts.push(("the operator's log".to_owned(), log));
    }
    ensure!(texts.len() > 4, "only {} texts were looked at", texts.len());
    Ok(texts)
}
