//! Decides whether the operator changes the objects of a MiniCluster or only reports on them.

use crate::controller::error::NameConflict;
use crate::controller::job_ext::noted_generation;
use crate::controller::observe::Observed;
use crate::controller::run_record::{RunRecord, has_ended};
use flux_api::cluster::{AGENT_CONTAINER, Cluster};
use flux_api::objects::{AGENT_CONFIG_KEY, Images};
use flux_contract::{AgentConfig, ClusterName};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Mode {
    /// Bring the objects in line with the specification: there is no Job yet, or it runs.
    #[default]
    Reconcile,
    /// The run has ended. The record is present if it has the end, or if the Job is gone.
    Finished(Option<RunRecord>),
    /// The specification is invalid, and there are no objects.
    Invalid,
    /// The specification is invalid, so a running instance is left as it is.
    Refused,
    /// Another operator has started the run, so it is left as it is.
    StartedByAnotherOperator,
    /// The run is left as it is, because its agents, of this image, are of another release: this operator cannot read
    /// their configuration, or it is gone and they may not be able to read a new one.
    StartedByAnotherRelease(String),
}

impl Mode {
    pub(crate) const fn ended(&self) -> Option<&RunRecord> {
        if let Self::Finished(Some(run)) = self { Some(run) } else { None }
    }
}

/// `config` is the agents' configuration if this operator can read it; `cluster` is absent if it is invalid.
pub(crate) fn mode(
    live: &Observed,
    config: Option<&AgentConfig>,
    cluster: Option<&Cluster>,
    generation: i64,
    images: &Images,
) -> Mode {
    let recorded = live.config_map.as_ref().and_then(RunRecord::on);
    let Some(job) = &live.job else {
        return match (recorded, cluster) {
            // The Job lost its owner and still runs, or another object has its name.
            (Some(run), _)
                if run.end.is_none() && live.conflicts.iter().any(NameConflict::is_job) =>
            {
                if cluster.is_some() {
                    Mode::Reconcile
                } else {
                    Mode::Refused
                }
            }
            (Some(run), None) => Mode::Finished(Some(run)),
            (Some(run), Some(cluster)) if run.is_of(generation, &cluster.fixed_fields) => {
                Mode::Finished(Some(run))
            }
            (_, Some(_)) => Mode::Reconcile,
            (None, None) => Mode::Invalid,
        };
    };
    let recorded = recorded.filter(|run| run.has_end_of(job));
    if recorded.is_some() || has_ended(job, live.pods.lead.as_ref()) {
        return Mode::Finished(recorded);
    }
    if noted_generation(job).is_none() {
        return Mode::StartedByAnotherOperator;
    }
    if config.is_none() {
        let image = agent_image(job).unwrap_or_default();
        if live.config_map.is_some() || image != images.agent {
            return Mode::StartedByAnotherRelease(image.to_owned());
        }
    }
    if cluster.is_some() { Mode::Reconcile } else { Mode::Refused }
}

pub(crate) fn agent_config(config_map: Option<&ConfigMap>) -> Option<AgentConfig> {
    AgentConfig::from_toml(config_map?.data.as_ref()?.get(AGENT_CONFIG_KEY)?).ok()
}

/// The image from which the pods of `job` copy or mount the agent.
fn agent_image(job: &Job) -> Option<&str> {
    let pod = job.spec.as_ref()?.template.spec.as_ref()?;
    let mut containers = pod.init_containers.iter().flatten();
    let copies_agent = containers.clone().find(|container| container.name == AGENT_CONTAINER);
    if let Some(container) = copies_agent {
        return container.image.as_deref();
    }
    let name = ClusterName::new(&job.name_any()).ok()?.agent_image_volume();
    match pod.volumes.iter().flatten().find(|volume| volume.name == name) {
        Some(mounted) => mounted.image.as_ref()?.reference.as_deref(),
        // One image has both agent and view, and the first init container copies both.
        None => containers.next()?.image.as_deref(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::fixtures::{
        built, built_with, cluster, delete_failed_job, ended_job, images,
    };
    use crate::controller::observe::stores::strip_job;
    use crate::controller::run_record::RECORD_ANNOTATION;
    use flux_api::objects::GENERATION_ANNOTATION;
    use flux_contract::Install;
    use serde_json::json;

    /// The live objects of a running `echo hello`.
    fn running() -> Observed {
        let mut built = built(&cluster(&json!({})), 1);
        built.job.metadata.uid = Some("job-uid".to_owned());
        Observed { job: Some(built.job), config_map: Some(built.config_map), ..Observed::default() }
    }

    fn decide(live: &Observed, spec: &serde_json::Value, generation: i64) -> Mode {
        with_cluster(live, Some(&cluster(spec)), generation)
    }

    fn with_cluster(live: &Observed, cluster: Option<&Cluster>, generation: i64) -> Mode {
        let config = agent_config(live.config_map.as_ref());
        mode(live, config.as_ref(), cluster, generation, &images("agent"))
    }

    /// The live objects of `echo hello` after its Job was deleted.
    fn deleted() -> Observed {
        let mut live = running();
        delete_failed_job(&mut live);
        live
    }

    #[test]
    fn a_recorded_run_is_not_repeated_after_unrelated_edits() {
        assert_eq!(decide(&Observed::default(), &json!({}), 1), Mode::Reconcile);
        for (spec, generation) in [
            (json!({}), 1),
            (json!({ "maxSize": 9, "size": 2, "cleanup": true, "deadlineSeconds": 5 }), 2),
            // The generation is the same: another release has noted the fields under other names.
            (json!({ "tasks": 3 }), 1),
        ] {
            assert!(matches!(decide(&deleted(), &spec, generation), Mode::Finished(Some(_))));
        }
        assert_eq!(decide(&deleted(), &json!({ "tasks": 3 }), 2), Mode::Reconcile);
        let refused = with_cluster(&deleted(), None, 2);
        assert!(matches!(refused, Mode::Finished(Some(_))));
    }

    #[test]
    fn a_recorded_run_is_over_when_its_job_is_gone() {
        let mut live = deleted();
        let note = json!({ "job": "job-uid", "generation": 1 }).to_string();
        let annotations = live.config_map.as_mut().unwrap().annotations_mut();
        annotations.insert(RECORD_ANNOTATION.to_owned(), note);
        let over = |mode: Mode| mode.ended().is_some_and(|run| run.end.is_none());
        assert!(over(decide(&live, &json!({}), 1)) && over(with_cluster(&live, None, 2)));
        assert_eq!(decide(&live, &json!({ "tasks": 3 }), 2), Mode::Reconcile);
        live.job = running().job;
        assert_eq!(decide(&live, &json!({}), 1), Mode::Reconcile, "it is under way");
    }

    #[test]
    fn a_record_of_an_earlier_job_does_not_count() {
        let mut live = deleted();
        let mut job = ended_job("Complete", "SuccessPolicy");
        job.metadata.uid = Some("another".to_owned());
        live.job = Some(job);
        assert_eq!(decide(&live, &json!({}), 1), Mode::Finished(None));
        live.job.as_mut().unwrap().metadata.uid = Some("job-uid".to_owned());
        assert!(matches!(decide(&live, &json!({}), 1), Mode::Finished(Some(_))));
    }

    #[test]
    fn a_job_of_another_operator_is_left_alone() {
        let mut live = running();
        live.job.as_mut().unwrap().annotations_mut().remove(GENERATION_ANNOTATION);
        live.config_map = None;
        assert_eq!(decide(&live, &json!({}), 1), Mode::StartedByAnotherOperator);
        live.job.as_mut().unwrap().status = ended_job("Failed", "BackoffLimitExceeded").status;
        assert_eq!(decide(&live, &json!({}), 1), Mode::Finished(None));
    }

    #[test]
    fn a_run_goes_on_without_readable_configuration_or_valid_specification() {
        let mut live = running();
        assert_eq!(decide(&live, &json!({}), 2), Mode::Reconcile);
        assert_eq!(with_cluster(&live, None, 2), Mode::Refused);
        assert_eq!(with_cluster(&Observed::default(), None, 2), Mode::Invalid);
        let data = live.config_map.as_mut().unwrap().data.as_mut().unwrap();
        data.insert(AGENT_CONFIG_KEY.to_owned(), "version = 2\nnews = 1\n".to_owned());
        let other = Mode::StartedByAnotherRelease("agent".to_owned());
        assert_eq!(decide(&live, &json!({}), 2), other);
    }

    #[test]
    fn the_agent_image_is_found_mounted_and_copied() {
        let copied = running().job.unwrap();
        assert_eq!(agent_image(&copied), Some("agent"));
        let mounted = built_with(&cluster(&json!({})), Install::Image).job;
        assert_eq!(agent_image(&mounted), Some("agent"));
        let one_image = json!({ "flux": { "container": { "image": "agent" } } });
        let both = built(&cluster(&one_image), 1).job;
        let template = both.spec.as_ref().unwrap().template.spec.as_ref().unwrap();
        assert_eq!(template.init_containers.as_ref().unwrap().len(), 1);
        for job in [&copied, &mounted, &both] {
            let mut stored = job.clone();
            strip_job(&mut stored);
            assert_eq!(agent_image(&stored), Some("agent"));
        }
        let mut live = Observed { job: Some(mounted), ..Observed::default() };
        assert_eq!(decide(&live, &json!({}), 1), Mode::Reconcile);
        live.job.as_mut().unwrap().metadata.name = Some("another".to_owned());
        assert!(matches!(decide(&live, &json!({}), 1), Mode::StartedByAnotherRelease(_)));
    }
}
