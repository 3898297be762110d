//! A job of the recorded instance: it is what its log says (RFC 21), as for Flux.

use super::INVALID;
use super::resources::{CORES_OF_RANK, bracketed, hosts};
use flux_protocol::job::JobState;
use serde_json::{Map, Value, json};
use std::iter;

/// Results by their numbers (flux-core, `src/common/libjob/job.h`).
pub(super) const COMPLETED: u64 = 1;
pub(super) const FAILED: u64 = 2;
pub(super) const CANCELED: u64 = 4;

pub(super) struct Job {
    pub(super) jobspec: Value,
    pub(super) log: Vec<Value>,
    pub(super) output: Vec<Value>,
    /// Those of the instance that it has, each as a whole.
    pub(super) ranks: Vec<u32>,
}

impl Job {
    pub(super) const fn new(jobspec: Value) -> Self {
        Self { jobspec, log: Vec::new(), output: Vec::new(), ranks: Vec::new() }
    }

    fn event(&self, name: &str) -> Option<&Value> {
        self.log.iter().find(|event| event["name"] == name)
    }

    /// When it has happened.
    fn time(&self, name: &str) -> Option<f64> {
        self.event(name)?["timestamp"].as_f64()
    }

    /// The states that it has been in.
    pub(super) fn states(&self) -> impl DoubleEndedIterator<Item = JobState> {
        self.log.iter().filter_map(|event| match event["name"].as_str()? {
            "submit" => Some(JobState::Depend),
            "exception" => Some(JobState::Cleanup),
            name => JobState::after_event(name),
        })
    }

    pub(super) fn state(&self) -> JobState {
        self.states().next_back().unwrap()
    }

    /// How it has ended.
    pub(super) fn result(&self) -> Option<u64> {
        if self.state() != JobState::Inactive {
            return None;
        }
        let status = self.event("finish").map(|event| &event["context"]["status"]);
        Some(match (self.event("exception"), status) {
            (Some(_), _) => CANCELED,
            (None, Some(status)) if *status == 0 => COMPLETED,
            (None, _) => FAILED,
        })
    }

    /// What is there of all that job-list may be asked for (flux-core, `src/modules/job-list/job_util.c`).
    fn attributes(&self) -> Value {
        let system = &self.jobspec["attributes"]["system"];
        let program = self.jobspec["tasks"][0]["command"][0].as_str().unwrap();
        let program = program.rsplit('/').next();
        let nodes = (!self.ranks.is_empty()).then_some(self.ranks.len());
        let result = self.result();
        let exception = self.event("exception").filter(|_| result.is_some());
        let exception = exception.map(|event| &event["context"]);
        json!({
            "userid": 1000, "urgency": 16, "priority": 16, "state": self.state().number(),
            "name": system["job"]["name"].as_str().or(program),
            "ntasks": self.jobspec["resources"][0]["count"],
            "nnodes": nodes, "ncores": nodes.map(|nodes| nodes * CORES_OF_RANK),
            "ranks": nodes.map(|_| bracketed(&self.ranks)), "nodelist": nodes.map(|_| hosts(&self.ranks)),
            "t_submit": self.time("submit"), "t_run": self.time("alloc"), "t_inactive": self.time("clean"),
            "t_cleanup": self.time("exception").or_else(|| self.time("finish")),
            "waitstatus": self.event("finish").map(|event| &event["context"]["status"]),
            "success": result.map(|result| result == COMPLETED), "result": result,
            "exception_type": exception.map(|context| &context["type"]),
            "exception_note": exception.map(|context| &context["note"]),
        })
    }

    /// As job-list has it, with those `asked` for: what does not apply to it is left out.
    pub(super) fn listed(&self, id: u64, asked: &Value) -> Map<String, Value> {
        let asked = asked.as_array().unwrap();
        let is_asked = |name: &str| asked.iter().any(|attribute| attribute == name);
        let all = self.attributes();
        let all = all.as_object().unwrap().clone().into_iter();
        let applying = all.filter(|(name, value)| !value.is_null() && is_asked(name));
        iter::once(("id".to_owned(), json!(id))).chain(applying).collect()
    }

    /// Whether it meets a constraint (flux-core, `src/modules/job-list/match.c`).
    pub(super) fn meets(&self, constraint: &Value) -> Result<bool, u8> {
        let (name, values) =
            constraint.as_object().and_then(|all| all.iter().next()).ok_or(INVALID)?;
        let values = values.as_array().ok_or(INVALID)?;
        let event = match name.as_str() {
            "and" => {
                return values.iter().try_fold(true, |met, value| Ok(self.meets(value)? && met));
            }
            "states" => {
                let asked = values[0].as_u64().ok_or(INVALID)?;
                return Ok(asked & u64::from(self.state().number()) != 0);
            }
            "name" => return Ok(self.attributes()["name"] == values[0]),
            "userid" => return Ok(values[0] == 1000),
            "t_submit" => "submit",
            "t_inactive" => "clean",
            _ => return Err(INVALID),
        };
        let bound = values[0].as_str().ok_or(INVALID)?;
        let (sign, limit) = bound.split_at_checked(2).ok_or(INVALID)?;
        let limit: f64 = limit.parse().map_err(|_| INVALID)?;
        let time = self.time(event);
        match sign {
            "<=" => Ok(time.is_some_and(|time| time <= limit)),
            ">=" => Ok(time.is_some_and(|time| time >= limit)),
            _ => Err(INVALID),
        }
    }
}
