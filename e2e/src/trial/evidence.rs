//! Writes objects, Events and logs of a failed trial to files.

use super::Trial;
use super::logs::pod_logs;
use crate::product::checkout;
use crate::product::install::{NAME, NAMESPACE};
use crate::programs::last_lines;
use anyhow::{Context as _, Result};
use flux_api::crd::MiniCluster;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::ListParams;
use std::fs;

/// Where evidence is kept, below the checkout: one directory for each trial, named after its namespace.
pub const EVIDENCE: &str = "target/e2e-evidence";

/// How many lines of Events, and of each pod's log, the digest has.
const DIGEST_LINES: usize = 6;

const EVENTS: &str = "-ojsonpath={range .items[*]}{.metadata.creationTimestamp} \
                      {.involvedObject.name}: {.reason}: {.message}{\"\\n\"}{end}";

/// Writes every object, Event and log of the trial's namespace, and the operator's log, to files. Returns a digest for
/// the terminal, which names their directory.
pub async fn keep_evidence(trial: &Trial) -> String {
    match collect(trial).await {
        Ok(digest) => digest,
        Err(error) => format!("(no evidence: {error:#})"),
    }
}

async fn collect(trial: &Trial) -> Result<String> {
    let directory = checkout()?.join(EVIDENCE).join(trial.namespace());
    fs::create_dir_all(&directory).with_context(|| format!("making {}", directory.display()))?;
    let write = |name: &str, text: &str| {
        fs::write(directory.join(name), text).with_context(|| format!("writing {name}"))
    };
    // Kinds that cannot be read must not stop the others from being written.
    let printed = |words: &[&str]| {
        let printed = trial.kubectl(&[&["--request-timeout=1m"], words].concat());
        printed.unwrap_or_else(|error| format!("(not read: {error:#})\n"))
    };
    let mut digest = vec![format!("everything about it is in {}", directory.display())];
    let clusters = trial.api::<MiniCluster>().list(&ListParams::default()).await;
    for cluster in clusters.map(|list| list.items).unwrap_or_default() {
        let status = serde_saphyr::to_string(&cluster.status).unwrap_or_default();
        digest.push(format!("--- status of {}\n{status}", cluster.name_any()));
    }
    for kind in ["miniclusters", "jobs", "services", "configmaps", "pods"] {
        write(&format!("{kind}.yaml"), &printed(&["get", kind, "-oyaml"]))?;
    }
    let events = printed(&["get", "events", "--sort-by=.metadata.creationTimestamp", EVENTS]);
    digest.push(format!("--- Events\n{}", last_lines(&events, DIGEST_LINES)));
    write("events.txt", &events)?;
    let pods = trial.api::<Pod>().list(&ListParams::default()).await;
    for pod in pods.map(|list| list.items).unwrap_or_default() {
        for (container, log) in pod_logs(trial, &pod).await {
            let name = format!("{}-{container}.log", pod.name_any());
            digest.push(format!("--- {name}\n{}", last_lines(&log, DIGEST_LINES)));
            write(&name, &log)?;
        }
    }
    let selector = format!("--selector=app.kubernetes.io/name={NAME}");
    let of_operator = ["logs", "--namespace", NAMESPACE, &selector, "--tail=-1", "--prefix"];
    write("operator.log", &printed(&of_operator))?;
    Ok(digest.join("\n"))
}
