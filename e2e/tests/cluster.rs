//! What only a running cluster can show. Each test makes a namespace of its own, applies what a user
//! would apply, waits for conditions with deadlines, and shows everything when it fails.
//!
//! Run by `cargo verify`, or alone: `cargo test -p e2e --test cluster -- --ignored`.
#![expect(clippy::unwrap_used, clippy::panic, reason = "these are tests, helpers included")]

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::{
    environment::Environment,
    progress::Progress,
    trial::{Trial, condition, is_true, pod_logs},
};
use flux_operator::crd::MiniCluster;
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ConfigMap, Event, Pod, Secret},
};
use kube::{Api, ResourceExt, api::ListParams};

/// A MiniCluster that has everything it needs is done long before.
const DEADLINE: Duration = Duration::from_mins(3);

/// Runs `body` in a namespace of its own, on the environment that all tests share.
fn trial(
    purpose: &str,
    labels: &[(&str, &str)],
    body: impl AsyncFnOnce(&Trial) -> Result<()> + Send,
) {
    let progress = Progress::new();
    let environment = Environment::shared(&progress).unwrap();
    if let Err(error) = environment.trial(purpose, labels, &progress, body) {
        panic!("{error:#}");
    }
}

fn minicluster(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: flux-framework.org/v1alpha2\nkind: MiniCluster\nmetadata: {{name: {name}}}\nspec: {spec}\n"
    )
}

async fn lead_log(trial: &Trial, name: &str) -> Result<String> {
    let pods = trial.pods(name).await?;
    let lead = pods
        .iter()
        .find(|pod| pod.name_any().starts_with(&format!("{name}-0-")))
        .with_context(|| format!("{name} has no lead pod"))?;
    let logs = pod_logs(trial, lead).await;
    let log = logs.into_iter().find(|(container, _)| container == name);
    Ok(log.with_context(|| format!("the lead of {name} has no runner"))?.1)
}

fn exit_code(cluster: &MiniCluster) -> Option<i32> {
    cluster.status.as_ref().and_then(|status| status.exit_code)
}

async fn job(trial: &Trial, name: &str) -> Result<Job> {
    trial.api::<Job>().get(name).await.with_context(|| format!("reading the Job {name}"))
}

fn job_is(job: &Job, kind: &str) -> bool {
    let conditions = job.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|found| found.type_ == kind && found.status == "True")
}

fn running(pods: &[Pod]) -> Vec<String> {
    let phase = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.clone());
    let is_running = |pod: &&Pod| {
        pod.metadata.deletion_timestamp.is_none()
            && matches!(phase(pod).as_deref(), Some("Running" | "Pending"))
    };
    pods.iter().filter(is_running).map(ResourceExt::name_any).collect()
}

#[test]
#[ignore = "needs a cluster"]
fn hello_world_runs_on_four_pods_and_completes() {
    let example = include_str!("../../examples/hello-world/minicluster.yaml");
    trial("hello", &[], async |trial| {
        let name = trial.apply(example).await?;
        let cluster = trial.await_finished(&name, DEADLINE).await?;
        ensure!(is_true(&cluster, "Complete"), "conditions: {:?}", cluster.status);
        ensure!(exit_code(&cluster) == Some(0), "exit code {:?}", exit_code(&cluster));
        let log = lead_log(trial, &name).await?;
        ensure!(log.lines().any(|line| line == "hello world"), "log of the lead:\n{log}");
        let job = job(trial, &name).await?;
        ensure!(job_is(&job, "Complete"), "the Job is not complete: {:?}", job.status);
        ensure!(job.spec.and_then(|spec| spec.completions) == Some(4), "not four pods");
        let running = running(&trial.pods(&name).await?);
        ensure!(running.is_empty(), "still running: {running:?}");
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn kubectl_shows_size_ready_brokers_state_exit_code_and_age() {
    let progress = Progress::new();
    let environment = Environment::shared(&progress).unwrap();
    let shown = environment.run(async |client| {
        let trial = Trial::begin(&client, "columns", &[]).await?;
        let name = trial
            .apply(&minicluster(
                "columns",
                "{size: 2, containers: [{image: 'ubuntu:24.04', command: 'sleep 30'}]}",
            ))
            .await?;
        let ready = |cluster: Option<&MiniCluster>| {
            cluster
                .and_then(|cluster| cluster.status.as_ref())
                .is_some_and(|s| s.ready_brokers == 2)
        };
        trial.await_minicluster(&name, "ready with two brokers", DEADLINE, ready).await?;
        let table = environment.kubectl(&["get", "mc", "--namespace", trial.namespace()])?;
        trial.clean().await?;
        Ok(table)
    });
    let table = shown.unwrap();
    let mut lines = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    assert_eq!(lines.next().unwrap(), ["NAME", "SIZE", "READY", "STATUS", "EXIT", "AGE"]);
    let row = lines.next().unwrap();
    assert_eq!(row[..4], ["columns", "2", "2", "Running"], "{table}");
}

#[test]
#[ignore = "needs a cluster"]
fn a_failing_command_fails_once_with_its_code() {
    trial("failing", &[], async |trial| {
        let name = trial
            .apply(&minicluster(
                "failing",
                r#"{size: 2, containers: [{image: "ubuntu:24.04", command: 'sh -c "exit 7"'}]}"#,
            ))
            .await?;
        let cluster = trial.await_finished(&name, DEADLINE).await?;
        ensure!(is_true(&cluster, "Failed"), "conditions: {:?}", cluster.status);
        ensure!(exit_code(&cluster) == Some(7), "exit code {:?}", exit_code(&cluster));
        let (_, reason, message) = condition(&cluster, "Failed").context("no Failed condition")?;
        ensure!(message.contains('7'), "Failed: {reason}: {message}");
        let pods = trial.pods(&name).await?;
        let leads = pods.iter().filter(|pod| pod.name_any().starts_with("failing-0-")).count();
        ensure!(leads == 1, "the lead was made {leads} times");
        let restarts: i32 = pods
            .iter()
            .filter_map(|pod| pod.status.as_ref())
            .flat_map(|status| status.container_statuses.iter().flatten())
            .map(|status| status.restart_count)
            .sum();
        ensure!(restarts == 0, "containers were started again {restarts} times");
        ensure!(job_is(&job(trial, &name).await?, "Failed"), "the Job is not failed");
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn the_key_pair_is_in_a_secret_only() {
    trial("secret", &[], async |trial| {
        let name = trial
            .apply(&minicluster(
                "secret",
                "{size: 2, logging: {debug: true, zeromq: true}, flux: {logLevel: 7}, containers: [{image: 'ubuntu:24.04', command: 'echo done'}]}",
            ))
            .await?;
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
async fn keys_of(trial: &Trial, name: &str) -> Result<Vec<String>> {
    let secret = trial
        .api::<Secret>()
        .get(&format!("{name}-curve"))
        .await
        .context("reading the Secret with the certificate")?;
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
    let operators: Api<Pod> =
        Api::namespaced(trial.client().clone(), e2e::product::install::NAMESPACE);
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

#[test]
#[ignore = "needs a cluster"]
fn an_image_without_a_shell_runs_hello_world() {
    trial("no-shell", &[], async |trial| {
        let name = trial
            .apply(&minicluster(
                "no-shell",
                &format!(
                    "{{size: 2, containers: [{{image: '{}', command: echo hello from nothing}}]}}",
                    e2e::product::images::NO_SHELL
                ),
            ))
            .await?;
        let cluster = trial.await_finished(&name, DEADLINE).await?;
        ensure!(is_true(&cluster, "Complete"), "conditions: {:?}", cluster.status);
        let log = lead_log(trial, &name).await?;
        ensure!(log.lines().any(|line| line == "hello from nothing"), "log:\n{log}");
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn pod_security_restricted_lets_a_non_root_minicluster_run() {
    let labels = [("pod-security.kubernetes.io/enforce", "restricted")];
    trial("restricted", &labels, async |trial| {
        let name = trial.apply(&minicluster("restricted", RESTRICTED)).await?;
        let cluster = trial.await_finished(&name, DEADLINE).await?;
        ensure!(is_true(&cluster, "Complete"), "conditions: {:?}", cluster.status);
        let log = lead_log(trial, &name).await?;
        ensure!(log.lines().any(|line| line == "12345"), "log of the lead:\n{log}");
        Ok(())
    });
}

const RESTRICTED: &str = "
  size: 2
  pod:
    securityContext: {runAsNonRoot: true, runAsUser: 12345, seccompProfile: {type: RuntimeDefault}}
  containers:
    - image: ubuntu:24.04
      command: id -u
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
";

#[test]
#[ignore = "needs a cluster"]
fn what_cannot_be_is_refused_with_every_fault_named() {
    const IMAGE: &str = "image: 'ubuntu:24.04'";
    let cases = [
        ("negative", format!("{{size: -1, containers: [{{{IMAGE}}}]}}"), vec!["size"]),
        (
            "two-runners",
            format!(
                "{{size: 1, containers: [{{{IMAGE}, runFlux: true}}, {{{IMAGE}, name: b, runFlux: true}}]}}"
            ),
            vec!["runFlux"],
        ),
        ("smaller", format!("{{size: 4, maxSize: 2, containers: [{{{IMAGE}}}]}}"), vec!["maxSize"]),
        (
            "a-name-of-sixty-characters-which-is-more-than-fits-a-pod-host",
            format!("{{size: 1, containers: [{{{IMAGE}}}]}}"),
            vec!["name"],
        ),
        (
            "both",
            format!(
                "{{size: 1, containers: [{{{IMAGE}, launcher: true, batch: true, command: a}}]}}"
            ),
            vec!["launcher", "batch"],
        ),
        (
            "many",
            format!(
                "{{size: 4, maxSize: 2, minSize: 9, containers: [{{{IMAGE}, launcher: true, batch: true, command: a}}]}}"
            ),
            vec!["maxSize", "minSize", "launcher"],
        ),
    ];
    trial("refused", &[], async |trial| {
        for (name, spec, words) in &cases {
            let refusal = refusal(trial, name, spec).await?;
            for word in words {
                ensure!(refusal.contains(word), "{name}: {word} is not named in: {refusal}");
            }
        }
        Ok(())
    });
}

/// What the API server or the operator says against a specification.
async fn refusal(trial: &Trial, name: &str, spec: &str) -> Result<String> {
    let applied = match trial.apply(&minicluster(name, spec)).await {
        Ok(applied) => applied,
        Err(error) => return Ok(format!("{error:#}")),
    };
    let refused = |cluster: Option<&MiniCluster>| {
        cluster.and_then(|cluster| condition(cluster, "Accepted")).is_some_and(|c| c.0 == "False")
    };
    let cluster = trial.await_minicluster(&applied, "refused", DEADLINE, refused).await?;
    let (_, _, message) = condition(&cluster, "Accepted").context("no condition Accepted")?;
    Ok(message.to_owned())
}

#[test]
#[ignore = "needs a cluster"]
fn deleting_a_running_minicluster_leaves_nothing_of_it() {
    trial("deleted", &[], async |trial| {
        let name = trial
            .apply(&minicluster(
                "deleted",
                "{size: 2, interactive: true, containers: [{image: 'ubuntu:24.04'}]}",
            ))
            .await?;
        let ready = |cluster: Option<&MiniCluster>| cluster.is_some_and(|c| is_true(c, "Ready"));
        trial.await_minicluster(&name, "ready", DEADLINE, ready).await?;
        let clusters = trial.api::<MiniCluster>();
        let uid = clusters.get(&name).await?.metadata.uid.unwrap_or_default();
        clusters.delete(&name, &kube::api::DeleteParams::foreground()).await?;
        let gone = kube::runtime::wait::await_condition(
            clusters,
            &name,
            kube::runtime::wait::conditions::is_deleted(&uid),
        );
        tokio::time::timeout(DEADLINE, gone).await.context("waiting for the deletion")??;
        let secrets = trial.api::<Secret>().list(&ListParams::default()).await?;
        ensure!(secrets.items.is_empty(), "{} Secrets are left", secrets.items.len());
        let pods = trial.pods(&name).await?;
        ensure!(pods.is_empty(), "{} pods are left", pods.len());
        Ok(())
    });
}
