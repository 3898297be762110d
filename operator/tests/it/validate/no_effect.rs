//! Fields without effect where they are given.

use crate::validate::good;
use serde_json::json;

#[test]
fn a_specification_whose_fields_all_count_names_none() {
    assert_eq!(good(json!({})).not_acted_on, Vec::<String>::new());
    let volumes = json!({ "state": { "path": "/state", "claimName": "state" } });
    let archive = json!({
        "archive": { "path": "/state/a.tar" },
        "services": [{ "name": "db" }],
        "containers": [{ "volumes": volumes }],
    });
    assert_eq!(good(archive).not_acted_on, Vec::<String>::new());
}

#[test]
fn fields_without_effect_where_they_are_given_are_named() {
    let change = json!({ "containers": [
        { "runFlux": true, "command": "a", "batchRaw": true },
        { "name": "b", "command": "x", "noWrapEntrypoint": true, "commands": { "pre": "y" } },
    ] });
    assert_eq!(
        good(change).not_acted_on,
        [
            "spec.containers[0].batchRaw",
            "spec.containers[1].commands.pre",
            "spec.containers[1].command"
        ]
    );
    let lead = json!({ "name": "root", "address": "a", "hostlist": "root-0,hello-[0-3]" });
    let change = json!({ "flux": { "leadBroker": lead } });
    assert_eq!(good(change).not_acted_on, ["spec.containers[0].command"]);
}
