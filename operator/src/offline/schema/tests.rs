use super::*;
use serde_json::json;

fn found(document: &Value) -> Vec<String> {
    let faults = faults(&schema().unwrap(), document);
    faults.into_iter().map(|fault| format!("{}: {}", fault.path, fault.message)).collect()
}

#[test]
fn every_type_error_is_found_with_its_path_and_remedy() {
    let document = json!({
        "spec": {
            "size": "4",
            "tasks": 1.5,
            "interactive": "true",
            "deadlineSeconds": "soon",
            "jobLabels": [],
            "logging": true,
            "backoffLimit": 3_000_000_000_u32,
            "containers": [
                { "environment": { "A": 4, "B": true }, "ports": { "a": 1 }, "commands": [] },
                { "volumes": [{ "name": "data" }], "resources": { "limits": { "cpu": 1.5 } } },
                null,
            ],
        },
    });
    let found = found(&document);
    let expected = [
        "spec.size: \"4\" is text, but a number is expected: remove the quotes",
        "spec.tasks: 1.5 is no whole number of 32 bits",
        "spec.interactive: \"true\" is no boolean: write true or false, without quotes",
        "spec.deadlineSeconds: \"soon\" is no number",
        "spec.jobLabels: a list, but a map is expected: write each entry as `NAME: ...` in place of `- name: NAME`",
        "spec.logging: true is no map: give it fields, each on a line of its own as `NAME: ...`",
        "spec.backoffLimit: 3000000000 is no whole number of 32 bits",
        "spec.containers[0].environment[A]: 4 is a number, but text is expected: put quotes around it",
        "spec.containers[0].environment[B]: true is a boolean, but text is expected: put quotes around it (without them yes, no, on, off, y and n are booleans, too)",
        "spec.containers[0].ports: a map, but a list is expected: start each entry with `- `",
        "spec.containers[0].commands: a list, but a map is expected: remove the `-`",
        "spec.containers[1].volumes: a list, but a map is expected: write each entry as `NAME: ...` in place of `- name: NAME`",
        "spec.containers[1].resources.limits[cpu]: 1.5 is neither a whole number nor text",
        "spec.containers[2]: nothing is no map: give it fields, each on a line of its own as `NAME: ...`",
    ];
    for fault in expected {
        assert!(found.iter().any(|it| it == fault), "{fault}\nis not in {found:#?}");
    }
    assert_eq!(found.len(), expected.len(), "{found:#?}");
}

#[test]
fn unknown_fields_lead_to_what_was_meant() {
    let document = json!({
        "metadata": { "name": "a", "nmespace": "b", "labels": { "x": "y" } },
        "spec": {
            "taks": 2, "Interactive": true, "nodeSelector": {}, "image": "a", "xyzzy": 1, "volumes": {},
            "containers": [{ "enviroment": {}, "existingVolumes": {}, "securityContext": { "addCapabilities": [] } }],
        },
        "sepc": {},
    });
    let mut found = found(&document);
    found.sort();
    assert_eq!(
        found,
        [
            "metadata.nmespace: no such field: did you mean namespace?",
            "sepc: no such field: did you mean spec?",
            "spec.Interactive: no such field: did you mean interactive?",
            "spec.containers[0].enviroment: no such field: did you mean environment?",
            "spec.containers[0].existingVolumes: no such field: use volumes",
            "spec.containers[0].securityContext.addCapabilities: no such field: use capabilities.add",
            "spec.image: no such field: there is spec.containers[].image, did you mean that?",
            "spec.nodeSelector: no such field: there is spec.pod.nodeSelector, did you mean that?",
            "spec.taks: no such field: did you mean tasks?",
            "spec.volumes: no such field: say in containers[].volumes where each volume comes from",
            "spec.xyzzy: no such field: remove it, or look for its spelling",
        ]
    );
}

#[test]
fn what_is_missing_or_beyond_a_limit_is_found() {
    let found = found(&json!({
        "spec": {
            "size": 0, "maxSize": 100_001, "flux": { "arch": "vax" },
            "containers": [], "archive": {},
        },
    }));
    assert_eq!(
        found,
        [
            "spec.archive.path: missing: it must be given",
            "spec.containers: 0 entries: give at least 1",
            "spec.flux.arch: \"vax\" is not possible: use \"amd64\", \"x86_64\", \"arm64\", \"arm\", \"aarch64\"",
            "spec.maxSize: 100001: give at most 100000",
            "spec.size: 0: give at least 1",
        ]
    );
}

#[test]
fn entries_of_maps_and_what_kubernetes_defines_are_known() {
    let document = json!({
        "apiVersion": "v", "kind": "k",
        "metadata": {
            "name": "a", "annotations": { "b": "c" }, "creationTimestamp": "2026-01-01T00:00:00Z",
            "managedFields": [{ "manager": "m", "fieldsV1": { "f:spec": {} } }],
            "ownerReferences": [{ "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u" }],
        },
        "spec": {
            "pod": { "labels": { "x": "one" }, "overlay": { "hostNetwork": true }, "resources": { "cpu": 1 } },
            "containers": [{
                "volumes": { "x": { "path": "/x" } },
                "resources": { "limits": { "cpu": 1, "memory": "1Gi" } },
                "securityContext": { "capabilities": { "add": ["IPC_LOCK"] } },
            }],
        },
    });
    assert_eq!(found(&document), Vec::<String>::new());
}

/// Keywords that this module acts on, and those that refuse nothing.
const ACTED_ON: [&str; 17] = [
    "additionalProperties",
    "enum",
    "format",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "properties",
    "required",
    "type",
    "x-kubernetes-int-or-string",
    "x-kubernetes-preserve-unknown-fields",
];
const REFUSING_NOTHING: [&str; 3] = ["default", "description", "title"];

/// Rules that are checked by the types themselves: see `validate_cel` in `super::super`; and what
/// the API server checks when several managers apply one list.
const CHECKED_ELSEWHERE: [&str; 4] = [
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-validations",
];

#[test]
fn no_keyword_of_the_definition_is_passed_over() {
    fn walk(path: &str, schema: &Value) {
        let fields = schema.as_object().unwrap();
        for keyword in fields.keys() {
            let known = [&ACTED_ON[..], &REFUSING_NOTHING, &CHECKED_ELSEWHERE].concat();
            assert!(known.contains(&keyword.as_str()), "{path} has {keyword}");
        }
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            walk(&format!("{path}.{name}"), property);
        }
        for inner in ["items", "additionalProperties"] {
            if schema[inner].is_object() {
                walk(&format!("{path}[]"), &schema[inner]);
            }
        }
    }
    let mut schema = schema().unwrap();
    schema["properties"]["metadata"] = json!({});
    walk("", &schema);
}
