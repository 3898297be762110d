//! A Job in a queue (Kueue): what it keeps, and what the queue says while it waits.

use crate::cluster::validate::autoscale::ELASTIC;
use crate::cluster::{Cluster, QUEUE_LABEL};
use crate::controller::kube_ext::{
    JOB_LABELS_ANNOTATION, is_suspended, is_suspended_by_specification, noted_keys, parallelism,
};
use crate::controller::observe::cached_client::CachedClient;
use k8s_openapi::api::batch::v1::Job;
use kube::ResourceExt as _;
use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Queue {
    pub(crate) name: String,
    /// What the Job waits for; absent where nothing is said, or may not be read.
    pub(crate) says: Option<String>,
}

/// The queue that `job` waits in, if it does.
pub(crate) fn queue(client: &CachedClient<'_>, job: &Job) -> Option<Queue> {
    let waits = is_suspended(job) && !is_suspended_by_specification(job);
    let name = job.labels().get(QUEUE_LABEL).filter(|_| waits)?.clone();
    let says = client.context.workloads.words(&client.cluster, &job.uid().unwrap_or_default());
    Some(Queue { name, says })
}

/// Puts in the place of what is asked for what `job` keeps in its queue; the answer is what was asked for. Kueue
/// refuses a running Job another queue. A Job that leaves its queue keeps its quota (`ReconcileGenericJob` ignores it
/// then), and one whose number of pods is not that of its Workload is stopped with all its pods
/// (`ensureOneWorkload`).
pub(crate) fn constrain(job: &Job, cluster: &mut Cluster) -> Vec<String> {
    let mut refused = Vec::new();
    let (has, wants) = (job.labels().get(QUEUE_LABEL), cluster.job_labels.get(QUEUE_LABEL));
    let is_given = noted_keys(job, JOB_LABELS_ANNOTATION).any(|key| key == QUEUE_LABEL);
    let may_be = match (has, wants) {
        (Some(has), Some(wants)) => has == wants || is_suspended(job),
        // Kueue gives a Job the namespace's default queue.
        (has, wants) => wants.is_none() && (has.is_none() || !is_given),
    };
    if !may_be {
        refused.push(format!("the label {QUEUE_LABEL}"));
        replace(&mut cluster.job_labels, QUEUE_LABEL, has);
    }
    let elastic = job.annotations().get(ELASTIC);
    if cluster.job_annotations.get(ELASTIC) != elastic {
        refused.push(format!("the annotation {ELASTIC}"));
        replace(&mut cluster.job_annotations, ELASTIC, elastic);
    }
    let size = u32::try_from(parallelism(job)).unwrap_or_default();
    let admitted = has.filter(|_| !is_suspended(job) && elastic.is_none_or(|it| it != "true"));
    if let Some(queue) = admitted.filter(|_| cluster.size != size) {
        let asked = cluster.size;
        refused.push(format!(
            "spec.size: the queue {queue} has admitted {size} pods, and would stop all of them for {asked}"
        ));
        cluster.size = size;
        // A quorum of more brokers than there are pods is never reached.
        cluster.min_size = cluster.min_size.map(|least| least.min(size));
    }
    refused
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
    use crate::controller::fixtures::{built, cluster};
    use serde_json::json;

    fn queued(queue: Option<&str>, size: u32) -> Cluster {
        let mut cluster = cluster(&json!({ "size": size, "maxSize": 9 }));
        let queue = queue.map(|queue| (QUEUE_LABEL.to_owned(), queue.to_owned()));
        cluster.job_labels.extend(queue);
        cluster
    }

    /// What is refused of `asked` while `job` is there, and the queue and the size that are left.
    fn constrained(job: &Job, mut asked: Cluster) -> (Vec<String>, Option<String>, u32) {
        let refused = constrain(job, &mut asked);
        (refused, asked.job_labels.remove(QUEUE_LABEL), asked.size)
    }

    #[test]
    fn a_job_stays_in_its_queue_and_goes_to_another_only_while_it_waits() {
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
            assert_eq!(constrained(job, queued(asked, 4)), expected, "{asked:?}");
        }
    }

    #[test]
    fn what_a_queue_has_admitted_keeps_its_size_unless_it_is_elastic() {
        let mut job = built(&queued(Some("team"), 4), 1).job;
        let told =
            "spec.size: the queue team has admitted 4 pods, and would stop all of them for 2";
        let (refused, _, size) = constrained(&job, queued(Some("team"), 2));
        assert_eq!((refused, size), (vec![told.to_owned()], 4));
        let elastic = |size| {
            let mut cluster = queued(Some("team"), size);
            cluster.job_annotations.insert(ELASTIC.to_owned(), "true".to_owned());
            cluster
        };
        assert_eq!(constrained(&job, elastic(2)).0[0], format!("the annotation {ELASTIC}"));
        job.spec.as_mut().unwrap().suspend = Some(true);
        assert_eq!(constrained(&job, queued(Some("team"), 2)).2, 2, "it waits");
        let (refused, _, size) = constrained(&built(&elastic(2), 1).job, elastic(3));
        assert_eq!((refused, size), (vec![], 3));
    }
}
