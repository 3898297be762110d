//! What is seen of the Jobs and MiniClusters of a namespace, and when.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use kube::{ResourceExt as _, core::DynamicObject};
use serde::Serialize;

/// How long a MiniCluster may take to say what its Job has said; an operator that does not say it is not
/// waited for longer.
const REPORT: Duration = Duration::from_secs(20);

/// Seconds since the first MiniCluster was created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(super) struct Times {
    /// Every Job was there.
    #[serde(rename = "jobs_seconds")]
    pub(super) jobs: f64,
    /// The last Job was complete.
    #[serde(rename = "complete_seconds")]
    pub(super) complete: f64,
    /// The last MiniCluster said that it was, where the operator says so.
    #[serde(rename = "reported_seconds")]
    pub(super) reported: Option<f64>,
}

/// Which kind of object was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Job,
    MiniCluster,
}

/// What was seen.
pub(super) struct Observed {
    begun: Instant,
    wanted: usize,
    jobs: Reached,
    complete: Reached,
    reported: Reached,
}

/// The objects that have got somewhere, and when the last did so.
#[derive(Default)]
struct Reached {
    names: HashSet<String>,
    last: Duration,
}

impl Reached {
    fn note(&mut self, name: String, now: Duration) {
        if self.names.insert(name) {
            self.last = now;
        }
    }
}

impl Observed {
    /// Nothing yet of as many MiniClusters.
    pub(super) fn new(miniclusters: u32) -> Self {
        Self {
            begun: Instant::now(),
            wanted: usize::try_from(miniclusters).unwrap_or(usize::MAX),
            jobs: Reached::default(),
            complete: Reached::default(),
            reported: Reached::default(),
        }
    }

    /// Time since the first MiniCluster was created.
    pub(super) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Notes an object as it is now.
    pub(super) fn note(&mut self, kind: Kind, object: &DynamicObject) {
        let (name, now) = (object.name_any(), self.elapsed());
        let conditions = object.data["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        let complete = conditions.any(|it| it["type"] == "Complete" && it["status"] == "True");
        if kind == Kind::Job {
            self.jobs.note(name.clone(), now);
        }
        if complete {
            let reached = match kind {
                Kind::Job => &mut self.complete,
                Kind::MiniCluster => &mut self.reported,
            };
            reached.note(name, now);
        }
    }

    /// Whether all is done that will be.
    pub(super) fn all_done(&self) -> bool {
        let complete = self.complete.names.len() >= self.wanted;
        complete && (self.all_reported() || self.elapsed() > self.complete.last + REPORT)
    }

    fn all_reported(&self) -> bool {
        self.reported.names.len() >= self.wanted
    }

    /// When it was.
    pub(super) fn times(&self) -> Times {
        Times {
            jobs: self.jobs.last.as_secs_f64(),
            complete: self.complete.last.as_secs_f64(),
            reported: self.all_reported().then_some(self.reported.last.as_secs_f64()),
        }
    }

    /// What was seen, for people.
    pub(super) fn describe(&self) -> String {
        let reached = |what: &str, Reached { names, last }: &Reached| {
            format!("{} {what} after {:.1} s", names.len(), last.as_secs_f64())
        };
        [
            reached("Jobs", &self.jobs),
            reached("Jobs complete", &self.complete),
            reached("MiniClusters complete", &self.reported),
        ]
        .join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn all_is_done_when_every_job_is_complete_and_every_minicluster_says_so() {
        let object = |name: &str, status: &str| -> DynamicObject {
            let conditions = [json!({"type": "Complete", "status": status})];
            let object = json!({"metadata": {"name": name}, "status": {"conditions": conditions}});
            serde_json::from_value(object).unwrap()
        };
        let mut observed = Observed::new(2);
        for name in ["a", "b"] {
            observed.note(Kind::Job, &object(name, "False"));
            observed.note(Kind::MiniCluster, &object(name, "False"));
        }
        assert!(!observed.all_done());
        for name in ["a", "b"] {
            observed.note(Kind::Job, &object(name, "True"));
        }
        assert!(!observed.all_done(), "they do not say so yet");
        observed.note(Kind::MiniCluster, &object("a", "True"));
        observed.note(Kind::MiniCluster, &object("a", "True"));
        assert!(!observed.all_done() && observed.times().reported.is_none());
        observed.note(Kind::MiniCluster, &object("b", "True"));
        let times = observed.times();
        assert!(observed.all_done() && times.jobs <= times.complete);
        assert!(times.complete <= times.reported.unwrap());
    }
}
