//! The Indexed Job whose pods are the brokers, and the pod of `spec.services`.

use super::Images;
use super::agent_config::START_SECONDS;
use super::containers::{containers, init_containers};
use super::meta::{object_labels, object_meta, pod_labels, services_pod_labels};
use super::overlay::overlaid;
use super::volumes::volumes;
use crate::cluster::{Cluster, RUN_ID_ANNOTATION, TOPOLOGY_ANNOTATIONS};
use anyhow::Result;
use flux_contract::{Exit, Install};
use k8s_openapi::api::batch::v1::{
    Job, JobSpec, PodFailurePolicy, PodFailurePolicyOnExitCodesRequirement,
    PodFailurePolicyOnPodConditionsPattern, PodFailurePolicyRule, SuccessPolicy, SuccessPolicyRule,
};
use k8s_openapi::api::core::v1::{Pod, PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::BTreeMap;

/// Annotation of the Job: the last generation of the MiniCluster that the Job has.
pub const GENERATION_ANNOTATION: &str = "flux-framework.org/generation";

/// Annotation of the Job: the keys of its labels that come from the MiniCluster.
pub const JOB_LABELS_ANNOTATION: &str = "flux-framework.org/job-labels";

/// Annotation of the Job: the keys of its annotations that come from the MiniCluster.
pub const JOB_ANNOTATIONS_ANNOTATION: &str = "flux-framework.org/job-annotations";

/// Annotation of a Job that the operator has suspended: the reason.
pub const SUSPENDED_ANNOTATION: &str = "flux-framework.org/suspended";

/// Value of [`SUSPENDED_ANNOTATION`] if the reason is `spec.suspend`.
pub const BY_SPECIFICATION: &str = "true";

/// How often the Job controller replaces a lost pod, each time after a longer pause (10 s, 20 s, ...;
/// `backoff_utils.go` of the Job controller): a quarter of an hour in all.
const REPLACEMENTS: i32 = 6;

/// Exit code of a container that is stopped before `runc init` executes its program: a Go program that is PID 1
/// exits with it if the signal does not end it (`dieFromSignal` in `runtime/signal_unix.go`).
const STOPPED_IN_RUNC: i32 = 2;

/// Exit codes of the runner after which its pod is replaced: of a kill by the kernel (for memory) or the kubelet, of
/// a container that the kubelet lost, and of one that never began.
pub const KILLED: [i32; 3] = [STOPPED_IN_RUNC, 137, 255];

/// True when a pod whose runner has ended with `code` is replaced.
pub fn is_replaced(code: i32) -> bool {
    code == i32::from(Exit::Stopped.code()) || KILLED.contains(&code)
}

/// Exit codes of a container that ended because its pod or the runner ended.
const ENDED_WITH_THE_RUNNER: [i32; 5] = [STOPPED_IN_RUNC, Exit::Broker as i32, 137, 143, 255];

/// Annotation of a pod: the default container of `kubectl logs` and `kubectl exec`.
const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";

/// Other containers with a failure rule: the API server accepts twenty. A pod in which another one fails is replaced.
const CONTAINER_RULES: usize = 17;

/// Suspends `job`, with `reason` as a note.
pub fn suspend(job: &mut Job, reason: String) {
    job.spec.get_or_insert_default().suspend = Some(true);
    let annotations = job.metadata.annotations.get_or_insert_default();
    annotations.insert(SUSPENDED_ANNOTATION.to_owned(), reason);
}

/// The Job, with notes of the MiniCluster's `generation` and of the fixed fields.
pub(super) fn job(
    cluster: &Cluster,
    images: &Images,
    install: Install,
    generation: i64,
) -> Result<Job> {
    let template = template(cluster, images, install)?;
    let (once, never_restarted) = (cluster.runs_once(), cluster.never_restarts());
    let size = i32::try_from(cluster.size).unwrap_or(i32::MAX);
    let mut metadata = object_meta(cluster, cluster.name.as_str());
    let mut labels = cluster.job_labels.clone();
    labels.extend(object_labels(&cluster.name));
    metadata.labels = Some(labels);
    let mut annotations = BTreeMap::from([
        (GENERATION_ANNOTATION.to_owned(), generation.to_string()),
        cluster.fixed_fields.annotation(),
    ]);
    for (note, entries) in [
        (JOB_LABELS_ANNOTATION, &cluster.job_labels),
        (JOB_ANNOTATIONS_ANNOTATION, &cluster.job_annotations),
    ] {
        if !entries.is_empty() {
            let keys: Vec<&str> = entries.keys().map(String::as_str).collect();
            annotations.insert(note.to_owned(), keys.join(","));
        }
    }
    annotations.extend(cluster.run_id.clone().map(|id| (RUN_ID_ANNOTATION.to_owned(), id)));
    annotations.extend(cluster.job_annotations.clone());
    metadata.annotations = Some(annotations);
    Ok(Job {
        metadata,
        spec: Some(JobSpec {
            active_deadline_seconds: Some(deadline(cluster)),
            backoff_limit: (!once)
                .then(|| i32::try_from(cluster.backoff_limit).unwrap_or(i32::MAX)),
            backoff_limit_per_index: once.then_some(REPLACEMENTS),
            completion_mode: Some("Indexed".to_owned()),
            completions: Some(size),
            max_failed_indexes: once.then_some(0),
            parallelism: Some(size),
            pod_failure_policy: never_restarted.then(|| failure_policy(cluster, &template)),
            // The API server accepts no other policy together with a failure policy (KEP-3939).
            pod_replacement_policy: never_restarted.then(|| "Failed".to_owned()),
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

/// The deadline at which the Job controller ends the Job and deletes pods and logs. If the agent ends the run at its
/// deadline, this one is later, for pods that never start or do not stop.
fn deadline(cluster: &Cluster) -> i64 {
    if !cluster.deadline_by_agent {
        return cluster.deadline_seconds;
    }
    let more = cluster.pod.grace_seconds.saturating_add(START_SECONDS);
    cluster.deadline_seconds.saturating_add(i64::try_from(more).unwrap_or(i64::MAX))
}

/// The rules by which a pod fails the Job, in the order in which the Job controller applies them. If the command may
/// run only once, any exit code of the command or of a worker's agent fails the Job; stopped and disrupted pods are
/// replaced, killed ones a limited number of times. If it may be repeated, only the deadline fails the Job at once.
fn failure_policy(cluster: &Cluster, template: &PodTemplateSpec) -> PodFailurePolicy {
    let runner = || Some(cluster.runner.container.name.clone());
    let mut rules = Vec::new();
    if cluster.runs_once() {
        let stopped = i32::from(Exit::Stopped.code());
        rules.push(by_exit_code("Ignore", runner(), "In", vec![stopped]));
        let mut replaced = [&[stopped][..], &KILLED].concat();
        // The API server requires the codes in order.
        replaced.sort_unstable();
        rules.push(by_exit_code("FailJob", runner(), "NotIn", replaced));
        let others =
            other_containers(template, &cluster.runner.container.name).take(CONTAINER_RULES);
        rules.extend(others.map(|name| {
            by_exit_code("FailJob", Some(name), "NotIn", ENDED_WITH_THE_RUNNER.into())
        }));
    } else if cluster.deadline_by_agent {
        rules.push(by_exit_code("FailJob", runner(), "In", vec![Exit::Deadline.code().into()]));
    }
    rules.push(PodFailurePolicyRule {
        action: "Ignore".to_owned(),
        on_pod_conditions: Some(vec![PodFailurePolicyOnPodConditionsPattern {
            type_: "DisruptionTarget".to_owned(),
            status: Some("True".to_owned()),
        }]),
        ..PodFailurePolicyRule::default()
    });
    PodFailurePolicy { rules }
}

/// The other containers that the kubelet does not restart: init containers, and main containers beside the runner.
fn other_containers(template: &PodTemplateSpec, runner: &str) -> impl Iterator<Item = String> {
    let pod = template.spec.as_ref();
    let before = pod.into_iter().flat_map(|pod| pod.init_containers.iter().flatten());
    let before = before.filter(|container| container.restart_policy.is_none());
    let main = pod.into_iter().flat_map(|pod| &pod.containers);
    let all = before.chain(main).map(|container| container.name.clone());
    all.filter(move |name| name != runner)
}

fn by_exit_code(
    action: &str,
    container_name: Option<String>,
    operator: &str,
    values: Vec<i32>,
) -> PodFailurePolicyRule {
    PodFailurePolicyRule {
        action: action.to_owned(),
        on_exit_codes: Some(PodFailurePolicyOnExitCodesRequirement {
            container_name,
            operator: operator.to_owned(),
            values,
        }),
        ..PodFailurePolicyRule::default()
    }
}

fn template(cluster: &Cluster, images: &Images, install: Install) -> Result<PodTemplateSpec> {
    let pod = pod_spec(cluster, images, install);
    let mut annotations = cluster.pod.annotations.clone();
    let topology = cluster.job_annotations.iter();
    let topology = topology.filter(|(key, _)| key.starts_with(TOPOLOGY_ANNOTATIONS));
    annotations.extend(topology.map(|(key, value)| (key.clone(), value.clone())));
    let runner = cluster.runner.container.name.clone();
    annotations.entry(DEFAULT_CONTAINER.to_owned()).or_insert(runner);
    Ok(PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(pod_labels(cluster)),
            annotations: Some(annotations),
            ..ObjectMeta::default()
        }),
        spec: Some(overlaid(pod, cluster.pod.overlay.as_ref())?),
    })
}

fn pod_spec(cluster: &Cluster, images: &Images, install: Install) -> PodSpec {
    PodSpec {
        containers: containers(cluster, images, install),
        init_containers: init_containers(cluster, images, install),
        volumes: Some(volumes(cluster, images, install)),
        ..cluster.pod.spec.clone()
    }
}

/// The pod of `spec.services`, if there is one, with a note of its fixed fields.
pub(super) fn services_pod(cluster: &Cluster) -> Option<Pod> {
    let given = cluster.services_pod.as_ref()?;
    let mut annotations = cluster.pod.annotations.clone();
    annotations.extend([given.fixed_fields.annotation()]);
    let metadata = ObjectMeta {
        labels: Some(services_pod_labels(cluster)),
        annotations: Some(annotations),
        ..object_meta(cluster, &cluster.name.services_pod())
    };
    Some(Pod { metadata, spec: Some(given.spec.clone()), status: None })
}
