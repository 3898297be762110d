//! Limits a Job in a queue (Kueue) to what the queue has admitted, and finds whether it waits there.

use crate::controller::job_ext::{is_suspended, noted_keys, parallelism};
use flux_api::cluster::{
    Cluster, ELASTIC_ANNOTATION, EQUAL_ANNOTATION, LEAST_PODS_ANNOTATION, QUEUE_LABEL,
    QUEUED_SIZE_ANNOTATION, TOPOLOGY_ANNOTATIONS,
};
use flux_api::objects::{JOB_ANNOTATIONS_ANNOTATION, JOB_LABELS_ANNOTATION};
use k8s_openapi::api::batch::v1::Job;
use kube::ResourceExt as _;
use std::collections::{BTreeMap, BTreeSet};

/// Annotation of a Job that Kueue is stopping: its number of pods is not yet the requested one (`Stop` in
/// `pkg/controller/jobs/job/job_controller.go` of Kueue 0.15).
const STOPPING_ANNOTATION: &str = "kueue.x-k8s.io/stopping";

/// For a message: how many pods the queue has admitted, if it are fewer than requested.
pub(crate) fn admitted_in_part(job: &Job) -> Option<String> {
    let queue = job.labels().get(QUEUE_LABEL).filter(|_| !is_suspended(job))?;
    let (size, asked) = (parallelism(job), queued_size(job)?);
    (size < asked).then(|| format!("the queue {queue} has admitted {size} of {asked} pods"))
}

/// True when the queue may start `job` with fewer pods than the specification asks for.
pub(crate) fn decides_size(job: &Job) -> bool {
    job.annotations().contains_key(LEAST_PODS_ANNOTATION)
}

/// Replaces values of `cluster` by those that `job` keeps in its queue; returns the changes that it refuses.
pub(crate) fn limit_to_queue(job: Option<&Job>, cluster: &mut Cluster) -> Vec<String> {
    // Before the queue has decided the number of pods, the agents wait for all brokers, so that no command begins
    // with too few. They learn of a smaller number later.
    if job.is_none_or(is_held) && cluster.job_annotations.contains_key(LEAST_PODS_ANNOTATION) {
        cluster.min_size = None;
    }
    let Some(job) = job else { return Vec::new() };
    let mut refused = Vec::from_iter(keep_queue(job, cluster));
    refused.extend(keep_annotations(job, cluster));
    refused.extend(keep_admitted_size(job, cluster));
    refused
}

/// Kueue refuses to move a running Job to another queue. A Job that leaves its queue would keep its quota, because
/// `ReconcileGenericJob` then ignores it.
fn keep_queue(job: &Job, cluster: &mut Cluster) -> Option<String> {
    let (has, wants) = (job.labels().get(QUEUE_LABEL), cluster.job_labels.get(QUEUE_LABEL));
    let is_given = noted_keys(job, JOB_LABELS_ANNOTATION).any(|key| key == QUEUE_LABEL);
    let may_be = match (has, wants) {
        (Some(has), Some(wants)) => has == wants || is_suspended(job),
        // Kueue gives a Job the namespace's default queue.
        (has, wants) => wants.is_none() && (has.is_none() || !is_given),
    };
    if may_be {
        return None;
    }
    replace(&mut cluster.job_labels, QUEUE_LABEL, has);
    Some(format!("the label {QUEUE_LABEL}"))
}

/// Keeps the annotations that Kueue reads only once. Its webhook decides at the creation of a Job whether it is
/// elastic. The topology goes into the Workload, which Kueue does not update (`ComparePodSets` of Kueue 0.15 to 0.19),
/// and into the template, which cannot change. For another least number of pods Kueue would stop a running Job.
fn keep_annotations(job: &Job, cluster: &mut Cluster) -> Vec<String> {
    let noted = noted_keys(job, JOB_ANNOTATIONS_ANNOTATION).map(str::to_owned);
    let asked = cluster.job_annotations.keys().cloned();
    let topology: BTreeSet<String> =
        noted.chain(asked).filter(|key| key.starts_with(TOPOLOGY_ANNOTATIONS)).collect();
    let mut refused = Vec::new();
    for key in topology.iter().map(String::as_str).chain([ELASTIC_ANNOTATION]) {
        let has = job.annotations().get(key);
        if cluster.job_annotations.get(key) != has {
            refused.push(format!("the annotation {key}"));
            replace(&mut cluster.job_annotations, key, has);
        }
    }
    if !is_held(job) {
        for key in [LEAST_PODS_ANNOTATION, EQUAL_ANNOTATION, QUEUED_SIZE_ANNOTATION] {
            replace(&mut cluster.job_annotations, key, job.annotations().get(key));
        }
    }
    refused
}

/// Keeps the admitted number of pods, which may be less than requested. Kueue stops all pods of a Job whose number of
/// pods differs from its Workload (`ensureOneWorkload`), unless it is elastic.
fn keep_admitted_size(job: &Job, cluster: &mut Cluster) -> Option<String> {
    if is_held(job) || is_elastic(job) {
        return None;
    }
    let queue = job.labels().get(QUEUE_LABEL)?;
    let (size, asked) = (u32::try_from(parallelism(job)).unwrap_or_default(), cluster.size);
    let queued = queued_size(job).map_or(size, i32::unsigned_abs);
    cluster.reduce_size(size);
    let why = if job.annotations().get(ELASTIC_ANNOTATION).is_some_and(|value| value == "true") {
        "; Kueue's feature ElasticJobsViaWorkloadSlices was off when the Job was made"
    } else {
        ""
    };
    (![size, queued].contains(&asked)).then(|| {
        format!(
            "spec.size: the queue {queue} has admitted {size} pods, and would stop all of them for {asked}{why}"
        )
    })
}

/// True when Kueue regards `job` as waiting (its `IsSuspended`).
fn is_held(job: &Job) -> bool {
    let stops = job.annotations().get(STOPPING_ANNOTATION).is_some_and(|value| value == "true");
    is_suspended(job) && !stops
}

/// True when Kueue lets the number of pods of `job` change: it has given the Job the gate that holds back new pods,
/// because the Job asked for it and the feature was on (`applyWorkloadSliceSchedulingGate` of Kueue 0.13 to 0.19).
fn is_elastic(job: &Job) -> bool {
    let pod = job.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    let mut gates = pod.into_iter().flat_map(|pod| pod.scheduling_gates.iter().flatten());
    gates.any(|gate| gate.name == ELASTIC_ANNOTATION)
}

fn queued_size(job: &Job) -> Option<i32> {
    job.annotations().get(QUEUED_SIZE_ANNOTATION)?.parse().ok()
}

fn replace(entries: &mut BTreeMap<String, String>, key: &str, value: Option<&String>) {
    match value {
        Some(value) => entries.insert(key.to_owned(), value.clone()),
        None => entries.remove(key),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::fixtures::{built, cluster, defaults, mini_cluster};
    use flux_api::cluster::validate::validate;
    use flux_contract::Workload;
    use k8s_openapi::api::core::v1::PodSchedulingGate;
    use serde_json::json;

    fn queued(queue: Option<&str>, size: u32) -> Cluster {
        let mut cluster = cluster(&json!({ "size": size, "maxSize": 9 }));
        let queue = queue.map(|queue| (QUEUE_LABEL.to_owned(), queue.to_owned()));
        cluster.job_labels.extend(queue);
        cluster
    }

    /// The refused changes of `asked` while `job` exists, and the resulting queue and size.
    fn limited(job: &Job, mut asked: Cluster) -> (Vec<String>, Option<String>, u32) {
        let refused = limit_to_queue(Some(job), &mut asked);
        (refused, asked.job_labels.remove(QUEUE_LABEL), asked.size)
    }

    #[test]
    fn a_job_changes_its_queue_only_while_it_waits() {
        let label = format!("the label {QUEUE_LABEL}");
        let team = Some("team");
        let built = |queue: Option<&str>| built(&queued(queue, 4), 1).job;
        let mut waiting = built(team);
        waiting.spec.as_mut().unwrap().suspend = Some(true);
        let mut in_default = built(None);
        in_default.labels_mut().insert(QUEUE_LABEL.to_owned(), "default".to_owned());
        for (job, asked, is_refused, queue) in [
            (&built(team), team, false, team),
            (&built(team), Some("other"), true, team),
            (&built(team), None, true, team),
            (&waiting, Some("other"), false, Some("other")),
            (&waiting, None, true, team),
            (&built(None), team, true, None),
            (&in_default, None, false, None),
        ] {
            let refused = is_refused.then(|| label.clone()).into_iter().collect();
            let expected = (refused, queue.map(str::to_owned), 4);
            assert_eq!(limited(job, queued(asked, 4)), expected, "{asked:?}");
        }
    }

    #[test]
    fn an_admitted_job_keeps_its_size_unless_it_is_elastic() {
        let mut job = built(&queued(Some("team"), 4), 1).job;
        let message =
            "spec.size: the queue team has admitted 4 pods, and would stop all of them for 2";
        let (refused, _, size) = limited(&job, queued(Some("team"), 2));
        assert_eq!((refused, size), (vec![message.to_owned()], 4));
        let elastic = |size| {
            let mut cluster = queued(Some("team"), size);
            cluster.job_annotations.insert(ELASTIC_ANNOTATION.to_owned(), "true".to_owned());
            cluster
        };
        assert_eq!(limited(&job, elastic(2)).0[0], format!("the annotation {ELASTIC_ANNOTATION}"));
        job.spec.as_mut().unwrap().suspend = Some(true);
        assert_eq!(limited(&job, queued(Some("team"), 2)).2, 2, "the Job waits");
        let mut asks = built(&elastic(2), 1).job;
        let message = "spec.size: the queue team has admitted 2 pods, and would stop all of them for 3; Kueue's feature \
                    ElasticJobsViaWorkloadSlices was off when the Job was made";
        let (refused, _, size) = limited(&asks, elastic(3));
        assert_eq!((refused, size), (vec![message.to_owned()], 2), "Kueue gave it no gate");
        let pod = asks.spec.as_mut().unwrap().template.spec.as_mut().unwrap();
        pod.scheduling_gates =
            Some(vec![PodSchedulingGate { name: ELASTIC_ANNOTATION.to_owned() }]);
        let (refused, _, size) = limited(&asks, elastic(3));
        assert_eq!((refused, size), (vec![], 3));
    }

    /// A cluster of `size` pods whose command may begin with `least` of them.
    fn reducible(size: i32, least: i32) -> Cluster {
        let labels = json!({ QUEUE_LABEL: "team" });
        cluster(&json!({
            "size": size, "minSize": least, "maxSize": 9, "tasks": 0, "jobLabels": labels,
        }))
    }

    /// The resulting size, quorum and flags.
    fn left(cluster: &Cluster) -> (u32, Option<u32>, Vec<String>) {
        let Workload::Submit { submission } = &cluster.runner.workload else { panic!() };
        (cluster.size, cluster.min_size, submission.flags.clone())
    }

    /// The Job after Kueue has admitted `size` of its pods (`RunWithPodSetsInfo`).
    fn admitted(mut job: Job, size: i32) -> Job {
        let spec = job.spec.as_mut().unwrap();
        (spec.suspend, spec.parallelism, spec.completions) = (Some(false), Some(size), Some(size));
        job
    }

    #[test]
    fn a_reducible_job_keeps_the_pods_that_the_queue_admitted() {
        let nodes = |size: &str| vec!["-N".to_owned(), size.to_owned()];
        let mut asked = reducible(3, 2);
        assert_eq!(limit_to_queue(None, &mut asked), [""; 0]);
        assert_eq!(left(&asked), (3, None, nodes("3")), "the number of pods is not known yet");
        let mut waits = built(&reducible(3, 2), 1).job;
        waits.spec.as_mut().unwrap().suspend = Some(true);
        assert_eq!(
            [LEAST_PODS_ANNOTATION, EQUAL_ANNOTATION, QUEUED_SIZE_ANNOTATION]
                .map(|key| waits.annotations()[key].as_str()),
            ["2", "true", "3"]
        );
        let mut asked = reducible(3, 2);
        assert_eq!(limit_to_queue(Some(&waits), &mut asked), [""; 0]);
        assert_eq!(left(&asked), (3, None, nodes("3")));
        for (size, asked, least, refused, quorum) in
            [(2, 3, 2, false, 2), (3, 3, 2, false, 2), (2, 2, 1, false, 1), (2, 4, 2, true, 2)]
        {
            let job = admitted(waits.clone(), size);
            let mut asked = reducible(asked, least);
            let message = limit_to_queue(Some(&job), &mut asked);
            assert_eq!(!message.is_empty(), refused, "{message:?}");
            let count = size.unsigned_abs();
            assert_eq!(left(&asked), (count, Some(quorum), nodes(&size.to_string())));
            // Kueue would stop a running Job whose least number of pods changes.
            assert_eq!(asked.job_annotations[LEAST_PODS_ANNOTATION], "2");
            assert_eq!(asked.job_annotations[QUEUED_SIZE_ANNOTATION], "3");
        }
        // Kueue is about to restore the requested number.
        let mut stops = admitted(waits, 2);
        stops.spec.as_mut().unwrap().suspend = Some(true);
        stops.annotations_mut().insert(STOPPING_ANNOTATION.to_owned(), "true".to_owned());
        let mut asked = reducible(3, 2);
        assert_eq!((limit_to_queue(Some(&stops), &mut asked), asked.size), (vec![], 2));
    }

    #[test]
    fn all_brokers_and_elastic_jobs_are_never_admitted_in_part() {
        let annotations = |size, least| reducible(size, least).job_annotations;
        assert_eq!(annotations(3, 3), BTreeMap::new());
        let with = |annotations: serde_json::Value| {
            let mut object = mini_cluster(&json!({ "size": 3, "minSize": 2 }));
            object.labels_mut().insert(QUEUE_LABEL.to_owned(), "team".to_owned());
            object.metadata.annotations = serde_json::from_value(annotations).unwrap();
            validate(&object, &defaults())
        };
        let elastic = with(json!({ ELASTIC_ANNOTATION: "true" })).unwrap();
        assert!(!elastic.job_annotations.contains_key(LEAST_PODS_ANNOTATION));
        let own = with(json!({ LEAST_PODS_ANNOTATION: "1", EQUAL_ANNOTATION: "false" })).unwrap();
        assert_eq!(own.job_annotations[LEAST_PODS_ANNOTATION], "1");
        assert_eq!(own.job_annotations[EQUAL_ANNOTATION], "false");
        let both = with(json!({ ELASTIC_ANNOTATION: "true", LEAST_PODS_ANNOTATION: "1" }));
        let message = both.unwrap_err().to_string();
        assert!(
            message.contains("metadata.annotations") && message.contains("exclude each other"),
            "{message}"
        );
    }

    #[test]
    fn a_topology_stays_as_the_workload_was_created() {
        const RACK: &str = "kueue.x-k8s.io/podset-required-topology";
        let placed = |rack: Option<&str>| {
            let mut cluster = queued(Some("team"), 2);
            cluster.job_annotations.extend(rack.map(|rack| (RACK.to_owned(), rack.to_owned())));
            cluster
        };
        let job = built(&placed(Some("rack")), 1).job;
        let template = job.spec.as_ref().unwrap().template.metadata.as_ref().unwrap();
        assert_eq!(template.annotations.as_ref().unwrap()[RACK], "rack");
        for (job, asked, kept) in [
            (&job, Some("rack"), Some("rack")),
            (&job, Some("block"), Some("rack")),
            (&job, None, Some("rack")),
            (&built(&placed(None), 1).job, Some("rack"), None),
        ] {
            let mut cluster = placed(asked);
            let refused = limit_to_queue(Some(job), &mut cluster);
            assert_eq!(refused == [format!("the annotation {RACK}")], asked != kept, "{refused:?}");
            assert_eq!(cluster.job_annotations.get(RACK).map(String::as_str), kept);
        }
    }
}
