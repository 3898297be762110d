//! The fields of a specification that a running instance keeps, and whether they say what they said
//! when it was started.
//!
//! Every field is noted by its path and a short hash on the object that is made from it. So a change
//! is named by the fields that the user wrote, whatever this or another release of the operator builds
//! of them, and a note shows no value.

use crate::crd::{Container, MiniClusterSpec};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet};

const ANNOTATION: &str = "flux-framework.org/fields";

/// How the keys of runs begin in the agents' `ConfigMap`.
pub const RUN_KEY: &str = "run-";

/// Parts of a specification whose fields are noted one by one; every other field is noted whole.
const SECTIONS: [&str; 15] = [
    "",
    "containers",
    "containers[]",
    "containers[].commands",
    "flux",
    "flux.bursting",
    "flux.container",
    "flux.scheduler",
    "logging",
    "network",
    "pod",
    "scheduling",
    "services",
    "services[]",
    "services[].commands",
];

/// Fields that may change while an instance runs, or are checked against it by themselves.
const CHANGEABLE: [&str; 12] = [
    "autoscale",
    "backoffLimit",
    "cleanup",
    "deadlineSeconds",
    "flux.minimalService",
    "jobLabels",
    "maxSize",
    "minSize",
    "size",
    "startDeadlineSeconds",
    "suspend",
    "ttlSecondsAfterFinished",
];

const SERVICES: &str = "services";

/// Hashes of the fields that cannot be changed, by their paths below `spec`. Defaults are left out, so that a field
/// which only a newer release knows is no change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FixedFields(BTreeMap<String, String>);

impl FixedFields {
    /// The fields that the Job and the brokers in its pods keep.
    pub fn of_instance(spec: &MiniClusterSpec) -> Self {
        Self::of(spec, |path| !path.starts_with(SERVICES))
    }

    /// The fields that the pod of `spec.services` keeps.
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

    /// Key and value of the annotation that notes them.
    pub fn annotation(&self) -> (String, String) {
        let fields: Vec<String> =
            self.0.iter().map(|(path, hash)| format!("{path}={hash}")).collect();
        (ANNOTATION.to_owned(), fields.join(","))
    }

    /// Those that are noted in `annotations`, without those that another release took for fixed.
    fn noted_on(annotations: &BTreeMap<String, String>) -> Option<Self> {
        let fields = annotations.get(ANNOTATION)?.split(',').filter_map(|it| it.split_once('='));
        let fixed = fields.filter(|(path, _)| !CHANGEABLE.contains(path));
        Some(Self(fixed.map(|(path, hash)| (path.to_owned(), hash.to_owned())).collect()))
    }

    /// One name for all of them: the same for the same fields, whatever their order in the specification.
    pub fn hash(&self) -> String {
        let mut digest = Sha256::new();
        for (path, hash) in &self.0 {
            digest.update(format!("{path}={hash}\n"));
        }
        format!("{:016x}", first_bits(&digest.finalize()))
    }

    /// What [`Self::hash`] was for the fields that are noted in `annotations`; `None` where none are.
    pub fn noted_hash(annotations: &BTreeMap<String, String>) -> Option<String> {
        Self::noted_on(annotations).map(|noted| noted.hash())
    }

    /// Ten hexadecimal digits that tell runs apart, in names: the same for as
    /// long as the MiniCluster with this `uid` would run the same.
    pub fn run(&self, uid: &str) -> String {
        let digest = Sha256::digest(format!("{uid} {}", self.hash()));
        format!("{:010x}", first_bits(&digest) >> 24)
    }

    /// The key of the run in the agents' `ConfigMap`, without which its pods do not start.
    pub fn run_key(&self, uid: &str) -> String {
        format!("{RUN_KEY}{}", self.run(uid))
    }

    /// What [`Self::run_key`] was for the fields that are noted in `annotations`; `None` where none are.
    pub fn noted_run_key(annotations: &BTreeMap<String, String>, uid: &str) -> Option<String> {
        Self::noted_on(annotations).map(|noted| noted.run_key(uid))
    }

    /// Paths of the fields that do not say what is noted in `annotations`; none where nothing is.
    pub fn changed_since(&self, annotations: &BTreeMap<String, String>) -> Vec<String> {
        let Some(noted) = Self::noted_on(annotations) else { return Vec::new() };
        let paths = noted.0.keys().chain(self.0.keys());
        let changed = paths.filter(|path| noted.0.get(*path) != self.0.get(*path));
        let paths: BTreeSet<String> = changed.map(|path| reported(path, &noted, self)).collect();
        paths.into_iter().collect()
    }
}

fn first_bits(digest: &[u8]) -> u64 {
    digest.first_chunk().copied().map_or(0, u64::from_be_bytes)
}

/// The path by which a changed field is reported: its list's element where that has come or gone as a whole.
fn reported(path: &str, noted: &FixedFields, now: &FixedFields) -> String {
    let has =
        |fields: &FixedFields, element: &str| fields.0.keys().any(|it| it.starts_with(element));
    let element = path.find("].").map(|end| &path[..=end]);
    let whole = element.filter(|element| !has(noted, element) || !has(now, element));
    format!("spec.{}", whole.unwrap_or(path))
}

fn hashes(spec: &MiniClusterSpec) -> BTreeMap<String, String> {
    let mut hashes = BTreeMap::new();
    // A specification is read from JSON and can be written as such.
    collect("", "", &serde_json::to_value(spec).unwrap_or_default(), &mut hashes);
    hashes
}

/// Notes what `value` says at `path`; `pattern` is the path without positions.
fn collect(path: &str, pattern: &str, value: &Value, hashes: &mut BTreeMap<String, String>) {
    let is_section = SECTIONS.contains(&pattern);
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
    } else if !value.is_null() && !CHANGEABLE.contains(&pattern) {
        hashes.insert(path.to_owned(), short_hash(value.to_string().as_bytes()));
    }
}

/// FNV-1a, folded to 32 bits: the same in every release, and no matter of security.
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

    /// What the condition says when `before` has become `after`.
    fn changed(before: &Value, after: &Value) -> Vec<String> {
        let note = FixedFields::of_instance(&spec(before)).annotation();
        FixedFields::of_instance(&spec(after)).changed_since(&BTreeMap::from([note]))
    }

    #[test]
    fn every_section_has_fields_that_are_reported_by_themselves() {
        for (change, path) in [
            (json!({ "tasks": 2 }), "tasks"),
            (json!({ "flux": { "topology": "kary:2" } }), "flux.topology"),
            (json!({ "flux": { "container": { "disable": true } } }), "flux.container.disable"),
            (json!({ "flux": { "scheduler": { "simple": true } } }), "flux.scheduler.simple"),
            (json!({ "flux": { "bursting": { "hostlist": "a" } } }), "flux.bursting.hostlist"),
            (json!({ "logging": { "quiet": true } }), "logging.quiet"),
            (json!({ "network": { "headlessName": "a" } }), "network.headlessName"),
            (json!({ "pod": { "nodeSelector": { "a": "b" } } }), "pod.nodeSelector"),
        ] {
            assert_eq!(changed(&json!({}), &change), [format!("spec.{path}")]);
            assert_eq!(changed(&change, &json!({})), [format!("spec.{path}")]);
            assert_eq!(changed(&change, &change), [""; 0]);
        }
        let before = json!({ "containers": [{ "command": "a", "commands": { "pre": "b" } }] });
        let after = json!({ "containers": [{ "command": "a", "commands": { "pre": "c" } }] });
        assert_eq!(changed(&before, &after), ["spec.containers[0].commands.pre"]);
    }

    #[test]
    fn changeable_and_services_fields_are_not_reported() {
        let after = json!({
            "size": 2, "maxSize": 9, "minSize": 1, "deadlineSeconds": 5, "backoffLimit": 3,
            "cleanup": true, "flux": { "minimalService": true }, "services": [{ "name": "db" }],
            "jobLabels": { "team": "physics" }, "suspend": true, "startDeadlineSeconds": 60,
            "ttlSecondsAfterFinished": 60,
        });
        assert_eq!(changed(&json!({}), &after), [""; 0]);
        // Nor is anything reported of an object without a note.
        let fields = FixedFields::of_instance(&spec(&json!({})));
        assert_eq!(fields.changed_since(&BTreeMap::new()), [""; 0]);
    }

    #[test]
    fn the_hash_is_that_of_what_would_run() {
        let hash = |change| FixedFields::of_instance(&spec(&change)).hash();
        let with = |environment| json!({ "containers": [{ "environment": environment }] });
        let both = hash(with(json!({ "A": "1", "B": "2" })));
        assert_eq!(both, hash(with(json!({ "B": "2", "A": "1" }))));
        assert_ne!(both, hash(with(json!({ "A": "1", "B": "3" }))));
        assert_eq!(hash(json!({ "size": 2, "cleanup": true })), hash(json!({})));
        let fields = FixedFields::of_instance(&spec(&json!({})));
        let (key, note) = fields.annotation();
        // A field that only a newer release knows is no change until it is used.
        assert!(!note.contains("logging"), "{note}");
        // As noted by a release in which the labels of the Job were fixed.
        let annotations = BTreeMap::from([(key, format!("{note},jobLabels=0badcafe"))]);
        assert_eq!(FixedFields::noted_hash(&annotations), Some(fields.hash()));
        assert_eq!(fields.changed_since(&annotations), [""; 0]);
        // Another value would name what runs otherwise after a change of the operator.
        let containers = json!([{ "image": "app", "command": "run" }]);
        assert_eq!(hash(json!({ "containers": containers })), "52278ad725f3a8ae");
    }

    #[test]
    fn a_run_name_differs_by_minicluster_and_specification() {
        let run = |uid: &str, change: &Value| FixedFields::of_instance(&spec(change)).run(uid);
        let one = run("1", &json!({}));
        assert!(one.len() == 10 && one.chars().all(|digit| digit.is_ascii_hexdigit()), "{one}");
        assert_eq!(run("1", &json!({ "size": 9 })), one);
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
