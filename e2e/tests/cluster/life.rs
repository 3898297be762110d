//! From the apply to the end.

use crate::{DEADLINE, apply, await_status, complete, kubectl, ready_lead, trial};
use anyhow::{Context as _, ensure};
use e2e::trial::Trial;
use flux_operator::crd::MiniCluster;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, ObjectMeta, PostParams},
    runtime::wait::{await_condition, conditions},
};

#[test]
#[ignore = "needs a cluster"]
fn kubectl_shows_size_ready_brokers_state_exit_code_and_age() {
    trial("columns", &[], async |trial| {
        let spec = "{size: 2, containers: [{image: 'ubuntu:24.04', command: 'sleep 30'}]}";
        let name = apply(trial, "columns", spec).await?;
        await_status(trial, &name, "ready with two brokers", |it| it.ready_brokers == 2).await?;
        let table = kubectl(&["get", "mc", "--namespace", trial.namespace()])?;
        let lines: Vec<Vec<_>> =
            table.lines().map(|line| line.split_whitespace().collect()).collect();
        ensure!(lines[0] == ["NAME", "SIZE", "READY", "STATUS", "EXIT", "AGE"], "{table}");
        ensure!(lines[1].starts_with(&["columns", "2", "2", "Running"]), "{table}");
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn deleting_a_running_minicluster_leaves_nothing_of_it() {
    trial("deleted", &[], async |trial| {
        let spec = "{size: 2, interactive: true, containers: [{image: 'ubuntu:24.04'}]}";
        let name = apply(trial, "deleted", spec).await?;
        ready_lead(trial, &name).await?;
        let clusters = trial.api::<MiniCluster>();
        let uid = clusters.get(&name).await?.metadata.uid.unwrap_or_default();
        clusters.delete(&name, &DeleteParams::foreground()).await?;
        let gone = await_condition(clusters, &name, conditions::is_deleted(&uid));
        tokio::time::timeout(DEADLINE, gone).await.context("waiting for the deletion")??;
        let secrets = trial.api::<Secret>().list(&ListParams::default()).await?;
        ensure!(secrets.items.is_empty(), "{} Secrets are left", secrets.items.len());
        let pods = trial.pods(&name).await?;
        ensure!(pods.is_empty(), "{} pods are left", pods.len());
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn a_namespace_goes_with_the_minicluster_that_runs_in_it() {
    trial("around", &[], async |trial| {
        let inside = Trial::begin(trial.client(), "inside", &[]).await?;
        let spec = "{size: 2, interactive: true, containers: [{image: 'ubuntu:24.04'}]}";
        let name = apply(&inside, "inside", spec).await?;
        ready_lead(&inside, &name).await?;
        let namespaces: Api<Namespace> = Api::all(trial.client().clone());
        let namespace = inside.namespace().to_owned();
        let uid = namespaces.get(&namespace).await?.metadata.uid.unwrap_or_default();
        inside.clean().await?;
        let gone = await_condition(namespaces, &namespace, conditions::is_deleted(&uid));
        tokio::time::timeout(DEADLINE, gone).await.context("waiting for the namespace to go")??;
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn a_finished_minicluster_runs_again_when_it_is_restored_from_a_backup() {
    trial("backup", &[], async |trial| {
        let spec = "{size: 1, containers: [{image: 'ubuntu:24.04', command: 'true'}]}";
        let name = apply(trial, "backup", spec).await?;
        let backup = complete(trial, &name).await?;
        let clusters = trial.api::<MiniCluster>();
        let uid = backup.uid().context("no uid")?;
        clusters.delete(&name, &DeleteParams::foreground()).await?;
        let gone = await_condition(clusters.clone(), &name, conditions::is_deleted(&uid));
        tokio::time::timeout(DEADLINE, gone).await.context("waiting for the deletion")??;
        let metadata = ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() };
        let restored = MiniCluster { metadata, ..backup.clone() };
        clusters.create(&PostParams::default(), &restored).await.context("restoring it")?;
        let again = complete(trial, &name).await?;
        let began = |cluster: &MiniCluster| cluster.status.clone().and_then(|it| it.start_time);
        ensure!(began(&again) > began(&backup), "{:?}, {:?}", began(&backup), began(&again));
        Ok(())
    });
}
