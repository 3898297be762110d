//! The Indexed Job whose pods are the brokers.

use super::agent_config::START_SECONDS;
use super::error::BuildError;
use super::images::Images;
use super::meta::{object_labels, object_meta};
use super::pod::template;
use crate::cluster::Cluster;
use crate::controller::job_change::{GENERATION_ANNOTATION, JOB_LABELS_ANNOTATION};
use flux_contract::{Exit, Install};
use k8s_openapi::api::batch::v1::{
    Job, JobSpec, PodFailurePolicy, PodFailurePolicyOnExitCodesRequirement,
    PodFailurePolicyOnPodConditionsPattern, PodFailurePolicyRule, SuccessPolicy, SuccessPolicyRule,
};
use std::collections::BTreeMap;

/// The Job. Noted on it: `generation`, which is the MiniCluster's, and the fields of the
/// specification that cannot be changed while it exists.
pub(super) fn job(
    cluster: &Cluster,
    images: &Images,
    install: Install,
    generation: i64,
) -> Result<Job, BuildError> {
    let template = template(cluster, images, install)?;
    let size = i32::try_from(cluster.size).unwrap_or(i32::MAX);
    // A pod lost to its node is not the command's failure. The API server takes a failure policy
    // for pods that are never restarted only.
    let ignores_disruption = cluster.pod.restart_policy == "Never";
    let mut metadata = object_meta(cluster, cluster.name.as_str());
    let mut labels = cluster.job_labels.clone();
    labels.extend(object_labels(cluster));
    metadata.labels = Some(labels);
    let mut annotations = BTreeMap::from([
        (GENERATION_ANNOTATION.to_owned(), generation.to_string()),
        cluster.fixed_fields.annotation(),
    ]);
    if !cluster.job_labels.is_empty() {
        let keys: Vec<&str> = cluster.job_labels.keys().map(String::as_str).collect();
        annotations.insert(JOB_LABELS_ANNOTATION.to_owned(), keys.join(","));
    }
    metadata.annotations = Some(annotations);
    Ok(Job {
        metadata,
        spec: Some(JobSpec {
            active_deadline_seconds: Some(deadline(cluster)),
            backoff_limit: Some(i32::try_from(cluster.backoff_limit).unwrap_or(i32::MAX)),
            completion_mode: Some("Indexed".to_owned()),
            completions: Some(size),
            parallelism: Some(size),
            pod_failure_policy: ignores_disruption.then(|| failure_policy(cluster)),
            // The only policy the API server accepts beside a failure policy (KEP-3939).
            pod_replacement_policy: ignores_disruption.then(|| "Failed".to_owned()),
            success_policy: Some(SuccessPolicy {
                rules: vec![SuccessPolicyRule {
                    succeeded_indexes: Some("0".to_owned()),
                    ..SuccessPolicyRule::default()
                }],
            }),
            template,
            ..JobSpec::default()
        }),
        status: None,
    })
}

/// When the Job is ended by Kubernetes, pods and logs with it. Where an agent keeps the deadline that
/// is only for pods that never start, or do not stop.
fn deadline(cluster: &Cluster) -> i64 {
    if !cluster.deadline_by_agent {
        return cluster.deadline_seconds;
    }
    let more = cluster.pod.grace_seconds.saturating_add(START_SECONDS);
    cluster.deadline_seconds.saturating_add(i64::try_from(more).unwrap_or(i64::MAX))
}

/// A disruption is nobody's failure; a deadline that has passed is one for good, whatever the backoff
/// limit is.
fn failure_policy(cluster: &Cluster) -> PodFailurePolicy {
    let disruption = PodFailurePolicyRule {
        action: "Ignore".to_owned(),
        on_pod_conditions: Some(vec![PodFailurePolicyOnPodConditionsPattern {
            type_: "DisruptionTarget".to_owned(),
            status: "True".to_owned(),
        }]),
        ..PodFailurePolicyRule::default()
    };
    let deadline = cluster.deadline_by_agent.then(|| PodFailurePolicyRule {
        action: "FailJob".to_owned(),
        on_exit_codes: Some(PodFailurePolicyOnExitCodesRequirement {
            container_name: Some(cluster.runner.container.name.clone()),
            operator: "In".to_owned(),
            values: vec![Exit::Deadline.code().into()],
        }),
        ..PodFailurePolicyRule::default()
    });
    PodFailurePolicy { rules: [disruption].into_iter().chain(deadline).collect() }
}
