//! The label `job-index: "0"` on the lead of a Job. Services and tools of users select by it.
//!
//! A template gives all pods the same labels, so a lead gets this one when it is there. The watch knows
//! pods without the label only: a pod that has it is forgotten.

use super::context::{Context, Scope, api, notice};
use super::error::Error;
use super::guard::{LIMIT, guarded};
use super::kept::controller;
use super::watches::{JOB, our_metadata};
use crate::crd::MiniCluster;
use flux_contract::labels;
use futures::StreamExt as _;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Patch, PatchParams};
use kube::core::{ObjectMeta, PartialObjectMeta};
use kube::runtime::Controller;
use kube::runtime::controller::{Action, Config};
use kube::{Api, Resource as _, ResourceExt as _};
use serde_json::json;
use std::future::ready;
use std::sync::Arc;

/// Leads of ours that have not got the label yet.
pub(super) const UNLABELLED: &str = "app.kubernetes.io/managed-by=flux-operator,batch.kubernetes.io/job-completion-index=0,!job-index";

/// Labels pods until `shutdown` resolves.
pub(super) async fn run(
    context: Arc<Context>,
    scope: &Scope,
    shutdown: impl Future<Output = ()> + Send + Sync + 'static,
) {
    let pods = api(&context.client, scope.namespace.as_deref());
    let (store, changes) = our_metadata::<Pod>(pods, UNLABELLED, JOB);
    Controller::for_stream(changes, store)
        .with_config(Config::default().concurrency(scope.concurrency))
        .graceful_shutdown_on(shutdown)
        .run(label_one, retry, Arc::clone(&context))
        .for_each(|result| {
            notice(result, &context.label_failures);
            ready(())
        })
        .await;
}

/// Tries again after a wait that doubles with each failure in a row.
#[expect(clippy::needless_pass_by_value, reason = "the signature that `Controller::run` asks for")]
fn retry(pod: Arc<PartialObjectMeta<Pod>>, error: &Error, context: Arc<Context>) -> Action {
    let (failures, wait) = context.label_failures.failed(pod.as_ref());
    let (name, namespace) = (pod.name_any(), pod.namespace().unwrap_or_default());
    let (category, error) = (error.category(), error.chain());
    tracing::warn!(name, namespace, category, error, failures, ?wait, "label the pod later");
    Action::requeue(wait)
}

/// Puts the label on a pod, if the pod belongs to a Job that belongs to a MiniCluster.
pub async fn label_one(
    pod: Arc<PartialObjectMeta<Pod>>,
    context: Arc<Context>,
) -> Result<Action, Error> {
    let result = guarded(LIMIT, label(&pod, &context)).await;
    match &result {
        Ok(_) => context.label_failures.forget(pod.namespace().as_deref(), &pod.name_any()),
        Err(error) => context.metrics.count_label_failure(error.category()),
    }
    result
}

async fn label(pod: &PartialObjectMeta<Pod>, context: &Context) -> Result<Action, Error> {
    let (name, namespace) = (pod.name_any(), pod.namespace().unwrap_or_default());
    let index = pod.labels().get(labels::COMPLETION_INDEX);
    let (Some(owner), Some(index)) = (controller(pod.owner_references()), index) else {
        return Ok(Action::await_change());
    };
    if owner.kind != JOB || !is_ours(context, &namespace, owner).await? {
        return Ok(Action::await_change());
    }
    let pods: Api<Pod> = Api::namespaced(context.client.clone(), &namespace);
    // The uid without the resource version: nobody else writes this label, and a pod that starts changes so often
    // that every other write would be refused.
    let patch = json!({ "metadata": { "uid": pod.uid(), "labels": { labels::JOB_INDEX: index } } });
    let parameters = PatchParams::default();
    match pods.patch_metadata(&name, &parameters, &Patch::Merge(patch)).await {
        Ok(_) => Ok(Action::await_change()),
        // The pod is gone, or another one has its name: the watch brings that one.
        Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => {
            Ok(Action::await_change())
        }
        Err(source) => Err(Error::Apply { kind: "Pod".to_owned(), name, source: Box::new(source) }),
    }
}

/// True when the Job that `owner` means is there and is controlled by a MiniCluster.
async fn is_ours(
    context: &Context,
    namespace: &str,
    owner: &OwnerReference,
) -> Result<bool, Error> {
    let of_cluster = |job: &ObjectMeta| {
        job.uid.as_ref() == Some(&owner.uid)
            && controller(job.owner_references.as_deref().unwrap_or_default()).is_some_and(
                |owner| {
                    owner.kind == MiniCluster::kind(&())
                        && owner.api_version == MiniCluster::api_version(&())
                },
            )
    };
    // Who owns a Job does not change.
    if context.known.job(namespace, &owner.name).is_some_and(|job| of_cluster(job.meta())) {
        return Ok(true);
    }
    let jobs: Api<Job> = Api::namespaced(context.client.clone(), namespace);
    let job = jobs.get_metadata_opt(&owner.name).await.map_err(|source| Error::Read {
        kind: "Job".to_owned(),
        name: owner.name.clone(),
        source: Box::new(source),
    })?;
    Ok(job.is_some_and(|job| of_cluster(&job.metadata)))
}
