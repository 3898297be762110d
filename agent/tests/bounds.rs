//! Whatever texts a configuration has, and however long they are: the decisions need a small stack and
//! give a plan that is not much longer than they are.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod settings;

use flux_agent::plan::{client_environment, lead, plan, sidecar_hook};
use flux_contract::{AgentConfig, Bootstrap, Hostlist, Workload};
use serde_json::{Value, json};

/// The longest text that the definition of MiniCluster lets a user write.
const TEXT_LIMIT: usize = 65_536;

/// Pieces of text that something reads, splits, quotes, escapes or counts.
const PIECES: [&str; 4] = ["'", "a\n", "\u{7f}", "ƒ["];

/// What `decide` gives on a thread with a small stack: nothing may recurse over its input.
fn on_a_small_stack<T: Send>(decide: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(512 << 10);
        thread.spawn_scoped(scope, decide).unwrap().join().unwrap()
    })
}

/// Paths (JSON pointers, RFC 6901) of all texts in `value`.
fn texts(path: &str, value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(_) => found.push(path.to_owned()),
        Value::Array(elements) => {
            let elements = elements.iter().enumerate();
            elements.for_each(|(index, inner)| texts(&format!("{path}/{index}"), inner, found));
        }
        Value::Object(fields) => {
            fields.iter().for_each(|(name, inner)| texts(&format!("{path}/{name}"), inner, found));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// All that is decided about the lead and a worker, as text.
fn decided(config: &AgentConfig) -> String {
    let pods = ["sample-0", "sample-1"].map(|hostname| {
        let facts = settings::facts(config, hostname, 0);
        let shown = plan(config, &facts).map(|plan| format!("{plan} {plan:#?}"));
        let hook = |name: &String| sidecar_hook(config, &facts, "commands.init", Some(name));
        let hooks: Vec<_> = config.sidecars.keys().map(hook).collect();
        format!(
            "{shown:?} {:?} {:?} {hooks:?}",
            lead(config, &facts),
            client_environment(config, &facts)
        )
    });
    pods.concat()
}

#[test]
fn every_text_may_be_long() {
    let bootstraps = settings::bootstraps().into_iter().cycle();
    let mut tried = 0;
    for (workload, bootstrap) in settings::workloads().into_iter().zip(bootstraps) {
        let whole = serde_json::to_value(settings::everything(workload, bootstrap)).unwrap();
        let mut paths = Vec::new();
        texts("", &whole, &mut paths);
        for (index, path) in paths.iter().enumerate() {
            let piece = PIECES[index % PIECES.len()];
            let text: String = piece.chars().cycle().take(TEXT_LIMIT).collect();
            let mut changed = whole.clone();
            *changed.pointer_mut(path).unwrap() = json!(text);
            let Ok(config) = serde_json::from_value::<AgentConfig>(changed) else { continue };
            let length = on_a_small_stack(|| {
                let document = config.to_toml().unwrap();
                assert_eq!(AgentConfig::from_toml(&document).unwrap(), config);
                decided(&config).len()
            });
            // Shown twice for each of two pods, escaped twice; the mount path is in some thirty paths.
            assert!(length < 400 * TEXT_LIMIT, "{path}: {length}");
            tried += 1;
        }
    }
    assert!(tried > 140, "{tried}");
}

#[test]
fn a_hundred_thousand_hosts_are_planned_as_two_are() {
    let bootstrap = Bootstrap::Root { hosts: Hostlist::of_range("sample", 0..100_000) };
    let config = settings::everything(Workload::Diagnostics {}, bootstrap);
    let shown = on_a_small_stack(|| decided(&config));
    assert!(shown.contains("sample-[0-99999]") && shown.len() < 200_000, "{}", shown.len());
}

#[test]
fn documents_nested_without_end_are_refused() {
    for text in [
        format!("version = 1\na = {}", "[".repeat(100_000)),
        format!("version = 1\na = {}", "{a = ".repeat(100_000)),
        format!("version = 1\n{}a = 1", "a.".repeat(100_000)),
        format!("version = 1\n[{}a]", "a.".repeat(100_000)),
    ] {
        assert!(on_a_small_stack(|| AgentConfig::from_toml(&text).is_err()));
    }
}
