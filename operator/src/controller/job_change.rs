//! What a changed specification means for a Job that exists.
//!
//! A Job's pod template can never be changed. `completions` of an Indexed Job can, together with
//! `parallelism` (KEP-3715, stable since 1.31).

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use kube::{Resource, ResourceExt as _};
use serde_json::{Value, json};
use std::collections::BTreeMap;

use super::build::AGENT_CONTAINER;

/// Annotation of the Job: generation of the MiniCluster it was last brought in line with.
pub const GENERATION_ANNOTATION: &str = "flux-framework.org/generation";
/// Annotation of the Job: the [`Fingerprint`] of its template.
const FINGERPRINT_ANNOTATION: &str = "flux-framework.org/template";

/// What to do with the Job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobChange {
    /// There is none yet.
    Create,
    /// Leave it alone.
    Keep,
    /// Change what may be changed, by a merge patch; with it the size, if it differs.
    Adjust(Value),
    /// Change what may be changed, if anything differs, and tell the user about the rest.
    Refuse {
        /// The merge patch, if there is something to patch.
        adjust: Option<Value>,
        /// Paths of the fields that cannot be changed.
        fields: Vec<String>,
    },
}

/// Decides from the Job there is and the one that would be built now.
///
/// A difference in the template is held against the user only when the specification has another
/// generation than the Job: otherwise it is a newer operator that would build it otherwise, and a
/// running Job is left as it is.
pub fn job_change(live: Option<&Job>, desired: &Job) -> JobChange {
    let Some(live) = live else { return JobChange::Create };
    if live.metadata.deletion_timestamp.is_some() || is_finished(live) {
        return JobChange::Keep;
    }
    let generation = noted_generation(desired);
    if generation == noted_generation(live) {
        return match size_patch(live, desired) {
            Some(patch) => JobChange::Adjust(patch),
            None => JobChange::Keep,
        };
    }
    let fields = changed_parts(live, desired);
    let adjust = size_patch(live, desired);
    if !fields.is_empty() {
        return JobChange::Refuse { adjust, fields };
    }
    let mut patch = adjust.unwrap_or_else(|| json!({}));
    patch["metadata"] = json!({ "annotations": { GENERATION_ANNOTATION: generation } });
    JobChange::Adjust(patch)
}

/// True once the Job has ended, well or not.
pub fn is_finished(job: &Job) -> bool {
    let conditions = job.status.as_ref().and_then(|status| status.conditions.as_deref());
    conditions.unwrap_or_default().iter().any(|condition| {
        condition.status == "True" && matches!(condition.type_.as_str(), "Complete" | "Failed")
    })
}

/// The merge patch for what may differ at any time: size, deadline, backoff limit.
fn size_patch(live: &Job, desired: &Job) -> Option<Value> {
    let (live, desired) = (live.spec.as_ref()?, desired.spec.as_ref()?);
    let mut spec = serde_json::Map::new();
    if live.parallelism != desired.parallelism || live.completions != desired.completions {
        // Both in one patch: the API server refuses one without the other.
        spec.insert("parallelism".to_owned(), json!(desired.parallelism));
        spec.insert("completions".to_owned(), json!(desired.completions));
    }
    if live.active_deadline_seconds != desired.active_deadline_seconds {
        spec.insert("activeDeadlineSeconds".to_owned(), json!(desired.active_deadline_seconds));
    }
    if live.backoff_limit != desired.backoff_limit {
        spec.insert("backoffLimit".to_owned(), json!(desired.backoff_limit));
    }
    (!spec.is_empty()).then(|| json!({ "spec": spec }))
}

/// Paths of the parts in which `desired` has another [`Fingerprint`] noted than `live`.
pub(super) fn changed_parts<K: Resource>(live: &K, desired: &K) -> Vec<String> {
    let noted = |object: &K| {
        object.annotations().get(FINGERPRINT_ANNOTATION).map(|text| Fingerprint::parse(text))
    };
    match (noted(live), noted(desired)) {
        (Some(live), Some(desired)) => desired.differing(&live),
        (_, _) => vec![],
    }
}

/// The generation that an object was last brought in line with.
pub(super) fn noted_generation<K: Resource>(object: &K) -> Option<&String> {
    object.annotations().get(GENERATION_ANNOTATION)
}

/// One short hash for each part of a pod template, by its path.
///
/// The API server rewrites what it stores (defaults, quantities), so that a stored template cannot
/// be compared with a built one; hashes of what was built can.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fingerprint(BTreeMap<String, String>);

impl Fingerprint {
    /// The fingerprint of `template`. The agent's own container is left out: its image changes
    /// with every release of the operator.
    pub fn of(template: &PodTemplateSpec) -> Self {
        let value = serde_json::to_value(template).unwrap_or_default();
        let mut parts = BTreeMap::new();
        for part in ["labels", "annotations"] {
            insert(&mut parts, format!("metadata.{part}"), &value["metadata"][part]);
        }
        for (field, value) in value["spec"].as_object().into_iter().flatten() {
            match (field.as_str(), value) {
                ("containers" | "initContainers", Value::Array(containers)) => {
                    for container in containers {
                        of_container(&mut parts, field, container);
                    }
                }
                _ => insert(&mut parts, format!("spec.{field}"), value),
            }
        }
        Self(parts)
    }

    /// Key and value of the annotation that keeps it.
    pub fn annotation(&self) -> (String, String) {
        let parts: Vec<String> =
            self.0.iter().map(|(path, hash)| format!("{path}={hash}")).collect();
        (FINGERPRINT_ANNOTATION.to_owned(), parts.join(","))
    }

    /// Reads the annotation's value.
    fn parse(text: &str) -> Self {
        let pairs = text.split(',').filter_map(|part| part.split_once('='));
        Self(pairs.map(|(path, hash)| (path.to_owned(), hash.to_owned())).collect())
    }

    /// Paths of the parts that are not the same in both, below the Job's template.
    fn differing(&self, other: &Self) -> Vec<String> {
        let mut paths: Vec<&String> = self.0.keys().chain(other.0.keys()).collect();
        paths.sort();
        paths.dedup();
        paths.retain(|path| self.0.get(*path) != other.0.get(*path));
        paths.into_iter().cloned().collect()
    }
}

fn of_container(parts: &mut BTreeMap<String, String>, list: &str, container: &Value) {
    let name = container["name"].as_str().unwrap_or_default();
    if name == AGENT_CONTAINER {
        return;
    }
    for (field, value) in container.as_object().into_iter().flatten() {
        insert(parts, format!("spec.{list}[{name}].{field}"), value);
    }
}

fn insert(parts: &mut BTreeMap<String, String>, path: String, value: &Value) {
    if !value.is_null() {
        parts.insert(path, format!("{:08x}", short_hash(value.to_string().as_bytes())));
    }
}

/// FNV-1a, folded to 32 bits: the same in every release, and no matter of security.
fn short_hash(bytes: &[u8]) -> u32 {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    u32::try_from((hash >> 32) ^ (hash & 0xffff_ffff)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::batch::v1::{JobCondition, JobSpec, JobStatus};
    use k8s_openapi::api::core::v1::{Container, PodSpec};

    fn job(generation: &str, size: i32, image: &str) -> Job {
        let template = PodTemplateSpec {
            spec: Some(PodSpec {
                containers: vec![Container {
                    name: "hello".to_owned(),
                    image: Some(image.to_owned()),
                    ..Container::default()
                }],
                ..PodSpec::default()
            }),
            ..PodTemplateSpec::default()
        };
        let mut job = Job::default();
        job.annotations_mut().insert(GENERATION_ANNOTATION.to_owned(), generation.to_owned());
        let (key, value) = Fingerprint::of(&template).annotation();
        job.annotations_mut().insert(key, value);
        job.spec = Some(JobSpec {
            parallelism: Some(size),
            completions: Some(size),
            template,
            ..JobSpec::default()
        });
        job
    }

    #[test]
    fn a_missing_job_is_created() {
        assert_eq!(job_change(None, &job("1", 4, "a")), JobChange::Create);
    }

    #[test]
    fn an_unchanged_job_is_kept() {
        assert_eq!(job_change(Some(&job("1", 4, "a")), &job("1", 4, "a")), JobChange::Keep);
    }

    #[test]
    fn another_size_changes_parallelism_and_completions_together() {
        let JobChange::Adjust(patch) = job_change(Some(&job("1", 4, "a")), &job("2", 2, "a"))
        else {
            panic!("no adjustment");
        };
        assert_eq!(patch["spec"], json!({ "parallelism": 2, "completions": 2 }));
        assert_eq!(patch["metadata"]["annotations"][GENERATION_ANNOTATION], "2");
    }

    #[test]
    fn another_image_is_refused_and_named() {
        let change = job_change(Some(&job("1", 4, "a")), &job("2", 4, "b"));
        let fields = vec!["spec.containers[hello].image".to_owned()];
        assert_eq!(change, JobChange::Refuse { adjust: None, fields });
    }

    #[test]
    fn a_refused_field_does_not_keep_the_size_from_changing() {
        let change = job_change(Some(&job("1", 4, "a")), &job("2", 3, "b"));
        assert!(matches!(change, JobChange::Refuse { adjust: Some(_), .. }), "{change:?}");
    }

    #[test]
    fn a_template_that_only_a_newer_operator_builds_otherwise_is_kept() {
        assert_eq!(job_change(Some(&job("1", 4, "a")), &job("1", 4, "b")), JobChange::Keep);
    }

    #[test]
    fn a_finished_job_is_kept_whatever_the_specification_says() {
        let mut finished = job("1", 4, "a");
        finished.status = Some(JobStatus {
            conditions: Some(vec![JobCondition {
                type_: "Failed".to_owned(),
                status: "True".to_owned(),
                ..JobCondition::default()
            }]),
            ..JobStatus::default()
        });
        assert_eq!(job_change(Some(&finished), &job("2", 2, "b")), JobChange::Keep);
    }

    #[test]
    fn a_job_that_is_being_deleted_is_kept() {
        let mut going = job("1", 4, "a");
        going.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
        assert_eq!(job_change(Some(&going), &job("2", 2, "b")), JobChange::Keep);
    }
}
