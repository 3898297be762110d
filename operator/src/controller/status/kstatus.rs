//! The conditions `Stalled` and `Reconciling`, which Flux CD, Helm and other tools read through kstatus. As kstatus
//! defines them, at most one of them is present, and only while it holds.

use super::conditions::{Conditions, kind};
use super::facts::Facts;
use flux_api::crd::{Reason, State};

/// Reasons of `Progressing` for an edit that never takes effect.
const NOT_TRIED_AGAIN: [Reason; 2] = [Reason::ChangeRefused, Reason::NotRunAgain];

/// Sets `Stalled` if the MiniCluster can never become as specified, and `Reconciling` while it waits for the end of a
/// command, the start of an instance, or a queue. Without both, kstatus reads `Ready`, which is true for a complete run
/// and a running instance, and absent when suspended as requested. The other conditions must be set before.
pub(super) fn kstatus(conditions: &mut Conditions, facts: &Facts<'_>) {
    let state = facts.state();
    let progressing = conditions.reason(kind::PROGRESSING);
    let (type_, cause) = if state == State::Failed {
        (kind::STALLED, kind::FAILED)
    } else if facts.plan.violations.is_some() {
        (kind::STALLED, kind::ACCEPTED)
    } else if progressing.is_some_and(|reason| NOT_TRIED_AGAIN.contains(&reason)) {
        (kind::STALLED, kind::PROGRESSING)
    } else if progressing == Some(Reason::Suspended) {
        (kind::RECONCILING, kind::SUSPENDED)
    } else {
        (kind::RECONCILING, kind::PROGRESSING)
    };
    let is_as_specified = match state {
        State::Complete => true,
        State::Suspended => {
            progressing == Some(Reason::Suspended) && conditions.reason(kind::READY).is_none()
        }
        State::Running => facts.plan.interactive && progressing == Some(Reason::Running),
        State::Pending
        | State::Starting
        | State::Degraded
        | State::Ending
        | State::Failed
        | State::Invalid
        | State::Other(_) => false,
    };
    if type_ == kind::STALLED || !is_as_specified {
        conditions.repeat(type_, cause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::decide::Plan;
    use crate::controller::error::{Error, Verb};
    use crate::controller::fixtures::{at, ended_job, job, pod, running};
    use crate::controller::observe::Observed;
    use crate::controller::observe::lifecycle::Lifecycle;
    use crate::controller::observe::waiting::Waiting;
    use crate::controller::status::status;
    use flux_api::cluster::validate::{Violation, Violations};
    use flux_api::objects::SUSPENDED_ANNOTATION;
    use k8s_openapi::api::batch::v1::Job;
    use kube::ResourceExt as _;
    use mlua::{Lua, Table};
    use serde_json::{Value, json};
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    const CURRENT: &str = "Current";
    const FAILED: &str = "Failed";
    const IN_PROGRESS: &str = "InProgress";

    #[derive(Default)]
    struct Case {
        live: Observed,
        plan: Plan,
        error: Option<Error>,
    }

    /// A MiniCluster with this Job, changed by `change`.
    fn of(job: Option<Job>, change: impl FnOnce(&mut Case)) -> Value {
        let mut case = Case::default();
        (case.live.job, case.plan.generation) = (job, 1);
        change(&mut case);
        let Case { live, plan, error } = &case;
        let job = live.job.as_ref();
        let lifecycle = Lifecycle::of(job, None, &live.pods, plan.interactive, &at(300));
        let live = &Observed { lifecycle, ..live.clone() };
        let facts = Facts { live, plan, error: error.as_ref() };
        with_status(&json!(status(None, "hello", &facts, at(300))))
    }

    fn with_status(status: &Value) -> Value {
        json!({
            "apiVersion": "flux-framework.org/v1alpha2", "kind": "MiniCluster",
            "metadata": { "name": "hello", "namespace": "apps", "generation": 1 }, "status": status,
        })
    }

    /// A Job without pods that the operator has suspended for the reason `note`, or, without a note, another actor.
    fn suspended(note: Option<&str>) -> Job {
        let mut job = job(0);
        job.spec.as_mut().unwrap().suspend = Some(true);
        job.status.as_mut().unwrap().active = Some(0);
        let note = note.map(|note| (SUSPENDED_ANNOTATION.to_owned(), note.to_owned()));
        job.annotations_mut().extend(note);
        job
    }

    fn as_made(_: &mut Case) {}

    fn with_lead(case: &mut Case) {
        case.live.pods.lead = Some(pod("hello-0", "Running", "hello", running()));
    }

    fn interactive(case: &mut Case) {
        with_lead(case);
        case.plan.interactive = true;
    }

    fn invalid(case: &mut Case) {
        let violation = Violation { path: "spec.size".to_owned(), message: "bad".to_owned() };
        case.plan.violations = Some(Violations(vec![violation]));
    }

    fn edited(case: &mut Case) {
        interactive(case);
        case.plan.refused = vec!["spec.tasks".to_owned()];
    }

    fn failing(case: &mut Case) {
        let status = kube::core::Status::failure("exceeded quota", "Forbidden");
        let refusal = kube::Error::Api(Box::new(status));
        case.error = Some(Error::of(Verb::Apply, "Job", "hello")(refusal));
    }

    fn lacking_a_node(case: &mut Case) {
        interactive(case);
        case.live.pods.waiting =
            Some(Waiting { message: "no node".to_owned(), is_persistent: true });
    }

    fn held_up(case: &mut Case) {
        case.live.pods.refused = Some("quota".to_owned());
    }

    /// MiniClusters in every state, each with its name and the result that kstatus should have.
    fn all() -> Vec<(&'static str, Value, &'static str)> {
        let complete = || Some(ended_job("Complete", "SuccessPolicy"));
        let failed = Some(ended_job("Failed", "BackoffLimitExceeded"));
        let by_specification = || Some(suspended(Some("true")));
        vec![
            ("not seen yet", with_status(&json!({ "observedGeneration": -1 })), IN_PROGRESS),
            ("without a Job", of(None, as_made), IN_PROGRESS),
            ("whose Job is refused", of(None, failing), IN_PROGRESS),
            ("whose pods are refused", of(Some(job(0)), held_up), IN_PROGRESS),
            ("that starts", of(Some(job(0)), as_made), IN_PROGRESS),
            ("that runs a command", of(Some(job(4)), with_lead), IN_PROGRESS),
            ("interactive", of(Some(job(4)), interactive), CURRENT),
            ("whose worker waits", of(Some(job(3)), lacking_a_node), IN_PROGRESS),
            ("whose edit was refused", of(Some(job(4)), edited), FAILED),
            ("that runs and was made invalid", of(Some(job(4)), invalid), FAILED),
            ("suspended", of(by_specification(), as_made), CURRENT),
            ("idle", of(Some(suspended(Some("idle/"))), as_made), CURRENT),
            ("suspended, with an error", of(by_specification(), failing), IN_PROGRESS),
            ("suspended by another", of(Some(suspended(None)), as_made), IN_PROGRESS),
            ("complete", of(complete(), as_made), CURRENT),
            ("complete, with an error", of(complete(), failing), CURRENT),
            ("complete, and edited", of(complete(), edited), FAILED),
            ("failed", of(failed, as_made), FAILED),
            ("invalid", of(None, invalid), FAILED),
        ]
    }

    /// Runs the health check for Argo CD in docs/how-to/gitops.md.
    #[test]
    fn the_script_for_argo_cd_agrees() {
        let page = include_str!("../../../../docs/how-to/gitops.md");
        let (_, entry) = page.split_once("health.flux-framework.org_MiniCluster: |\n").unwrap();
        let (script, _) = entry.split_once("```").unwrap();
        for (what, object, expected) in all() {
            let lua = Lua::new();
            lua.globals().set("obj", lua.load(table(&object)).eval::<Table>().unwrap()).unwrap();
            let health: Table = lua.load(script).eval().unwrap();
            let expected = match expected {
                _ if ["suspended", "idle"].contains(&what) => "Suspended",
                CURRENT => "Healthy",
                FAILED => "Degraded",
                _ => "Progressing",
            };
            assert_eq!(health.get::<String>("status").unwrap(), expected, "{what}");
            assert!(!health.get::<String>("message").unwrap().is_empty(), "{what}");
        }
    }

    /// `value` as a constant of Lua.
    fn table(value: &Value) -> String {
        let list = match value {
            Value::Object(fields) => {
                fields.iter().map(|(name, it)| format!("[{name:?}] = {}", table(it))).collect()
            }
            Value::Array(items) => items.iter().map(table).collect::<Vec<_>>(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                return value.to_string();
            }
        };
        format!("{{ {} }}", list.join(", "))
    }

    /// `cargo verify` builds the program: e2e/go/kstatus.
    #[test]
    #[ignore = "KSTATUS must name the program that calls kstatus itself"]
    fn kstatus_itself_agrees() {
        let mut program = Command::new(std::env::var("KSTATUS").unwrap());
        let program = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        for (_, object, _) in all() {
            writeln!(program.stdin.as_ref().unwrap(), "{object}").unwrap();
        }
        let computed = String::from_utf8(program.wait_with_output().unwrap().stdout).unwrap();
        let expected: Vec<_> = all().into_iter().map(|(_, _, expected)| expected).collect();
        assert_eq!(computed.lines().collect::<Vec<_>>(), expected);
    }
}
