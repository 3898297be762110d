//! Every setting of `agent.toml` changes what a pod does: the settings are taken from a document with
//! everything in it, so that a new one cannot be written by the operator and ignored here.

use crate::prelude::*;
use crate::settings::{facts, full, values, with_value, workloads};
use flux_agent::plan::{client_environment, plan};

/// Values for settings that would not be read if their text were merely another one.
const OTHERS: &[(&str, &str)] = &[
    ("/network/lead_address", "10.96.0.8"),
    ("/network/bootstrap/hosts", "root-0,sample-[0-7]"),
    ("/worker", "rejoin"),
    ("/cluster/name", "another"),
    ("/layout", "/mnt/elsewhere"),
    ("/install", "copy"),
];

/// Settings that change no plan.
const ELSEWHERE: &[&str] = &[
    // contract::agent_config::another_version_is_refused_as_a_version
    "/version",
    // What is in the view is among the facts, so it gets its place before them:
    // linked_view::a_run_with_a_mounted_view_is_as_any_other
    "/install",
    // The operator reads it back to tell a change of the size.
    "/cluster/size",
    // demand::a_lead_counts_the_pods_that_its_queue_needs
    "/autoscale/max_size",
    "/autoscale/idle_seconds",
    // serve::flux_rest_serves_as_it_is_configured
    "/rest/port",
    "/rest/tls",
    // It reads the fingerprints itself, again and again: files::follow
    "/rest/token_sha256",
    "/rest/read_only_token_sha256",
    // The operator reads it back to tell a change of it.
    "/rest/rotation",
    // What the kernel lets the container use is among the facts, and this is compared with it before:
    // flux::processors::only_a_static_cpu_manager_gives_own_processors
    "/exclusive_cpus",
    // go_bugs::bug_12_the_key_is_in_no_log
    "/logging/debug",
    // sidecars::it_waits_for_the_socket_and_ends_after_the_runner
    "/sidecars/beside/wait_for_socket",
    "/sidecars/beside/command",
    "/sidecars/beside/init",
    "/sidecars/beside/service_pre",
    "/sidecars/beside/post",
];

/// The documents again, and without those settings that leave others without a meaning.
fn contexts() -> Vec<AgentConfig> {
    let mut plain = full();
    for config in &mut plain {
        config.broker.custom_config = None;
        config.user.run_as_root = false;
        config.view.python_path = None;
    }
    let mut chosen = full();
    for config in &mut chosen {
        config.broker.custom_config = None;
        config.broker.simple_scheduler = false;
        config.network.lead_address = None;
    }
    [full(), plain, chosen].concat()
}

/// The settings of a document by their path, with the value of each. Of a list the first element is one.
fn settings_of(config: &AgentConfig) -> BTreeMap<String, Value> {
    let mut found = values(config);
    found.retain(|path, value| {
        let later = path.rsplit('/').next().and_then(|it| it.parse::<u8>().ok());
        !value.is_object() && !value.is_array() && later.is_none_or(|index| index == 0)
    });
    found
}

fn other(path: &str, value: &Value) -> Value {
    if let Some((_, text)) = OTHERS.iter().find(|(known, _)| *known == path) {
        return json!(text);
    }
    match value {
        Value::Bool(now) => json!(!now),
        Value::Number(now) => json!(now.as_u64().unwrap() + 1),
        Value::String(now) => json!(format!("{now}-other")),
        Value::Null | Value::Array(_) | Value::Object(_) => Value::Null,
    }
}

/// `config` with another value at `path`; nothing where it has no such setting.
fn changed(config: &AgentConfig, path: &str) -> Option<AgentConfig> {
    let now = values(config).remove(path)?;
    let changed = with_value(config, path, other(path, &now));
    Some(changed.unwrap_or_else(|| panic!("{path} takes no other value")))
}

/// All that lead, workers and sidecars would do, with every file, as root and as another user. What
/// cannot be planned is no effect.
fn doings(config: &AgentConfig) -> Vec<String> {
    let mut doings = Vec::new();
    for hostname in ["sample-0", "sample-1"] {
        for uid in [0, 4321] {
            let facts = facts(config, hostname, uid);
            doings.extend(plan(config, &facts).map(|plan| format!("{plan:#?}")));
            doings.extend(client_environment(config, &facts).map(|around| format!("{around:#?}")));
        }
    }
    doings
}

#[test]
fn the_document_has_everything_in_it() {
    for config in full() {
        let shown = format!("{config:?}");
        for gap in ["None", "[]", "{}", "\"\"", "false"] {
            assert!(!shown.contains(gap), "{gap} in {shown}");
        }
    }
    let settings: BTreeMap<_, _> = full().iter().flat_map(settings_of).collect();
    assert!(settings.len() > 55, "only {}: {settings:#?}", settings.len());
}

#[test]
fn every_setting_changes_what_a_pod_does() {
    let contexts: Vec<_> = contexts().into_iter().map(|config| (doings(&config), config)).collect();
    let settings: BTreeMap<_, _> = full().iter().flat_map(settings_of).collect();
    let works = |path: &str| {
        contexts.iter().any(|(before, config)| {
            let after = changed(config, path).map(|config| doings(&config));
            after.is_some_and(|after| !after.is_empty() && after != *before)
        })
    };
    // Kinds are compared by the test below.
    let mut idle: Vec<_> = settings.keys().filter(|path| !path.ends_with("/kind")).collect();
    idle.retain(|path| !ELSEWHERE.contains(&path.as_str()) && !works(path));
    assert!(idle.is_empty(), "without effect: {idle:#?}");
    for path in ELSEWHERE {
        assert!(settings.contains_key(*path), "{path} is no setting");
        assert!(!works(path), "{path} is no exception any more");
    }
}

#[test]
fn every_kind_of_work_and_of_instance_does_something_else() {
    // The kinds of work in the first kind of instance, where these pods have a lead; and the other kind.
    let all: Vec<_> = full().iter().take(workloads().len() + 1).map(doings).collect();
    for (position, one) in all.iter().enumerate() {
        assert!(!all[..position].contains(one), "{position} is like another");
    }
}
