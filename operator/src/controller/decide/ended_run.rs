//! The note of a run that has ended, kept on the `ConfigMap` of the agents, which stays when the Job
//! is deleted: what was run is not run again because somebody tidied up.

use super::change::Change;
use crate::cluster::{FixedFields, Identity};
use crate::controller::build::meta_of;
use crate::controller::kube_ext::noted_generation;
use crate::crd::{MiniClusterStatus, State};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub(crate) const ENDED_RUN_ANNOTATION: &str = "flux-framework.org/ended-run";

const MESSAGE_LIMIT: usize = 2000;

/// What ran, and how it ended. Fields that another release wrote are skipped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EndedRun {
    pub(crate) job: String,
    /// Generation of the specification that the Job was last in line with.
    pub(crate) generation: i64,
    /// [`FixedFields::hash`] of that specification; absent where a Job has no note of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fields: Option<String>,
    pub(crate) complete: bool,
    pub(crate) reason: String,
    pub(crate) message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) exit_code: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) start_time: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) completion_time: Option<Time>,
}

impl EndedRun {
    /// The run of `job` that has ended as `status` says; `None` while it has not. `generation` is
    /// the MiniCluster's: that of a Job without a note.
    pub(crate) fn of(job: &Job, status: &MiniClusterStatus, generation: i64) -> Option<Self> {
        let condition = status.end()?;
        let end = condition.message.floor_char_boundary(MESSAGE_LIMIT);
        Some(Self {
            job: job.uid().unwrap_or_default(),
            generation: noted_generation(job).unwrap_or(generation),
            fields: FixedFields::noted_hash(job.annotations()),
            complete: status.state == Some(State::Complete),
            reason: condition.reason.clone(),
            message: condition.message[..end].to_owned(),
            exit_code: status.exit_code,
            start_time: status.start_time.clone(),
            completion_time: status.completion_time.clone(),
        })
    }

    pub(crate) fn noted_on(config_map: &ConfigMap) -> Option<Self> {
        serde_json::from_str(config_map.annotations().get(ENDED_RUN_ANNOTATION)?).ok()
    }

    /// True when a specification of `generation` asks for what this run has done already: nobody has
    /// edited it since, or what would run is the same.
    pub(crate) fn is_of(&self, generation: i64, fields: &FixedFields) -> bool {
        self.generation == generation || self.fields == Some(fields.hash())
    }
}

/// Notes the run on the `ConfigMap`, and on a new one where there is none any more, if it has ended as
/// `status` says. Nothing else of it is changed.
pub(crate) fn note(
    identity: &Identity,
    job: Option<&Job>,
    config_map: Option<&ConfigMap>,
    status: &MiniClusterStatus,
    generation: i64,
) -> Change<ConfigMap> {
    let run = job.and_then(|job| EndedRun::of(job, status, generation));
    let Some(text) = run.map(|run| json!(run).to_string()) else { return Change::Keep };
    let Some(live) = config_map else {
        let mut metadata = meta_of(identity, &identity.name.agent_config_map());
        metadata.annotations = Some([(ENDED_RUN_ANNOTATION.to_owned(), text)].into());
        return Change::Create(Box::new(ConfigMap { metadata, ..ConfigMap::default() }));
    };
    let annotations = json!({ ENDED_RUN_ANNOTATION: text });
    Change::patch(live, json!({ "metadata": { "annotations": annotations } }))
}

/// From the `ConfigMap` there is to `desired`; the note goes before another run begins.
pub(crate) fn without_note(
    job: Option<&Job>,
    live: Option<&ConfigMap>,
    desired: ConfigMap,
) -> Change<ConfigMap> {
    let Some(live) = live else { return Change::Create(Box::new(desired)) };
    let mut desired = json!(desired);
    if job.is_none() && live.annotations().contains_key(ENDED_RUN_ANNOTATION) {
        desired["metadata"]["annotations"][ENDED_RUN_ANNOTATION] = Value::Null;
    }
    Change::merge(live, desired)
}
