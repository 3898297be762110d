//! What the queue says about a Job that waits in it (Kueue).
//!
//! Kueue makes an object of its own for each Job, a Workload, and says there what it waits for. No type of it is
//! kept here: which versions a cluster serves is asked, and only the words of its conditions are read.

use super::access::Access;
use super::job_state::{is_suspended, is_suspended_by_specification};
use crate::cluster::QUEUE_LABEL;
use k8s_openapi::api::batch::v1::Job;
use kube::api::{Api, DynamicObject, ListParams};
use kube::{ResourceExt as _, discovery};
use serde_json::Value;

/// API group of Kueue.
const GROUP: &str = "kueue.x-k8s.io";
/// Label of a Workload: uid of its Job.
const JOB_UID: &str = "kueue.x-k8s.io/job-uid";

/// Conditions of a Workload that say what it waits for, and the value with which they do: the first that is
/// there counts.
const TELLING: [(&str, &str); 3] =
    [("QuotaReserved", "False"), ("Admitted", "False"), ("Evicted", "True")];

/// A queue, and what it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Queue {
    /// Name of the queue.
    pub(super) name: String,
    /// What the Job waits for; absent where nothing is said, or may not be read.
    pub(super) says: Option<String>,
}

/// The queue that `job` waits in, if it does. What cannot be read is left out: it is a word for people.
pub(super) async fn queue(access: &Access<'_>, job: &Job) -> Option<Queue> {
    let waits = is_suspended(job) && !is_suspended_by_specification(job);
    let name = job.labels().get(QUEUE_LABEL).filter(|_| waits)?.clone();
    let says = workload(access, &job.uid().unwrap_or_default()).await.unwrap_or_else(|error| {
        tracing::debug!(%error, "read the Workload of a Job");
        None
    });
    Some(Queue { name, says })
}

/// What the Workload of the Job with this uid says.
async fn workload(access: &Access<'_>, job: &str) -> Result<Option<String>, kube::Error> {
    let group = discovery::oneshot::group(access.client(), GROUP).await?;
    let Some((resource, _)) = group.recommended_kind("Workload") else { return Ok(None) };
    let api: Api<DynamicObject> =
        Api::namespaced_with(access.client().clone(), access.namespace(), &resource);
    let list = api.list(&ListParams::default().labels(&format!("{JOB_UID}={job}"))).await?;
    Ok(list.items.iter().find_map(|workload| waits_for(&workload.data)))
}

/// What a Workload says that it waits for.
fn waits_for(workload: &Value) -> Option<String> {
    let conditions = workload["status"]["conditions"].as_array()?;
    TELLING.iter().find_map(|(type_, status)| {
        let found = conditions.iter().find(|it| it["type"] == *type_ && it["status"] == *status)?;
        found["message"].as_str().filter(|message| !message.is_empty()).map(str::to_owned)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_workload_says_first_what_quota_it_lacks() {
        let condition = |type_: &str, status: &str, message: &str| json!({ "type": type_, "status": status, "message": message });
        let of =
            |conditions: &[Value]| waits_for(&json!({ "status": { "conditions": conditions } }));
        let lacks = condition("QuotaReserved", "False", "insufficient quota for cpu");
        let evicted = condition("Evicted", "True", "preempted");
        assert_eq!(of(&[evicted.clone(), lacks]).unwrap(), "insufficient quota for cpu");
        assert_eq!(of(std::slice::from_ref(&evicted)).unwrap(), "preempted");
        assert_eq!(of(&[condition("QuotaReserved", "True", "reserved")]), None);
        assert_eq!(waits_for(&json!({})), None);
    }
}
