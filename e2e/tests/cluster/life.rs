//! From the apply to the end.

use crate::{DEADLINE, lead_log, minicluster, trial};
use anyhow::{Context as _, Result, ensure};
use e2e::{
    environment::Environment,
    progress::Progress,
    trial::{Trial, condition, is_true},
};
use flux_operator::crd::MiniCluster;
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{Pod, Secret},
};
use kube::{ResourceExt, api::ListParams};

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
    let example = include_str!("../../../examples/hello-world/minicluster.yaml");
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
