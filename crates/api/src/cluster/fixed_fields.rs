//! The fields of a specification that cannot change while an instance runs, and the detection of changes.
//!
//! The object made from a field has an annotation with the path of the field and a short hash. So a change is reported
//! by the fields that the user wrote, whatever a release of the operator makes of them, and no value is shown.

use crate::crd::{Container, MiniClusterSpec};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet};

const FIELDS_ANNOTATION: &str = "flux-framework.org/fields";

/// Annotation of the Job: `spec.runId` with which it was created.
pub const RUN_ID_ANNOTATION: &str = "flux-framework.org/run-id";

/// Prefix of the run keys in the agents' `ConfigMap`.
pub const RUN_KEY: &str = "run-";

/// Parts of a specification, beside itself, whose fields are hashed one by one; any other field is hashed as a whole.
const SECTIONS: &str = "containers containers[] containers[].commands flux flux.bursting flux.container \
     flux.scheduler logging network pod scheduling services services[] services[].commands";

/// Fields that may change while an instance runs, or that have checks of their own.
const CHANGEABLE: &str = "autoscale backoffLimit cleanup deadlineSeconds flux.minimalService jobLabels maxSize minSize \
     runId size startDeadlineSeconds suspend ttlSecondsAfterFinished";

const SERVICES: &str = "services";

/// Hashes of the fixed fields by path, without default values, so that a field of a newer release is no change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FixedFields(BTreeMap<String, String>);

impl FixedFields {
    /// The fixed fields of the Job and its pods.
    pub fn of_instance(spec: &MiniClusterSpec) -> Self {
        Self::of(spec, |path| !path.starts_with(SERVICES))
    }

    /// The fixed fields of the pod of `spec.services`.
    pub fn of_services(spec: &MiniClusterSpec) -> Self {
        Self::of(spec, |path| path.starts_with(SERVICES))
    }

    fn of(spec: &MiniClusterSpec, concerned: fn(&str) -> bool) -> Self {
        let untouched = hashes(&MiniClusterSpec {
            containers: vec![Container::default(); spec.containers.len()],
            services: vec![Container::default(); spec.services.len()],
            ..MiniClusterSpec::default()
        });
        let mut hashes = hashes(spec);
        hashes.retain(|path, hash| concerned(path) && untouched.get(path) != Some(hash));
        Self(hashes)
    }

    /// Key and value of the annotation with the hashes.
    pub fn annotation(&self) -> (String, String) {
        let fields: Vec<String> =
            self.0.iter().map(|(path, hash)| format!("{path}={hash}")).collect();
        (FIELDS_ANNOTATION.to_owned(), fields.join(","))
    }

    /// The hashes in `annotations`, without fields that only another release regards as fixed.
    fn noted_on(annotations: &BTreeMap<String, String>) -> Option<Self> {
        let fields =
            annotations.get(FIELDS_ANNOTATION)?.split(',').filter_map(|it| it.split_once('='));
        let fixed = fields.filter(|(path, _)| !is_among(path, CHANGEABLE));
        Some(Self(fixed.map(|(path, hash)| (path.to_owned(), hash.to_owned())).collect()))
    }

    /// One hash of all fixed fields.
    pub fn hash(&self) -> String {
        let mut digest = Sha256::new();
        for (path, hash) in &self.0 {
            digest.update(format!("{path}={hash}\n"));
        }
        format!("{:016x}", first_bits(&digest.finalize()))
    }

    /// [`Self::hash`] of the fields in `annotations`; `None` without the annotation.
    pub fn noted_hash(annotations: &BTreeMap<String, String>) -> Option<String> {
        Self::noted_on(annotations).map(|noted| noted.hash())
    }

    /// Ten hexadecimal digits for names of a run: equal while the MiniCluster with this `uid` would run the same.
    pub fn run(&self, uid: &str) -> String {
        ten_digits(&format!("{uid} {}", self.hash()))
    }

    /// The key in the agents' `ConfigMap` without which the pods of the run do not start. It differs by `run_id`, so
    /// that it opens no later run of the same.
    pub fn run_key(&self, uid: &str, run_id: Option<&str>) -> String {
        let named = |id| ten_digits(&format!("{uid} {} {id}", self.hash()));
        format!("{RUN_KEY}{}", run_id.map_or_else(|| self.run(uid), named))
    }

    /// [`Self::run_key`] of the fields in `annotations`; `None` without the annotation.
    pub fn noted_run_key(annotations: &BTreeMap<String, String>, uid: &str) -> Option<String> {
        let run_id = annotations.get(RUN_ID_ANNOTATION).map(String::as_str);
        Self::noted_on(annotations).map(|noted| noted.run_key(uid, run_id))
    }

    /// Paths of the fields that differ from `annotations`; none without the annotation.
    pub fn changed_since(&self, annotations: &BTreeMap<String, String>) -> Vec<String> {
        let Some(noted) = Self::noted_on(annotations) else { return Vec::new() };
        let paths = noted.0.keys().chain(self.0.keys());
        let changed = paths.filter(|path| noted.0.get(*path) != self.0.get(*path));
        let paths: BTreeSet<String> = changed.map(|path| reported(path, &noted, self)).collect();
        paths.into_iter().collect()
    }
}

fn ten_digits(text: &str) -> String {
    format!("{:010x}", first_bits(&Sha256::digest(text)) >> 24)
}

fn first_bits(digest: &[u8]) -> u64 {
    digest.first_chunk().copied().map_or(0, u64::from_be_bytes)
}

/// The path by which a changed field is reported: that of its list element, if the whole element was added or removed.
fn reported(path: &str, noted: &FixedFields, now: &FixedFields) -> String {
    let has =
        |fields: &FixedFields, element: &str| fields.0.keys().any(|it| it.starts_with(element));
    let element = path.find("].").map(|end| &path[..=end]);
    let whole = element.filter(|element| !has(noted, element) || !has(now, element));
    format!("spec.{}", whole.unwrap_or(path))
}

fn hashes(spec: &MiniClusterSpec) -> BTreeMap<String, String> {
    let mut hashes = BTreeMap::new();
    // A specification was parsed from JSON, so it can be written as JSON.
    let mut spec = serde_json::to_value(spec).unwrap_or_default();
    // The API is one field, as before it had this part, which may change while an instance runs.
    if let Some(rest) = spec.pointer_mut("/flux/rest").and_then(Value::as_object_mut) {
        rest.remove("rotation");
    }
    collect("", "", &spec, &mut hashes);
    hashes
}

fn is_among(word: &str, words: &str) -> bool {
    words.split(' ').any(|it| it == word)
}

/// Adds the hashes of `value` at `path`; `pattern` is the path without positions.
fn collect(path: &str, pattern: &str, value: &Value, hashes: &mut BTreeMap<String, String>) {
    let is_section = pattern.is_empty() || is_among(pattern, SECTIONS);
    if let Some(fields) = value.as_object().filter(|_| is_section) {
        let dot = if path.is_empty() { "" } else { "." };
        for (name, value) in fields {
            let (path, pattern) = (format!("{path}{dot}{name}"), format!("{pattern}{dot}{name}"));
            collect(&path, &pattern, value, hashes);
        }
    } else if let Some(elements) = value.as_array().filter(|_| is_section) {
        for (position, value) in elements.iter().enumerate() {
            collect(&format!("{path}[{position}]"), &format!("{pattern}[]"), value, hashes);
        }
    } else if !value.is_null() && !is_among(pattern, CHANGEABLE) {
        hashes.insert(path.to_owned(), short_hash(value.to_string().as_bytes()));
    }
}

/// FNV-1a, folded to 32 bits: equal in every release, and not relevant for security.
fn short_hash(bytes: &[u8]) -> String {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{:08x}", (hash >> 32) ^ (hash & 0xffff_ffff))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::mini_cluster;
    use serde_json::json;

    fn spec(change: &Value) -> MiniClusterSpec {
        mini_cluster(change).spec
    }

    #[test]
    fn the_hash_is_that_of_what_would_run() {
        let hash = |change| FixedFields::of_instance(&spec(&change)).hash();
        let with = |environment| json!({ "containers": [{ "environment": environment }] });
        let both = hash(with(json!({ "A": "1", "B": "2" })));
        assert_eq!(both, hash(with(json!({ "B": "2", "A": "1" }))));
        assert_ne!(both, hash(with(json!({ "A": "1", "B": "3" }))));
        assert_eq!(hash(json!({ "size": 2, "cleanup": true })), hash(json!({})));
        let rest = |rest| hash(json!({ "flux": { "rest": rest } }));
        assert_eq!(rest(json!({ "rotation": "2" })), rest(json!({})));
        assert_ne!(rest(json!({ "tlsSecretName": "mine" })), rest(json!({})));
        let fields = FixedFields::of_instance(&spec(&json!({})));
        let (key, note) = fields.annotation();
        // A field that only a newer release knows is no change until it is used.
        assert!(!note.contains("logging"), "{note}");
        // An older release regarded the labels of the Job as fixed.
        let annotations = BTreeMap::from([(key, format!("{note},jobLabels=0badcafe"))]);
        assert_eq!(FixedFields::noted_hash(&annotations), Some(fields.hash()));
        assert_eq!(fields.changed_since(&annotations), [""; 0]);
        // A different value would give running MiniClusters other names after an upgrade of the operator.
        let containers = json!([{ "image": "app", "command": "run" }]);
        assert_eq!(hash(json!({ "containers": containers })), "52278ad725f3a8ae");
    }

    #[test]
    fn a_run_name_differs_by_minicluster_and_specification() {
        let run = |uid: &str, change: &Value| FixedFields::of_instance(&spec(change)).run(uid);
        let one = run("1", &json!({}));
        assert!(one.len() == 10 && one.chars().all(|digit| digit.is_ascii_hexdigit()), "{one}");
        assert_eq!(run("1", &json!({ "size": 9 })), one);
        assert_eq!(run("1", &json!({ "runId": "b" })), one, "the same runs again");
        let fields = FixedFields::default();
        let keys = [None, Some("a"), Some("b")].map(|id| fields.run_key("1", id));
        assert!(keys[0] != keys[1] && keys[1] != keys[2], "{keys:?}");
        let noted =
            BTreeMap::from([fields.annotation(), (RUN_ID_ANNOTATION.to_owned(), "b".to_owned())]);
        assert_eq!(FixedFields::noted_run_key(&noted, "1").as_ref(), Some(&keys[2]));
        assert_ne!(run("2", &json!({})), one);
        let keys = ["a", "b"].map(|key| run("1", &json!({ "flux": { "curveCert": key } })));
        assert!(keys[0] != keys[1] && !keys.contains(&one), "{keys:?}");
    }

    #[test]
    fn a_note_shows_no_value_and_stays_small() {
        let container = json!({
            "image": "app", "name": "secret-name", "command": "x".repeat(10_000),
            "environment": { "PASSWORD": "secret-value" }, "commands": { "pre": "y" },
        });
        let containers = vec![container; 16];
        let (_, note) =
            FixedFields::of_instance(&spec(&json!({ "containers": containers }))).annotation();
        assert!(!note.contains("secret") && !note.contains("PASSWORD"), "{note}");
        assert!(note.len() < 16_384, "{} bytes", note.len());
    }
}
