//! A job as Flux lists it, and as the API has it.

use flux_contract::job_id::f58_plain;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// States of a job by their numbers (flux-core, `src/common/libjob/job.h`), but for that of one that is not listed yet.
pub(super) const STATES: [(u32, &str); 6] = [
    (2, "DEPEND"),
    (4, "PRIORITY"),
    (8, "SCHED"),
    (16, "RUN"),
    (32, "CLEANUP"),
    (INACTIVE, "INACTIVE"),
];
pub(super) const PENDING: u32 = 14;
pub(super) const RUNNING: u32 = 48;
pub(super) const ACTIVE: u32 = PENDING | RUNNING;
pub(super) const INACTIVE: u32 = 64;

/// Results of a job that has ended, by their numbers there.
const COMPLETED: u32 = 1;
const CANCELED: u32 = 4;
const TIMEOUT: u32 = 8;

/// What is asked of each job.
pub(super) const ATTRIBUTES: [&str; 21] = [
    "userid",
    "urgency",
    "priority",
    "t_submit",
    "t_run",
    "t_cleanup",
    "t_inactive",
    "state",
    "name",
    "ntasks",
    "nnodes",
    "ncores",
    "ranks",
    "nodelist",
    "waitstatus",
    "success",
    "exception_type",
    "exception_note",
    "result",
    "annotations",
    "dependencies",
];

/// A job as flux-core's job-list has it (`src/modules/job-list/job_util.c`): what does not apply to it is left out.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Listed {
    pub(super) id: u64,
    userid: u32,
    urgency: u64,
    priority: Option<u64>,
    pub(super) t_submit: f64,
    t_run: Option<f64>,
    t_cleanup: Option<f64>,
    pub(super) t_inactive: Option<f64>,
    state: u32,
    name: String,
    ntasks: u64,
    nnodes: Option<u64>,
    ncores: Option<u64>,
    pub(super) ranks: Option<String>,
    nodelist: Option<String>,
    waitstatus: Option<i32>,
    success: bool,
    exception_type: Option<String>,
    exception_note: Option<String>,
    result: Option<u32>,
    annotations: Value,
    dependencies: Vec<String>,
}

/// A job as the API has it.
#[derive(Debug, Serialize)]
pub(super) struct Job {
    id: String,
    name: String,
    user: String,
    state: &'static str,
    urgency: u64,
    priority: Option<u64>,
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

/// How it has ended.
#[derive(Debug, Serialize)]
struct End {
    result: &'static str,
    returncode: Option<i32>,
    success: bool,
    waitstatus: Option<i32>,
}

impl Listed {
    pub(super) const fn is_inactive(&self) -> bool {
        self.state == INACTIVE
    }

    /// The job, whose users are known by `name_of`.
    pub(super) fn job(self, name_of: impl Fn(u32) -> String) -> Job {
        let state = STATES.iter().find(|(number, _)| *number == self.state);
        Job {
            id: f58_plain(self.id),
            user: name_of(self.userid),
            state: state.map_or("DEPEND", |(_, name)| name),
            why: self.why(),
            end: self.is_inactive().then(|| self.end()),
            ended: self.t_cleanup.or(self.t_inactive).filter(|_| self.is_inactive()),
            name: self.name,
            urgency: self.urgency,
            priority: self.priority,
            num_tasks: self.ntasks,
            num_nodes: self.nnodes,
            cores: self.ncores,
            ranks: self.ranks,
            nodelist: self.nodelist,
            submitted: self.t_submit,
            started: self.t_run,
        }
    }

    /// As Flux's Python has it (flux-core, `returncode` of `src/bindings/python/flux/job/info.py`).
    fn end(&self) -> End {
        let returncode = match (self.waitstatus, self.result) {
            (Some(status), _) if status & 0x7f != 0 => Some(-(status & 0x7f)),
            (Some(status), _) => Some(status >> 8 & 0xff),
            (None, Some(CANCELED)) => Some(-128),
            (None, Some(COMPLETED | TIMEOUT)) => None,
            (None, _) => Some(1),
        };
        let result = match self.result {
            Some(COMPLETED) => "COMPLETED",
            Some(CANCELED) => "CANCELED",
            Some(TIMEOUT) => "TIMEOUT",
            Some(_) | None => "FAILED",
        };
        End { result, returncode, success: self.success, waitstatus: self.waitstatus }
    }

    /// Why it waits, or what exception it has.
    fn why(&self) -> Option<String> {
        if let Some(kind) = &self.exception_type {
            let note = self.exception_note.as_deref().filter(|note| !note.is_empty());
            return Some(note.map_or_else(|| kind.clone(), |note| format!("{kind}: {note}")));
        }
        match self.state {
            2 if self.dependencies.is_empty() => None,
            2 => Some(format!("it waits for {}", self.dependencies.join(", "))),
            4 => Some("it waits for its priority".to_owned()),
            8 if self.urgency == 0 => Some("it is held: its urgency is 0".to_owned()),
            8 if self.priority == Some(0) => Some("it is held: its priority is 0".to_owned()),
            8 => {
                let reason = self.annotations.pointer("/sched/reason_pending");
                let reason = reason.and_then(Value::as_str).map(|reason| format!(": {reason}"));
                Some(format!("it waits for resources{}", reason.unwrap_or_default()))
            }
            _ => None,
        }
    }
}

/// The state that a job reaches with an event of its log (RFC 21): job-list is asked to answer when it has seen that.
pub(super) fn state_after(event: &str) -> Option<u32> {
    match event {
        "depend" => Some(4),
        "priority" => Some(8),
        "alloc" => Some(16),
        "finish" => Some(32),
        "clean" => Some(INACTIVE),
        _ => None,
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
        let listed: Listed = serde_json::from_value(listed).unwrap();
        serde_json::to_value(listed.job(|uid| format!("u{uid}"))).unwrap()
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
            (json!({ "result": 2, "waitstatus": 256 }), (json!("FAILED"), json!(1), json!(12.5))),
            (json!({ "result": 2, "waitstatus": 9 }), (json!("FAILED"), json!(-9), json!(12.5))),
            (json!({ "result": 2 }), (json!("FAILED"), json!(1), json!(12.5))),
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
