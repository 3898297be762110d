//! A job as the API has it.

use flux_protocol::client::job_list;
use flux_protocol::job::{JobState, JobStatus};
use flux_protocol::job_id::f58_plain;
use serde::Serialize;
use serde_json::Value;

/// A job as the API has it.
#[derive(Debug, Serialize)]
pub(crate) struct Job {
    id: String,
    name: String,
    user: String,
    state: String,
    urgency: u64,
    priority: Option<i64>,
    num_tasks: u64,
    num_nodes: Option<u64>,
    cores: Option<u64>,
    ranks: Option<String>,
    nodelist: Option<String>,
    submitted: f64,
    started: Option<f64>,
    ended: Option<f64>,
    why: Option<String>,
    #[serde(flatten)]
    end: Option<End>,
}

#[derive(Debug, Serialize)]
struct End {
    result: JobStatus,
    returncode: Option<i32>,
    success: bool,
    waitstatus: Option<i32>,
}

impl Job {
    /// The job that Flux lists. `name_of` gives the names of users.
    pub(crate) fn new(listed: job_list::Job, name_of: impl Fn(u32) -> String) -> Self {
        let is_inactive = listed.is_inactive();
        Self {
            id: f58_plain(listed.id),
            user: name_of(listed.userid),
            state: listed.state().name().to_ascii_uppercase(),
            why: why(&listed),
            end: is_inactive.then(|| End::new(&listed)),
            ended: listed.t_cleanup.or(listed.t_inactive).filter(|_| is_inactive),
            name: listed.name,
            urgency: listed.urgency,
            priority: listed.priority,
            num_tasks: listed.ntasks,
            num_nodes: listed.nnodes,
            cores: listed.ncores,
            ranks: listed.ranks,
            nodelist: listed.nodelist,
            submitted: listed.t_submit,
            started: listed.t_run,
        }
    }
}

impl End {
    fn new(listed: &job_list::Job) -> Self {
        Self {
            result: listed.status(),
            returncode: listed.returncode(),
            success: listed.success,
            waitstatus: listed.waitstatus,
        }
    }
}

/// Why the job waits, or its exception.
fn why(listed: &job_list::Job) -> Option<String> {
    if let Some(kind) = &listed.exception_type {
        let note = listed.exception_note.as_deref().filter(|note| !note.is_empty());
        return Some(note.map_or_else(|| kind.clone(), |note| format!("{kind}: {note}")));
    }
    match listed.state() {
        JobState::Depend if listed.dependencies.is_empty() => None,
        JobState::Depend => Some(format!("it waits for {}", listed.dependencies.join(", "))),
        JobState::Priority => Some("it waits for its priority".to_owned()),
        JobState::Sched if listed.urgency == 0 => Some("it is held: its urgency is 0".to_owned()),
        JobState::Sched if listed.priority == Some(0) => {
            Some("it is held: its priority is 0".to_owned())
        }
        JobState::Sched => {
            let reason = listed.annotations.pointer("/sched/reason_pending");
            let reason = reason.and_then(Value::as_str).map(|reason| format!(": {reason}"));
            Some(format!("it waits for resources{}", reason.unwrap_or_default()))
        }
        JobState::Run | JobState::Cleanup | JobState::Inactive => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn job(fields: &Value) -> Value {
        let mut listed = json!({
            "id": 58, "userid": 1000, "urgency": 16, "t_submit": 10.5, "name": "a", "ntasks": 2, "priority": 16,
        });
        listed.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let listed = serde_json::from_value(listed).unwrap();
        serde_json::to_value(Job::new(listed, |uid| format!("u{uid}"))).unwrap()
    }

    #[test]
    fn a_job_that_waits_says_why() {
        let why = |fields: Value| job(&fields)["why"].clone();
        let pending = json!({ "sched": { "reason_pending": "insufficient resources" } });
        for (fields, expected) in [
            (json!({ "state": 2 }), Value::Null),
            (
                json!({ "state": 2, "dependencies": ["begin-time=5"] }),
                "it waits for begin-time=5".into(),
            ),
            (json!({ "state": 4 }), "it waits for its priority".into()),
            (json!({ "state": 8, "urgency": 0 }), "it is held: its urgency is 0".into()),
            (json!({ "state": 8, "priority": 0 }), "it is held: its priority is 0".into()),
            (json!({ "state": 8 }), "it waits for resources".into()),
            (
                json!({ "state": 8, "annotations": pending }),
                "it waits for resources: insufficient resources".into(),
            ),
            (json!({ "state": 16, "annotations": pending }), Value::Null),
        ] {
            assert_eq!(why(fields.clone()), expected, "{fields}");
        }
    }

    #[test]
    fn a_job_has_an_end_when_it_has_ended() {
        let runs =
            job(&json!({ "state": 16, "t_run": 11.5, "ranks": "[0-1]", "nodelist": "a[0-1]" }));
        insta::assert_snapshot!(runs, @r#"{"cores":null,"ended":null,"id":"f21","name":"a","nodelist":"a[0-1]","num_nodes":null,"num_tasks":2,"priority":16,"ranks":"[0-1]","started":11.5,"state":"RUN","submitted":10.5,"urgency":16,"user":"u1000","why":null}"#);
        let end = |fields: Value| {
            let mut ended = json!({ "state": 64, "t_inactive": 12.5 });
            ended.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            let job = job(&ended);
            (job["result"].clone(), job["returncode"].clone(), job["ended"].clone())
        };
        for (fields, expected) in [
            (
                json!({ "result": 1, "waitstatus": 0, "t_cleanup": 12.0 }),
                (json!("COMPLETED"), json!(0), json!(12.0)),
            ),
            (json!({ "result": 2, "waitstatus": 9 }), (json!("FAILED"), json!(-9), json!(12.5))),
            (json!({ "result": 4 }), (json!("CANCELED"), json!(-128), json!(12.5))),
            (json!({ "result": 8 }), (json!("TIMEOUT"), Value::Null, json!(12.5))),
        ] {
            assert_eq!(end(fields.clone()), expected, "{fields}");
        }
        let canceled =
            json!({ "state": 64, "exception_type": "cancel", "exception_note": "by hand" });
        assert_eq!(job(&canceled)["why"], "cancel: by hand");
    }
}
