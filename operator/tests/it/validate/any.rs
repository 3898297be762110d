//! Any specification, also one that the API server would refuse: rules may be younger than what is
//! stored.

use crate::validate::{defaults, named};
use flux_operator::cluster::validate::validate;
use proptest::prelude::*;
use serde_json::{Value, json};

/// Small texts that are in order more often than not.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        "[a-z]{1,4}",
        "/[a-z]{1,4}",
        "[a-z '\"$;\\\\/.:=-]{0,8}",
        Just("5s".to_owned()),
        Just("hello-[0-3]".to_owned()),
    ]
}

prop_compose! {
    fn any_container()(
        name in prop::option::of(text()),
        command in prop::option::of(text()),
        prefix in text(),
        script in prop::option::of(text()),
        run_flux in prop::option::of(any::<bool>()),
        (launcher, batch, raw, wrap) in any::<(bool, bool, bool, bool)>(),
        ports in prop::collection::vec(-1..70_000, 0..3),
        (volume, path, medium) in (text(), prop::option::of(text()), text()),
        empty_dir in any::<bool>(),
        variable in text(),
    ) -> Value {
        json!({
            "name": name, "command": command, "runFlux": run_flux, "launcher": launcher,
            "batch": batch, "batchRaw": raw, "noWrapEntrypoint": wrap, "ports": ports,
            "commands": { "prefix": prefix, "script": script },
            "volumes": { volume: { "path": path, "emptyDir": empty_dir, "emptyDirMedium": medium } },
            "environment": { variable: "x" },
        })
    }
}

prop_compose! {
    fn any_spec()(
        size in prop_oneof![1..9, any::<i32>()],
        max_size in prop::option::of(prop_oneof![4..9, any::<i32>()]),
        min_size in prop::option::of(0..5),
        tasks in -1..9,
        (interactive, launcher) in any::<(bool, bool)>(),
        containers in prop::collection::vec(any_container(), 0..3),
        (timeout, flags, hostlist, topology) in (text(), text(), prop::option::of(text()), text()),
        cluster_size in prop::option::of(any::<i32>()),
        lead in prop::option::of((text(), text(), any::<i32>(), any::<i32>())),
        policy in text(),
    ) -> Value {
        let lead = lead.map(|(address, name, size, port)| {
            json!({ "address": address, "name": name, "size": size, "port": port })
        });
        json!({
            "size": size, "maxSize": max_size, "minSize": min_size, "tasks": tasks,
            "interactive": interactive, "launcher": launcher, "containers": containers,
            "flux": {
                "connectTimeout": timeout, "optionFlags": flags, "topology": topology,
                "bursting": { "hostlist": hostlist, "leadBroker": lead, "clusters": [{ "size": cluster_size }] },
            },
            "pod": { "restartPolicy": policy },
        })
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn no_specification_makes_validation_panic_and_the_answer_is_always_the_same(spec in any_spec()) {
        let cluster = named("hello", spec);
        prop_assert_eq!(validate(&cluster, &defaults()), validate(&cluster, &defaults()));
    }

    #[test]
    fn a_specification_with_one_good_container_is_in_order_whatever_its_command(
        command in "[a-z ]{1,12}", size in 1..50i32, more in 0..50i32, tasks in 0..200i32,
    ) {
        let cluster = named("hello", json!({
            "size": size, "maxSize": size + more, "tasks": tasks, "containers": [{ "command": command }],
        }));
        prop_assert!(validate(&cluster, &defaults()).is_ok());
    }
}
