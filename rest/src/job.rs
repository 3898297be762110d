//! A job as the API has it.

use flux_protocol::client::job_list::Job;
use flux_protocol::job::JobState;
use flux_protocol::job_id::f58_plain;
use serde_json::{Value, json};

/// The document of a job of `user`.
pub(crate) fn document(job: &Job, user: &str) -> Value {
    let mut document = json!({
        "id": f58_plain(job.id), "name": job.name, "user": user, "state": job.state().name().to_ascii_uppercase(),
        "urgency": job.urgency, "priority": job.priority, "num_tasks": job.ntasks, "num_nodes": job.nnodes,
        "cores": job.ncores, "ranks": job.ranks, "nodelist": job.nodelist, "submitted": job.t_submit,
        "started": job.t_run, "ended": null, "why": why(job),
    });
    if job.is_inactive() {
        document["ended"] = job.t_cleanup.or(job.t_inactive).into();
        document["result"] = json!(job.status());
        document["returncode"] = job.returncode().into();
        document["success"] = job.success.into();
        document["waitstatus"] = job.waitstatus.into();
    }
    document
}

/// Why the job waits, or its exception.
fn why(job: &Job) -> Option<String> {
    if let Some(kind) = &job.exception_type {
        let note = job.exception_note.as_deref().filter(|note| !note.is_empty());
        return Some(note.map_or_else(|| kind.clone(), |note| format!("{kind}: {note}")));
    }
    match job.state() {
        JobState::Depend if job.dependencies.is_empty() => None,
        JobState::Depend => Some(format!("it waits for {}", job.dependencies.join(", "))),
        JobState::Priority => Some("it waits for its priority".to_owned()),
        JobState::Sched if job.urgency == 0 => Some("it is held: its urgency is 0".to_owned()),
        JobState::Sched if job.priority == Some(0) => {
            Some("it is held: its priority is 0".to_owned())
        }
        JobState::Sched => {
            let reason = job.annotations.pointer("/sched/reason_pending");
            let reason = reason.and_then(Value::as_str).map(|reason| format!(": {reason}"));
            Some(format!("it waits for resources{}", reason.unwrap_or_default()))
        }
        JobState::Run | JobState::Cleanup | JobState::Inactive => None,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A job with these fields, as Flux lists it.
    pub(crate) fn listed(fields: &Value) -> Job {
        let mut all = json!({
            "id": 58, "userid": 1000, "urgency": 16, "priority": 16, "t_submit": 10.5, "name": "a", "ntasks": 2,
        });
        all.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        serde_json::from_value(all).unwrap()
    }

    fn job(fields: &Value) -> Value {
        document(&listed(fields), "u1000")
    }

    #[test]
    fn a_job_that_waits_or_has_failed_has_a_reason() {
        let pending = json!({ "sched": { "reason_pending": "insufficient resources" } });
        for (fields, expected) in [
            (json!({ "state": 2 }), Value::Null),
            (json!({ "state": 2, "dependencies": ["a=5"] }), "it waits for a=5".into()),
            (json!({ "state": 4 }), "it waits for its priority".into()),
            (json!({ "state": 8, "urgency": 0 }), "it is held: its urgency is 0".into()),
            (json!({ "state": 8, "priority": 0 }), "it is held: its priority is 0".into()),
            (json!({ "state": 8 }), "it waits for resources".into()),
            (
                json!({ "state": 8, "annotations": pending }),
                "it waits for resources: insufficient resources".into(),
            ),
            (json!({ "state": 16, "annotations": pending }), Value::Null),
            (
                json!({ "state": 64, "exception_type": "cancel", "exception_note": "by hand" }),
                "cancel: by hand".into(),
            ),
        ] {
            assert_eq!(job(&fields)["why"], expected, "{fields}");
        }
    }

    #[test]
    fn a_job_has_an_end_when_it_has_ended() {
        let runs = json!({ "state": 16, "t_run": 11.5, "ranks": "[0-1]", "nodelist": "a[0-1]" });
        insta::assert_snapshot!(job(&runs), @r#"{"cores":null,"ended":null,"id":"f21","name":"a","nodelist":"a[0-1]","num_nodes":null,"num_tasks":2,"priority":16,"ranks":"[0-1]","started":11.5,"state":"RUN","submitted":10.5,"urgency":16,"user":"u1000","why":null}"#);
        for (result, waitstatus, t_cleanup, expected) in [
            (1, Some(0), Some(12.0), json!(["COMPLETED", 0, 12.0])),
            (2, Some(9), None, json!(["FAILED", -9, 12.5])),
            (4, None, None, json!(["CANCELED", -128, 12.5])),
            (8, None, None, json!(["TIMEOUT", null, 12.5])),
        ] {
            let ended = job(&json!({
                "state": 64, "t_inactive": 12.5, "t_cleanup": t_cleanup, "result": result, "waitstatus": waitstatus,
            }));
            assert_eq!(json!([ended["result"], ended["returncode"], ended["ended"]]), expected);
        }
    }
}
