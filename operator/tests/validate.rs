//! One test a rule: what is refused, where, and what a specification means.
#![expect(
    clippy::needless_pass_by_value,
    clippy::panic,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "helpers of tests, called with json!"
)]

use flux_operator::{
    cluster::{Cluster, Curve, Defaults, Violations, Work, validate},
    crd::MiniCluster,
};
use proptest::prelude::*;
use serde_json::{Value, json};

fn defaults() -> Defaults {
    Defaults {
        view_image: "registry.test/view:1".to_owned(),
        arm_view_image: "registry.test/arm-view:1".to_owned(),
    }
}

fn named(name: &str, spec: Value) -> MiniCluster {
    serde_json::from_value(json!({
        "apiVersion": "flux-framework.org/v1alpha2",
        "kind": "MiniCluster",
        "metadata": { "name": name, "namespace": "apps", "uid": "u-1" },
        "spec": spec,
    }))
    .unwrap()
}

/// `change` on top of a specification that is in order.
fn spec(change: Value) -> Value {
    let mut spec = json!({ "size": 4, "containers": [{ "image": "app", "command": "run" }] });
    for (field, value) in change.as_object().unwrap() {
        spec[field] = value.clone();
    }
    spec
}

fn check(change: Value) -> Result<Cluster, Violations> {
    validate(&named("hello", spec(change)), &defaults())
}

fn good(change: Value) -> Cluster {
    check(change).unwrap()
}

fn faults(change: Value) -> Vec<String> {
    check(change).unwrap_err().0.into_iter().map(|violation| violation.path).collect()
}

/// `change` in the only container.
fn container(change: Value) -> Value {
    let mut container = json!({ "image": "app" });
    for (field, value) in change.as_object().unwrap() {
        container[field] = value.clone();
    }
    json!({ "containers": [container] })
}

/// A runner and a container beside it.
fn beside(sidecar: Value) -> Value {
    json!({ "containers": [{ "runFlux": true, "command": "run" }, sidecar] })
}

fn volume(volume: Value) -> Value {
    container(json!({ "volumes": { "data": volume } }))
}

fn submission(change: Value) -> flux_contract::Submission {
    match good(change).runner.work {
        Work::Submit(submission) => submission,
        other => panic!("{other:?}"),
    }
}

const CERTIFICATE: &str = "metadata\n    name = \"x\"\ncurve\n    public-key = \"Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID\"\n    secret-key = \"D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs\"\n";

// Names and numbers

#[test]
fn a_name_that_would_not_fit_is_refused() {
    for name in ["a".repeat(53), "0a".to_owned(), "A".to_owned(), String::new()] {
        let cluster = named(&name, spec(json!({})));
        let faults = validate(&cluster, &defaults()).unwrap_err();
        assert_eq!(faults.0[0].path, "metadata.name", "{name}");
    }
}

#[test]
fn sizes_out_of_range_are_refused() {
    for size in [0, -1, 100_001] {
        assert_eq!(faults(json!({ "size": size, "maxSize": 100_000 }))[0], "spec.size");
    }
    assert_eq!(faults(json!({ "maxSize": 3 })), ["spec.maxSize"]);
    assert_eq!(faults(json!({ "minSize": 5 })), ["spec.minSize"]);
    assert_eq!(faults(json!({ "minSize": 0 })), ["spec.minSize"]);
}

#[test]
fn unset_max_size_means_size_and_unset_min_size_stays_open() {
    let cluster = good(json!({}));
    assert_eq!((cluster.size, cluster.max_size, cluster.min_size), (4, 4, None));
    let cluster = good(json!({ "maxSize": 6, "minSize": 2 }));
    assert_eq!((cluster.size, cluster.max_size, cluster.min_size), (4, 6, Some(2)));
    assert_eq!(cluster.flux.hosts.to_string(), "hello-[0-5]");
}

#[test]
fn negative_numbers_are_refused() {
    assert_eq!(faults(json!({ "tasks": -1 })), ["spec.tasks"]);
    assert_eq!(faults(json!({ "deadlineSeconds": 0 })), ["spec.deadlineSeconds"]);
    assert_eq!(faults(json!({ "backoffLimit": -1 })), ["spec.backoffLimit"]);
}

#[test]
fn a_failed_command_is_not_run_again_unless_asked_for() {
    assert_eq!(good(json!({})).backoff_limit, 0);
    assert_eq!(good(json!({ "backoffLimit": 3 })).backoff_limit, 3);
    assert_eq!(good(json!({})).pod.restart_policy, "Never");
}

#[test]
fn all_faults_are_reported_at_once_with_place_and_remedy() {
    let violations =
        validate(&named("Bad", spec(json!({ "size": -1, "tasks": -1 }))), &defaults()).unwrap_err();
    insta::assert_snapshot!(violations);
}

#[test]
fn the_mini_cluster_owns_what_is_made_for_it() {
    let owner = good(json!({})).owner;
    assert_eq!(
        (owner.kind.as_str(), owner.name.as_str(), owner.uid.as_str()),
        ("MiniCluster", "hello", "u-1")
    );
    assert_eq!(owner.api_version, "flux-framework.org/v1alpha2");
    assert_eq!((owner.controller, owner.block_owner_deletion), (Some(true), Some(true)));
}

// Who runs Flux

#[test]
fn the_only_container_runs_flux_whatever_it_says() {
    for run_flux in [json!({}), json!({ "runFlux": true }), json!({ "runFlux": false })] {
        assert!(good(container(run_flux)).sidecars.is_empty());
    }
}

#[test]
fn a_marked_container_runs_flux_and_the_others_are_beside_it() {
    let cluster = good(json!({ "containers": [{ "name": "db" }, { "runFlux": true }] }));
    assert_eq!(cluster.runner.container.name, "hello");
    assert_eq!(cluster.sidecars[0].container.name, "db");
    let cluster = good(json!({ "containers": [{ "name": "db", "runFlux": false }, {}] }));
    assert_eq!(cluster.sidecars[0].container.name, "db");
}

#[test]
fn none_or_two_that_run_flux_are_refused() {
    for containers in [
        json!([]),
        json!([{ "name": "a" }, { "name": "b" }]),
        json!([{ "name": "a", "runFlux": false }, { "name": "b", "runFlux": false }]),
        json!([{ "runFlux": true }, { "runFlux": true }]),
    ] {
        assert_eq!(faults(json!({ "containers": containers })), ["spec.containers"]);
    }
}

#[test]
fn a_sidecar_needs_a_name_of_its_own() {
    assert_eq!(faults(beside(json!({}))), ["spec.containers[1].name"]);
    for name in ["hello", "flux-agent", "flux-view", "Upper", "a_b"] {
        assert_eq!(faults(beside(json!({ "name": name }))), ["spec.containers[1].name"], "{name}");
    }
}

#[test]
fn a_sidecar_with_ports_needs_a_name_fit_for_a_service() {
    assert!(check(beside(json!({ "name": "0db" }))).is_ok());
    for name in ["0db", "hello-lead"] {
        let sidecar = beside(json!({ "name": name, "ports": [80] }));
        assert!(faults(sidecar).iter().all(|path| path == "spec.containers[1].name"), "{name}");
    }
}

#[test]
fn a_sidecar_keeps_its_entrypoint_when_asked_to() {
    let cluster = good(beside(json!({ "name": "web", "noWrapEntrypoint": true })));
    assert_eq!(cluster.sidecars[0].wrapped, None);
    let mut change = beside(json!({ "name": "web", "command": "serve" }));
    change["flux"] = json!({ "noWaitSocket": true });
    let wrapped = good(change).sidecars[0].wrapped.clone().unwrap();
    assert_eq!((wrapped.wait_for_socket, wrapped.command.as_deref()), (false, Some("serve")));
}

#[test]
fn a_service_needs_a_name_and_has_no_flux_hooks() {
    assert_eq!(faults(json!({ "services": [{}] })), ["spec.services[0].name"]);
    for hook in ["pre", "brokerPre", "workerPre"] {
        let services = json!([{ "name": "db", "commands": { hook: "x" } }]);
        assert_eq!(
            faults(json!({ "services": services })),
            [format!("spec.services[0].commands.{hook}")]
        );
    }
}

// What runs

#[test]
fn node_and_task_flags_follow_the_number_of_tasks() {
    for (tasks, flags) in [(0, &["-N", "4"][..]), (1, &["-n1"]), (4, &["-N", "4", "-n4"])] {
        assert_eq!(submission(json!({ "tasks": tasks })).flags, flags);
    }
}

#[test]
fn option_flags_and_debug_follow_the_node_and_task_flags() {
    let flags = submission(json!({
        "flux": { "optionFlags": "-ompi=openmpi@5 --setattr='a b'" },
        "logging": { "debug": true },
    }))
    .flags;
    assert_eq!(flags, ["-n1", "-ompi=openmpi@5", "--setattr=a b", "-vvv"]);
}

#[test]
fn a_submission_has_prefix_program_and_command() {
    let mut change = container(json!({
        "command": "lmp -in 'a b'", "commands": { "prefix": "fusion -x" },
    }));
    change["flux"] = json!({ "submitCommand": "flux mini submit" });
    let submission = submission(change);
    assert_eq!(submission.prefix, ["fusion", "-x"]);
    assert_eq!(submission.submit, ["flux", "mini", "submit"]);
    assert_eq!(submission.command, ["lmp", "-in", "a b"]);
}

#[test]
fn without_a_command_the_instance_is_interactive() {
    for command in [json!({}), json!({ "command": "" }), json!({ "command": " \n" })] {
        assert_eq!(good(container(command)).runner.work, Work::Interactive(None));
    }
}

#[test]
fn an_interactive_instance_submits_its_command_once() {
    match good(json!({ "interactive": true })).runner.work {
        Work::Interactive(Some(submission)) => assert_eq!(submission.command, ["run"]),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_launcher_is_not_submitted_wherever_it_is_asked_for() {
    let mut above = container(json!({ "command": "snakemake -j 4" }));
    above["launcher"] = json!(true);
    let below = container(json!({ "command": "snakemake -j 4", "launcher": true }));
    for change in [above, below] {
        let command = ["snakemake", "-j", "4"].map(str::to_owned).to_vec();
        assert_eq!(good(change).runner.work, Work::Launcher { prefix: vec![], command });
    }
}

#[test]
fn batch_lines_become_numbered_submissions() {
    let change =
        container(json!({ "batch": true, "command": "a\n\nb 'c'\n", "logs": "/out dir/" }));
    match good(change).runner.work {
        Work::Batch { script, output_directory, flags, .. } => {
            assert_eq!(output_directory, "/out dir");
            assert_eq!(flags, ["-n1"]);
            insta::assert_snapshot!(script);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn raw_batch_lines_are_the_script() {
    let raw = |command: &str| {
        let change = container(json!({ "batch": true, "batchRaw": true, "command": command }));
        match good(change).runner.work {
            Work::Batch { script, output_directory, .. } => {
                assert_eq!(output_directory, "/tmp/fluxout");
                script
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(raw("flux queue idle"), "#!/bin/bash\nflux queue idle\n");
    assert_eq!(raw("#!/bin/sh\nx\n"), "#!/bin/sh\nx\n");
}

#[test]
fn a_script_is_the_command_and_its_escaped_dollars_are_plain() {
    let script = "#!/bin/bash\necho \"rank \\${FLUX_TASK_RANK} $HOME\"\n";
    let submission = submission(container(json!({ "commands": { "script": script } })));
    assert_eq!(submission.command, ["/tmp/custom-entrypoint.sh"]);
    assert_eq!(
        submission.script.as_deref(),
        Some("#!/bin/bash\necho \"rank ${FLUX_TASK_RANK} $HOME\"\n")
    );
}

#[test]
fn what_excludes_each_other_is_refused() {
    for (change, path) in [
        (json!({ "command": "a", "commands": { "script": "b" } }), "command"),
        (json!({ "command": "a", "launcher": true, "batch": true }), "launcher"),
        (json!({ "batch": true }), "command"),
        (json!({ "fluxUser": {}, "fluxuser": {} }), "fluxuser"),
        (json!({ "commands": { "workerPre": "a", "preWorker": "b" } }), "commands.preWorker"),
        (json!({ "commands": { "brokerPre": "a", "preBroker": "b" } }), "commands.preBroker"),
    ] {
        assert_eq!(faults(container(change)), [format!("spec.containers[0].{path}")]);
    }
}

#[test]
fn commands_with_open_quotes_are_refused() {
    for (change, path) in [
        (json!({ "command": "echo 'a" }), "command"),
        (json!({ "commands": { "prefix": "a \"" } }), "commands.prefix"),
        (json!({ "lifeCycle": { "preStopExec": "a '" } }), "lifeCycle.preStopExec"),
    ] {
        assert_eq!(faults(container(change)), [format!("spec.containers[0].{path}")]);
    }
    for field in ["optionFlags", "submitCommand"] {
        assert_eq!(faults(json!({ "flux": { field: "a '" } })), [format!("spec.flux.{field}")]);
    }
}

#[test]
fn documented_spellings_of_hooks_and_user_are_understood() {
    let runner = good(container(json!({
        "command": "a",
        "preCommand": "p",
        "fluxuser": { "uid": 1002 },
        "commands": { "preWorker": "w", "preBroker": "b", "runFluxAsRoot": true },
    })))
    .runner;
    assert_eq!(runner.hooks.worker_pre.as_deref(), Some("w"));
    assert_eq!(runner.hooks.broker_pre.as_deref(), Some("b"));
    assert_eq!(runner.hooks.pre_command.as_deref(), Some("p"));
    assert_eq!(
        (runner.user.name.as_str(), runner.user.uid, runner.user.run_as_root),
        ("flux", 1002, true)
    );
}

#[test]
fn users_that_cannot_be_made_are_refused() {
    assert_eq!(
        faults(container(json!({ "fluxUser": { "uid": 0 } }))),
        ["spec.containers[0].fluxUser.uid"]
    );
    assert_eq!(
        faults(container(json!({ "fluxUser": { "name": "a:b" } }))),
        ["spec.containers[0].fluxUser.name"]
    );
}

// Containers

#[test]
fn values_kubernetes_would_refuse_are_refused_with_their_place() {
    for (change, path) in [
        (json!({ "image": "" }), "image"),
        (json!({ "imagePullPolicy": "Sometimes" }), "imagePullPolicy"),
        (json!({ "imagePullSecret": "A" }), "imagePullSecret"),
        (json!({ "workingDir": "here" }), "workingDir"),
        (json!({ "ports": [0] }), "ports[0]"),
        (json!({ "ports": [80, 65536] }), "ports[1]"),
        (json!({ "ports": [80, 80] }), "ports[1]"),
        (json!({ "environment": { "A=B": "" } }), "environment[A=B]"),
        (json!({ "secrets": { "1A": { "name": "s", "key": "k" } } }), "secrets[1A]"),
        (json!({ "secrets": { "A": { "name": "S", "key": "k" } } }), "secrets[A].name"),
        (json!({ "secrets": { "A": { "name": "s", "key": "" } } }), "secrets[A].key"),
        (
            json!({ "secrets": { "A": { "name": "s", "key": "k" } }, "environment": { "A": "" } }),
            "secrets[A]",
        ),
        (json!({ "resources": { "limits": { "cpu": "four" } } }), "resources.limits[cpu]"),
        (json!({ "batch": true, "command": "a", "logs": "out" }), "logs"),
    ] {
        assert_eq!(faults(container(change)), [format!("spec.containers[0].{path}")]);
    }
}

#[test]
fn pull_always_wins_over_the_policy() {
    let policy = |change: Value| good(container(change)).runner.container.pull_policy;
    assert_eq!(policy(json!({})), "IfNotPresent");
    assert_eq!(policy(json!({ "imagePullPolicy": "Never" })), "Never");
    assert_eq!(policy(json!({ "imagePullPolicy": "Never", "pullAlways": true })), "Always");
}

#[test]
fn lifecycle_hooks_are_argument_vectors() {
    let hooks = json!({ "lifeCycle": { "postStartExec": "touch /a", "preStopExec": "a; b" } });
    let container = good(container(hooks)).runner.container;
    assert_eq!(container.post_start.unwrap(), ["touch", "/a"]);
    assert_eq!(container.pre_stop.unwrap(), ["sh", "-c", "a; b"]);
}

// Volumes

#[test]
fn every_source_of_a_volume_is_understood() {
    let volumes = json!({
        "a": { "path": "/a", "hostPath": "/host", "readOnly": true },
        "b": { "path": "/b", "configMapName": "other-name", "items": { "k": "p/q" } },
        "c": { "path": "/c", "claimName": "claim" },
        "d": { "path": "/d", "secretName": "secret" },
        "e": { "emptyDir": true, "emptyDirMedium": "memory", "emptyDirSizeLimit": "64Gi" },
        "f": { "path": "/f", "csiDriver": "csi.test", "csiDriverAttributes": { "k": "v" } },
        "g": { "path": "/g" },
    });
    let cluster = good(container(json!({ "volumes": volumes })));
    insta::assert_yaml_snapshot!((&cluster.pod.volumes, &cluster.runner.container.mounts));
}

#[test]
fn volumes_that_cannot_be_mounted_are_refused() {
    for (change, path) in [
        (json!({}), ".path"),
        (json!({ "hostPath": "/a" }), ".path"),
        (json!({ "claimName": "a" }), ".path"),
        (json!({ "path": "a" }), ".path"),
        (json!({ "path": "/" }), ".path"),
        (json!({ "path": "/a/../b" }), ".path"),
        (json!({ "path": "/mnt/flux/" }), ".path"),
        (json!({ "path": "/mnt/flux/x" }), ".path"),
        (json!({ "path": "/opt/software" }), ".path"),
        (json!({ "path": "/a", "hostPath": "a" }), ".hostPath"),
        (json!({ "path": "/a", "hostPath": "/a", "claimName": "b" }), ""),
        (json!({ "path": "/a", "secretName": "A" }), ".secretName"),
        (json!({ "path": "/a", "emptyDirMedium": "tape" }), ".emptyDirMedium"),
        (json!({ "path": "/a", "emptyDirSizeLimit": "lots" }), ".emptyDirSizeLimit"),
        (json!({ "path": "/a", "hostPath": "/a", "emptyDirSizeLimit": "1" }), ".emptyDirSizeLimit"),
        (json!({ "path": "/a", "items": { "k": "p" } }), ".items"),
        (json!({ "path": "/a", "configMapName": "c", "items": { "k": "../p" } }), ".items[k]"),
        (json!({ "path": "/a", "csiDriverAttributes": { "k": "v" } }), ".csiDriverAttributes"),
    ] {
        let text = change.to_string();
        assert_eq!(
            faults(volume(change)),
            [format!("spec.containers[0].volumes[data]{path}")],
            "{text}"
        );
    }
}

#[test]
fn volume_names_are_labels_that_are_not_the_operators() {
    for name in ["Data", "a_b", "flux-view", "hello-agent", "hello-curve"] {
        let volumes = json!({ "volumes": { name: { "path": "/a" } } });
        assert_eq!(faults(container(volumes)), [format!("spec.containers[0].volumes[{name}]")]);
    }
}

#[test]
fn two_volumes_at_one_path_are_refused() {
    let volumes = json!({ "volumes": { "a": { "path": "/x" }, "b": { "path": "/x/" } } });
    assert_eq!(faults(container(volumes)), ["spec.containers[0].volumes[b].path"]);
}

#[test]
fn the_same_volume_in_two_containers_is_one_and_each_has_its_own_mounts() {
    let both = |runner: Value, sidecar: Value| {
        json!({ "containers": [
            { "runFlux": true, "volumes": { "data": runner } },
            { "name": "b", "volumes": { "data": sidecar, "own": { "path": "/own" } } },
        ] })
    };
    let cluster = good(both(
        json!({ "path": "/a", "claimName": "c", "readOnly": true }),
        json!({ "path": "/b", "claimName": "c" }),
    ));
    assert_eq!(cluster.pod.volumes.len(), 2);
    assert_eq!(cluster.runner.container.mounts.len(), 1);
    assert_eq!(cluster.sidecars[0].container.mounts.len(), 2);
    let change = both(json!({ "path": "/a", "claimName": "c" }), json!({ "path": "/a" }));
    assert_eq!(faults(change), ["spec.containers[1].volumes[data]"]);
}

// Flux

#[test]
fn the_view_image_is_the_operators_unless_given() {
    assert_eq!(good(json!({})).flux.view.image, "registry.test/view:1");
    let change = json!({ "flux": { "container": { "image": "mine", "disable": true } } });
    let view = good(change).flux.view;
    assert_eq!((view.image.as_str(), view.enabled), ("mine", false));
}

#[test]
fn values_flux_would_refuse_are_refused_with_their_place() {
    for (change, path) in [
        (json!({ "logLevel": 8 }), "logLevel"),
        (json!({ "connectTimeout": "soon" }), "connectTimeout"),
        (json!({ "topology": "star" }), "topology"),
        (json!({ "topology": "kary" }), "topology"),
        (json!({ "scheduler": { "queuePolicy": "a\"b" } }), "scheduler.queuePolicy"),
        (json!({ "environment": { "A-B": "" } }), "environment[A-B]"),
        (json!({ "mungeSecret": "A" }), "mungeSecret"),
        (json!({ "curveCert": "nonsense" }), "curveCert"),
        (json!({ "curveCertSecret": "A" }), "curveCertSecret"),
        (json!({ "curveCert": CERTIFICATE, "curveCertSecret": "a" }), "curveCertSecret"),
        (json!({ "container": { "name": "flux-agent" } }), "container.name"),
        (json!({ "container": { "name": "A" } }), "container.name"),
        (json!({ "container": { "mountPath": "mnt" } }), "container.mountPath"),
        (json!({ "container": { "mountPath": "/" } }), "container.mountPath"),
        (json!({ "container": { "mountPath": "/opt/software/x" } }), "container.mountPath"),
        (
            json!({ "container": { "mountPath": format!("/{}", "a".repeat(90)) } }),
            "container.mountPath",
        ),
        (json!({ "container": { "imagePullSecret": "A" } }), "container.imagePullSecret"),
        (
            json!({ "container": { "resources": { "requests": { "cpu": "x" } } } }),
            "container.resources.requests[cpu]",
        ),
    ] {
        let text = change.to_string();
        assert_eq!(faults(json!({ "flux": change })), [format!("spec.flux.{path}")], "{text}");
    }
}

#[test]
fn an_empty_connect_timeout_leaves_it_to_flux() {
    assert_eq!(good(json!({})).flux.connect_timeout.as_deref(), Some("5s"));
    assert_eq!(good(json!({ "flux": { "connectTimeout": "" } })).flux.connect_timeout, None);
}

#[test]
fn the_certificate_is_made_given_or_in_a_secret_and_never_shown() {
    assert_eq!(good(json!({})).flux.curve, Curve::Generate);
    let curve = good(json!({ "flux": { "curveCertSecret": "mine" } })).flux.curve;
    assert_eq!(curve, Curve::Secret("mine".to_owned()));
    let curve = good(json!({ "flux": { "curveCert": CERTIFICATE } })).flux.curve;
    assert!(matches!(&curve, Curve::Given(text) if text.expose() == CERTIFICATE));
    assert!(!format!("{curve:?}").contains("secret-key"));
    let half = CERTIFICATE.replace("secret-key", "secret+key");
    let fault = check(json!({ "flux": { "curveCert": half } })).unwrap_err().to_string();
    assert!(!fault.contains("D:)Q"), "{fault}");
}

// Bursting

#[test]
fn the_root_of_a_burst_lists_its_own_hosts_then_the_clusters() {
    let bursting = json!({ "clusters": [{ "size": 2 }, { "name": "other" }] });
    let flux = good(json!({ "flux": { "bursting": bursting } })).flux;
    assert_eq!(flux.hosts.to_string(), "hello-[0-3],burst-0-[0-1],other-[0-3]");
    assert_eq!(flux.lead_broker, None);
}

#[test]
fn a_burst_cluster_lists_the_lead_by_its_host_name() {
    let lead = json!({ "name": "root", "address": "24.123.50.123", "port": 30093, "size": 3 });
    let clusters = json!([{ "name": "hello", "size": 4 }]);
    for flux in [
        json!({ "bursting": { "leadBroker": lead, "clusters": clusters } }),
        json!({ "leadBroker": lead, "bursting": { "clusters": clusters } }),
    ] {
        let flux = good(json!({ "flux": flux })).flux;
        assert_eq!(flux.hosts.to_string(), "root-[0-2],hello-[0-3]");
        let lead = flux.lead_broker.unwrap();
        assert_eq!((lead.address.as_str(), lead.port), ("24.123.50.123", 30093));
    }
}

#[test]
fn a_given_hostlist_is_taken_as_it_is_wherever_it_is_given() {
    let lead =
        json!({ "name": "root", "address": "lead.test", "hostlist": "root-[0-3],hello-[0-3]" });
    let flux = good(json!({ "flux": { "leadBroker": lead } })).flux;
    assert_eq!(flux.hosts.to_string(), "root-[0-3],hello-[0-3]");
    assert_eq!(flux.lead_broker.unwrap().port, 8050);
    let flux =
        good(json!({ "flux": { "bursting": { "hostlist": "hello-[0-3],gffw-a-[001-003]" } } }))
            .flux;
    assert_eq!(flux.hosts.to_string(), "hello-[0-3],gffw-a-[001-003]");
}

#[test]
fn bursting_that_no_broker_could_start_from_is_refused() {
    let lead = json!({ "name": "root", "address": "a", "size": 1 });
    for (flux, path) in [
        (json!({ "bursting": { "hostlist": "hello-[0-" } }), "bursting.hostlist"),
        (
            json!({ "bursting": { "hostlist": "hello-[0-3]", "clusters": [{}] } }),
            "bursting.hostlist",
        ),
        (json!({ "bursting": { "hostlist": "hello-[0-2]" } }), "bursting"),
        (json!({ "bursting": { "hostlist": "other,hello-[0-3]" } }), "bursting"),
        (json!({ "bursting": { "clusters": [{ "name": "hello" }] } }), "bursting"),
        (json!({ "bursting": { "clusters": [{ "size": 0 }] } }), "bursting.clusters[0].size"),
        (json!({ "bursting": { "clusters": [{ "size": 140_000 }] } }), "bursting.clusters[0].size"),
        (json!({ "bursting": { "clusters": [{ "name": "A" }] } }), "bursting.clusters[0].name"),
        (
            json!({ "leadBroker": lead, "bursting": { "leadBroker": lead, "clusters": [{ "name": "hello" }] } }),
            "leadBroker",
        ),
        (json!({ "leadBroker": lead }), "bursting"),
        (
            json!({ "leadBroker": { "name": "r", "size": 1 }, "bursting": { "clusters": [{ "name": "hello" }] } }),
            "bursting.leadBroker.address",
        ),
        (
            json!({ "leadBroker": { "address": "a", "size": 1 }, "bursting": { "clusters": [{ "name": "hello" }] } }),
            "bursting.leadBroker.name",
        ),
        (
            json!({ "leadBroker": { "address": "a", "name": "r" }, "bursting": { "clusters": [{ "name": "hello" }] } }),
            "bursting.leadBroker.size",
        ),
        (
            json!({ "leadBroker": { "address": "a", "name": "r", "size": 1, "port": 0 }, "bursting": { "clusters": [{ "name": "hello" }] } }),
            "bursting.leadBroker.port",
        ),
    ] {
        let text = flux.to_string();
        assert_eq!(faults(json!({ "flux": flux })), [format!("spec.flux.{path}")], "{text}");
    }
}

// Pod, network, archive

#[test]
fn pod_values_kubernetes_would_refuse_are_refused_with_their_place() {
    for (change, path) in [
        (json!({ "restartPolicy": "Always" }), "restartPolicy"),
        (json!({ "dnsPolicy": "Mine" }), "dnsPolicy"),
        (json!({ "serviceAccountName": "A" }), "serviceAccountName"),
        (json!({ "labels": { "a b": "" } }), "labels[a b]"),
        (json!({ "labels": { "a": "b c" } }), "labels[a]"),
        (json!({ "nodeSelector": { "a": "b c" } }), "nodeSelector[a]"),
        (json!({ "annotations": { "": "x" } }), "annotations[]"),
        (json!({ "nodeAffinity": { "a": [] } }), "nodeAffinity[a]"),
        (json!({ "resources": { "cpu": "x" } }), "resources[cpu]"),
        (json!({ "tolerations": [{ "operator": "Like", "key": "a" }] }), "tolerations[0].operator"),
        (json!({ "tolerations": [{ "key": "a", "effect": "Never" }] }), "tolerations[0].effect"),
        (json!({ "tolerations": [{}] }), "tolerations[0].key"),
        (
            json!({ "tolerations": [{ "operator": "Exists", "value": "a" }] }),
            "tolerations[0].value",
        ),
        (
            json!({ "tolerations": [{ "key": "a", "tolerationSeconds": 5 }] }),
            "tolerations[0].tolerationSeconds",
        ),
        (json!({ "overlay": { "containers": "none" } }), "overlay"),
    ] {
        let text = change.to_string();
        assert_eq!(faults(json!({ "pod": change })), [format!("spec.pod.{path}")], "{text}");
    }
    let change = json!({ "shareProcessNamespace": true, "pod": { "hostPID": true } });
    assert_eq!(faults(change), ["spec.pod.hostPID"]);
}

#[test]
fn node_affinity_asks_for_one_of_the_values_unless_affinity_is_off() {
    let pod = json!({ "nodeAffinity": { "zone": ["a", "b"] } });
    let affinity = good(json!({ "pod": pod })).pod.node_affinity.unwrap();
    let terms = affinity.required_during_scheduling_ignored_during_execution.unwrap();
    let requirement = terms.node_selector_terms[0].match_expressions.as_ref().unwrap()[0].clone();
    assert_eq!((requirement.key.as_str(), requirement.operator.as_str()), ("zone", "In"));
    let cluster = good(json!({ "pod": pod, "network": { "disableAffinity": true } }));
    assert_eq!((cluster.pod.node_affinity, cluster.network.affinity), (None, false));
}

#[test]
fn the_headless_service_has_the_clusters_name_unless_given() {
    assert_eq!(good(json!({})).network.headless_name, "hello");
    for name in ["A", "0a", "hello-lead"] {
        let change = json!({ "network": { "headlessName": name } });
        assert_eq!(faults(change), ["spec.network.headlessName"], "{name}");
    }
}

#[test]
fn job_labels_and_the_archive_are_checked() {
    assert_eq!(faults(json!({ "jobLabels": { "a": "b c" } })), ["spec.jobLabels[a]"]);
    assert_eq!(faults(json!({ "archive": { "path": "a.tar" } })), ["spec.archive.path"]);
    let archive = good(json!({ "archive": { "path": "/state/a.tar" } })).archive;
    assert_eq!(archive.as_deref(), Some("/state/a.tar"));
}

#[test]
fn a_specification_whose_fields_all_count_names_none() {
    assert_eq!(good(json!({})).not_acted_on, Vec::<String>::new());
    let archive = json!({ "archive": { "path": "/state/a.tar" }, "services": [{ "name": "db" }] });
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

// The API server and this crate

#[test]
fn what_the_api_server_refuses_is_refused_here_as_well() {
    let lead = json!({ "address": "a", "name": "r", "size": 1, "hostlist": "r-0,hello-[0-3]" });
    for change in [
        json!({ "maxSize": 3 }),
        json!({ "minSize": 5 }),
        json!({ "containers": [{ "runFlux": true }, { "runFlux": true }] }),
        json!({ "containers": [{ "name": "a" }, { "name": "b" }] }),
        json!({ "containers": [{ "runFlux": true }, {}] }),
        json!({ "containers": [{}, { "runFlux": false }] }),
        json!({ "launcher": true, "containers": [{ "command": "a", "batch": true }] }),
        json!({ "services": [{}] }),
        json!({ "services": [{ "name": "a", "commands": { "brokerPre": "b" } }] }),
        container(json!({ "command": "a", "launcher": true, "batch": true })),
        container(json!({ "command": "a", "commands": { "script": "b" } })),
        container(json!({ "fluxUser": {}, "fluxuser": {} })),
        container(json!({ "commands": { "workerPre": "a", "preWorker": "b" } })),
        container(json!({ "commands": { "brokerPre": "a", "preBroker": "b" } })),
        volume(json!({ "path": "/a", "hostPath": "/a", "emptyDir": true })),
        volume(json!({ "hostPath": "/a" })),
        json!({ "flux": { "curveCert": CERTIFICATE, "curveCertSecret": "b" } }),
        json!({ "flux": { "leadBroker": lead, "bursting": { "leadBroker": lead } } }),
        json!({ "flux": { "leadBroker": lead, "bursting": { "hostlist": "a" } } }),
        json!({ "flux": { "leadBroker": lead, "bursting": { "clusters": [{}] } } }),
        json!({ "flux": { "bursting": { "hostlist": "hello-[0-3]", "clusters": [{}] } } }),
        json!({ "flux": { "bursting": { "leadBroker": lead, "hostlist": "a" } } }),
    ] {
        let cluster = named("hello", spec(change.clone()));
        assert!(cluster.validate_cel().is_err(), "the API server accepts {change}");
        assert!(validate(&cluster, &defaults()).is_err(), "accepted here: {change}");
    }
    for name in ["a".repeat(60), "a.b".to_owned(), "0a".to_owned()] {
        let cluster = named(&name, spec(json!({})));
        assert!(
            cluster.validate_cel().is_err() && validate(&cluster, &defaults()).is_err(),
            "{name}"
        );
    }
}

#[test]
fn what_is_accepted_here_the_api_server_accepts() {
    for change in [
        json!({}),
        json!({ "maxSize": 4, "minSize": 4 }),
        beside(json!({ "name": "b" })),
        json!({ "containers": [{}, { "name": "b", "runFlux": false }] }),
        json!({ "services": [{ "name": "b", "commands": { "init": "x" } }] }),
        container(json!({ "command": "a", "batch": true })),
        volume(json!({ "emptyDir": true })),
        volume(json!({ "path": "/a" })),
    ] {
        let cluster = named("hello", spec(change.clone()));
        cluster.validate_cel().unwrap();
        validate(&cluster, &defaults()).unwrap();
    }
}

#[test]
fn the_hello_world_of_the_document_means_what_it_says() {
    let text = include_str!("../../examples/hello-world/minicluster.yaml");
    let cluster: MiniCluster = serde_saphyr::from_str(text).unwrap();
    cluster.validate_cel().unwrap();
    insta::assert_debug_snapshot!(validate(&cluster, &defaults()).unwrap());
}

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
    #![proptest_config(ProptestConfig::with_cases(256))]

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
