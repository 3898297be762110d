//! A case, and what follows from it.

use super::pod::PodCase;
use crate::controller::decide::deletion::expires;
use crate::controller::decide::{DecisionInput, Plan, decide};
use crate::controller::error::{Error, Verb};
use crate::controller::fixtures::{at, defaults, images, mini_cluster};
use crate::controller::observe::Observed;
use crate::controller::observe::demand::Answer;
use crate::controller::status::{Facts, status};
use flux_api::cluster::validate::validate;
use flux_api::crd::{MiniCluster, MiniClusterStatus};
use flux_api::objects::RestTokens;
use flux_contract::demand::Demand;
use flux_contract::obstacle::Obstacle;
use flux_protocol::Redacted;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A MiniCluster and its objects.
#[derive(Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Case {
    /// The specification of generation 1, whose objects exist; without it nothing exists.
    pub(super) started: Option<Value>,
    /// The specification of generation 2, if it was edited. A field `annotations` is for the MiniCluster itself.
    pub(super) spec: Option<Value>,
    pub(super) generation: Option<i64>,
    /// The second of the creation of the MiniCluster; 10 if absent.
    pub(super) created: Option<i64>,
    /// The second at which the operator decides; 300 if absent.
    pub(super) now: Option<i64>,
    /// Number of ready pods of the Job, which started at second 100.
    pub(super) ready: Option<i32>,
    /// Type and reason of the condition by which the Job ended at second 200.
    pub(super) ended: Option<String>,
    /// The operator has recorded the run.
    pub(super) recorded: bool,
    /// Merge patches of live objects.
    pub(super) job: Option<Value>,
    pub(super) config_map: Option<Value>,
    /// The same of the agents' configuration.
    pub(super) agents: Option<Value>,
    pub(super) services_pod: Option<Value>,
    pub(super) services: BTreeMap<String, Value>,
    pub(super) pod_group: Option<Value>,
    /// Live objects that were deleted: `job`, `configMap`, `servicesPod`, `podGroup`, `lead`, or the name of a Service.
    pub(super) gone: Vec<String>,
    pub(super) lead: Option<PodCase>,
    pub(super) earlier_lead: Option<PodCase>,
    pub(super) failed_worker: Option<PodCase>,
    pub(super) unstarted_leads: Vec<u32>,
    /// Why pods do not start.
    pub(super) waiting: Option<String>,
    /// What the agent of the lead's pod reports to keep its broker from a lead in another MiniCluster.
    pub(super) obstacle: Option<Obstacle>,
    /// The wait is so short that it is part of every start.
    pub(super) is_passing: bool,
    /// Why the Job controller creates no pods.
    pub(super) pods_refused: Option<String>,
    /// Seconds to the next check of the pods.
    pub(super) next_check: Option<u64>,
    /// The schedulers whose PodGroups the API server has.
    pub(super) served: Vec<String>,
    /// Kind and name of objects of others.
    pub(super) taken: Vec<String>,
    /// Kind and name of objects of a deleted MiniCluster.
    pub(super) left: Vec<String>,
    pub(super) taken_services: Vec<String>,
    pub(super) taken_aliases: Vec<String>,
    /// Pods that the queue of Flux wants, and those that it wanted a moment ago.
    pub(super) demand: Option<(u32, Option<u32>)>,
    /// Why the lead does not answer what its queue needs.
    pub(super) demand_fails: Option<String>,
    /// A quota forbids the write of the Job.
    pub(super) is_forbidden: bool,
    /// The case that shows the status before.
    pub(super) after: Option<String>,
}

/// What follows from a case.
pub(super) struct Conclusion {
    pub(super) live: Observed,
    pub(super) plan: Plan,
    pub(super) status: MiniClusterStatus,
    pub(super) object: MiniCluster,
    pub(super) now: i64,
}

impl Case {
    pub(super) fn now(&self) -> i64 {
        self.now.unwrap_or(300)
    }

    /// The MiniCluster: as started, unless it was edited.
    fn object(&self) -> MiniCluster {
        let mut spec =
            self.spec.clone().or_else(|| self.started.clone()).unwrap_or_else(|| json!({}));
        let annotations = spec.as_object_mut().and_then(|spec| spec.remove("annotations"));
        let mut object = mini_cluster(&spec);
        object.metadata.annotations = annotations.map(|it| serde_json::from_value(it).unwrap());
        let edited = if self.spec.is_some() && self.started.is_some() { 2 } else { 1 };
        object.metadata.generation = Some(self.generation.unwrap_or(edited));
        object.metadata.creation_timestamp = Some(at(self.created.unwrap_or(10)));
        object
    }

    pub(super) fn conclude(&self, old: Option<&MiniClusterStatus>, live: Observed) -> Conclusion {
        let (mut object, now, images) = (self.object(), at(self.now()), images("agent"));
        object.status = old.cloned();
        let generation = object.metadata.generation.unwrap();
        let cluster = validate(&object, &defaults());
        let live = live.classified(cluster.as_ref().ok(), (generation, old), &images.agent, &now);
        let failed = self.demand_fails.clone().map(Answer::Failed);
        let answer = |(wanted, kept)| Answer::Demand(Demand { wanted, kept });
        let input = DecisionInput {
            generation,
            now: now.clone(),
            expires: expires(&object.spec),
            cluster,
            answer: self.demand.map(answer).or(failed).unwrap_or_default(),
            images: &images,
            image_volumes: Err("not checked".to_owned()),
            rest_tokens: Some(RestTokens {
                full: Redacted::new(
                    if generation == 1 { "secret-token" } else { "secret-token-2" }.to_owned(),
                ),
                read_only: Redacted::new("secret-reader".to_owned()),
            }),
            draw: |bytes| {
                bytes.fill(7);
                Ok(())
            },
        };
        let plan = decide(&input, &live);
        assert!(!format!("{plan:?}").contains("secret-"));
        let quota = self.is_forbidden.then(forbidden);
        let facts =
            Facts { live: &live, plan: &plan, error: quota.as_ref().or(plan.obstacle.as_ref()) };
        let status = status(old, "hello", &facts, now);
        Conclusion { live, plan, status, object, now: self.now() }
    }
}

fn forbidden() -> Error {
    let status = kube::core::Status::failure("exceeded quota", "Forbidden");
    Error::of(Verb::Apply, "Job", "hello")(kube::Error::Api(Box::new(status)))
}

/// The lifecycle, without the end, which the status has.
pub(super) fn lifecycle(live: &Observed) -> String {
    let lifecycle = &live.lifecycle;
    match lifecycle.end() {
        Some(_) if lifecycle.record().is_some() => "Ended, recorded".to_owned(),
        Some(_) => "Ended".to_owned(),
        None => format!("{lifecycle:?}"),
    }
}
