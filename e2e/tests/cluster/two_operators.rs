//! The operator in Go runs as well. No registry has it, so the test does what it does with a MiniCluster: in its order
//! the `ConfigMap` of its scripts, the headless Service and the Job, each only where the name is free, then the status
//! (`ensureMiniCluster` in `controllers/flux/minicluster.go` of that operator).

use crate::faults::{each_once, go};
use crate::why::edit;
use crate::{DEADLINE, apply, complete, lead, lead_log, ready_lead, trial};
use anyhow::{Context as _, Result, ensure};
use e2e::trial::{Trial, condition};
use flux_operator::crd::MiniCluster;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use kube::api::{Api, ApiResource, DynamicObject, ListParams, PostParams};
use kube::{Resource as _, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The condition by which that operator says that it has made everything.
const READY: &str = "JobMiniClusterReady";

/// Its objects of one MiniCluster.
struct Theirs {
    config_map: ConfigMap,
    service: Service,
    job: Job,
}

fn theirs(cluster: &MiniCluster) -> Result<Theirs> {
    let name = cluster.name_any();
    let mut owner = cluster.controller_owner_ref(&()).context("not in the API server")?;
    owner.block_owner_deletion = Some(true);
    let metadata = |name: &str| json!({ "name": name, "ownerReferences": [owner] });
    let command = "until test -e /tmp/go; do sleep 0.2; done; echo theirs";
    let labels = json!({
        "namespace": cluster.namespace(), "app": "flux-operator", "app.kubernetes.io/name": name,
        "hpa-selector": name,
    });
    let container =
        json!({ "name": name, "image": "ubuntu:24.04", "command": ["sh", "-c", command] });
    Ok(Theirs {
        config_map: object(json!({
            "metadata": metadata(&format!("{name}-entrypoint")), "data": { name.as_str(): "#!/bin/sh" },
        }))?,
        service: object(json!({
            "metadata": metadata(&name),
            "spec": { "clusterIP": "None", "selector": { "job-name": name } },
        }))?,
        job: object(json!({
            "metadata": metadata(&name),
            "spec": {
                "completionMode": "Indexed", "completions": cluster.spec.size,
                "parallelism": cluster.spec.size, "backoffLimit": 100,
                "template": {
                    "metadata": { "labels": labels },
                    "spec": {
                        "subdomain": name, "restartPolicy": "OnFailure", "containers": [container],
                    },
                },
            },
        }))?,
    })
}

fn object<K: DeserializeOwned>(value: Value) -> Result<K> {
    Ok(serde_json::from_value(value)?)
}

/// True when the error says that the name is taken.
fn is_taken<K>(created: Result<K, kube::Error>) -> bool {
    matches!(created, Err(kube::Error::Api(status)) if status.is_already_exists())
}

/// Puts its status in place of what there is: it knows no other field than these, and sets all conditions but its own
/// to `False` (`FlagConditionReady` in `pkg/job`).
async fn overwrite_status(trial: &Trial, name: &str) -> Result<()> {
    let resource = ApiResource::erase::<MiniCluster>(&());
    let api: Api<DynamicObject> =
        Api::namespaced_with(trial.client().clone(), trial.namespace(), &resource);
    let mut cluster = api.get_status(name).await?;
    let status = &mut cluster.data["status"];
    let mut conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let now = conditions.first().map(|condition| condition["lastTransitionTime"].clone());
    for condition in &mut conditions {
        condition["status"] = json!("False");
    }
    conditions.push(json!({
        "type": READY, "status": "True", "reason": READY, "message": READY, "lastTransitionTime": now,
    }));
    *status = json!({
        "size": status["size"], "selector": format!("hpa-selector={name}"), "jobid": "",
        "maximumSize": status["maximumSize"], "conditions": conditions,
    });
    api.replace_status(name, &PostParams::default(), &cluster).await?;
    Ok(())
}

/// This operator makes nothing of it until it is mended, so that the other one is first.
const REFUSED: &str = "{size: 1, flux: {topology: nonsense}, containers: [{image: 'ubuntu:24.04', command: echo ours}]}";

#[test]
#[ignore = "needs a cluster"]
fn what_the_operator_in_go_has_started_is_left_to_it() {
    trial("go-first", &[], async |trial| {
        let name = apply(trial, "theirs", REFUSED).await?;
        let refused = |cluster: Option<&MiniCluster>| {
            cluster.and_then(|it| condition(it, "Accepted")).is_some_and(|it| it.0 == "False")
        };
        let cluster = trial.await_minicluster(&name, "refused", DEADLINE, refused).await?;
        let Theirs { config_map, service, job } = theirs(&cluster)?;
        let parameters = PostParams::default();
        let config_map = trial.api().create(&parameters, &config_map).await?;
        let service = trial.api().create(&parameters, &service).await?;
        let job = trial.api().create(&parameters, &job).await?;
        edit(trial, &name, &json!({ "flux": { "topology": null } })).await?;
        let left_alone = |cluster: Option<&MiniCluster>| {
            let progressing = cluster.and_then(|cluster| condition(cluster, "Progressing"));
            progressing.is_some_and(|(_, reason, _)| reason == "StartedByAnotherOperator")
        };
        trial.await_minicluster(&name, "left alone", DEADLINE, left_alone).await?;
        nothing_of_ours(trial).await?;
        until_begun(trial, &name).await?;
        go(trial, &name, 0).await?;
        complete(trial, &name).await?;
        let log = lead_log(trial, &name).await?;
        each_once(&log, &["theirs"])?;
        let after = trial.api::<Job>().get(&name).await?;
        ensure!((after.uid(), &after.spec) == (job.uid(), &job.spec), "the Job: {after:?}");
        let after: ConfigMap = trial.api().get(&config_map.name_any()).await?;
        ensure!(after == config_map, "the ConfigMap: {after:?}");
        let after: Service = trial.api().get(&name).await?;
        ensure!(after == service, "the Service: {after:?}");
        Ok(())
    });
}

/// Waits until the container of their Job runs.
async fn until_begun(trial: &Trial, name: &str) -> Result<()> {
    crate::until("their pod to run", async || {
        let pod = trial.pod(name, 0).await?;
        let phase = pod.and_then(|pod| pod.status).and_then(|status| status.phase);
        Ok((phase.as_deref() == Some("Running")).then_some(()))
    })
    .await
}

/// This operator labels all that it makes.
async fn nothing_of_ours(trial: &Trial) -> Result<()> {
    let ours = ListParams::default().labels("app.kubernetes.io/managed-by=flux-operator");
    let jobs = trial.api::<Job>().list(&ours).await?.items.len();
    let services = trial.api::<Service>().list(&ours).await?.items.len();
    let config_maps = trial.api::<ConfigMap>().list(&ours).await?.items.len();
    let secrets = trial.api::<Secret>().list(&ours).await?.items.len();
    let all = [jobs, services, config_maps, secrets];
    ensure!(all == [0; 4], "Jobs, Services, ConfigMaps, Secrets of ours: {all:?}");
    Ok(())
}

#[test]
#[ignore = "needs a cluster"]
fn what_runs_goes_on_and_ends_although_the_operator_in_go_finds_it() {
    trial("go-later", &[], async |trial| {
        let command =
            "echo begun; until test -e /tmp/go; do sleep 0.2; done; flux run -N2 hostname";
        let spec = format!(
            "{{size: 2, containers: [{{image: 'ubuntu:24.04', launcher: true, command: '{command}'}}]}}"
        );
        let name = apply(trial, "ours", &spec).await?;
        let before = ready_lead(trial, &name).await?;
        let job = trial.api::<Job>().get(&name).await?;
        let Theirs { config_map, service, job: their_job } =
            theirs(&trial.api::<MiniCluster>().get(&name).await?)?;
        let parameters = PostParams::default();
        let config_map = trial.api().create(&parameters, &config_map).await?;
        ensure!(is_taken(trial.api().create(&parameters, &service).await), "two Services");
        ensure!(is_taken(trial.api().create(&parameters, &their_job).await), "two Jobs");
        overwrite_status(trial, &name).await?;
        go(trial, &name, 0).await?;
        let cluster = complete(trial, &name).await?;
        let status = cluster.status.context("no status")?;
        ensure!(status.exit_code == Some(0) && status.is_over(), "{status:?}");
        ensure!(lead(trial, &name).await?.name_any() == before, "the lead is another one");
        let log = lead_log(trial, &name).await?;
        each_once(&log, &["begun", "ours-0", "ours-1"])?;
        ensure!(trial.api::<Job>().get(&name).await?.uid() == job.uid(), "the Job is another one");
        let after: ConfigMap = trial.api().get(&config_map.name_any()).await?;
        ensure!(after == config_map, "their ConfigMap: {after:?}");
        Ok(())
    });
}
