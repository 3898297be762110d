//! Subcommands for people who enter a pod, on the real binary.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod pod;

use flux_contract::Exit;
use pod::{Background, Pod, await_that, broker_in_state, closed_port, code, stderr, stdout};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

/// Findings by the name of the check, with what was seen and the remedy.
fn doctor(pod: &Pod) -> (i32, BTreeMap<String, (String, String)>) {
    let output = pod.for_this_pod("doctor").args(["--output", "json"]).output().unwrap();
    let checks: Vec<Value> = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", stdout(&output)));
    let text = |check: &Value, key: &str| check[key].as_str().unwrap_or_default().to_owned();
    let all = checks.iter().map(|check| {
        let words = format!("{} {}", text(check, "seen"), text(check, "remedy"));
        (text(check, "name"), (text(check, "finding"), words))
    });
    (code(&output), all.collect())
}

#[test]
fn the_doctor_names_cause_and_remedy_of_everything_that_is_wrong_at_once() {
    let mut pod = Pod::new();
    pod.hostname = "stranger".to_owned();
    let mut config = pod.config(&["true"]);
    config.network.port = closed_port();
    pod.write_config(&config);
    fs::remove_file(pod.at("mnt/flux/view/bin/flux")).unwrap();
    fs::write(pod.at("flux_operator/curve/curve.cert"), "no certificate").unwrap();
    let (code, checks) = doctor(&pod);
    assert_eq!(code, 1);
    for (name, told) in [
        ("host", "setHostnameAsFQDN"),
        ("view", "flux.container.image"),
        ("certificate", "flux.curveCert"),
        ("directories", "config/run/flux"),
        ("agent", "status.sock"),
    ] {
        let (finding, text) = &checks[name];
        assert_eq!(finding, "failed", "{name}: {text}");
        assert!(text.contains(told), "{name}: {text}");
    }
    fs::remove_file(pod.at("flux_operator/config/agent.toml")).unwrap();
    let (code, checks) = doctor(&pod);
    assert_eq!((code, checks.len()), (1, 1), "nothing else can be told: {checks:?}");
    assert!(checks["configuration"].1.contains("agent.toml"));
}

#[test]
fn the_doctor_of_a_lead_that_waits_finds_all_well_but_the_quorum() {
    let pod = Pod::new();
    let mut config = pod.config(&["true"]);
    config.network.port = closed_port();
    broker_in_state(&pod.layout().local_socket(), "quorum");
    pod.broker_does("while [ ! -e $POD/done ]; do sleep 0.02; done");
    let run = Background::start(pod.prepared(&config));
    await_that("the agent answers", || code(&pod.for_this_pod("status").output().unwrap()) == 0);
    pod.await_file("broker-pid");
    let (_, checks) = doctor(&pod);
    for name in ["configuration", "host", "view", "certificate", "user", "directories", "agent"] {
        assert_eq!(checks[name].0, "ok", "{name}: {}", checks[name].1);
    }
    assert_eq!(checks["broker"].0, "warning");
    assert!(checks["broker"].1.contains("minSize"), "{}", checks["broker"].1);
    assert!(checks["lead"].1.contains("connection refused"), "{}", checks["lead"].1);
    fs::write(pod.at("done"), "").unwrap();
    run.end();
}

#[test]
fn connect_runs_a_command_with_the_broker_within_reach_and_passes_on_its_code() {
    let pod = Pod::new();
    pod.write_config(&pod.config(&["true"]));
    let connect =
        |words: &[&str]| pod.for_this_pod("connect").arg("--").args(words).output().unwrap();
    let early = connect(&["true"]);
    assert_eq!(code(&early), i32::from(Exit::Broker.code()));
    assert!(stderr(&early).contains("broker is not up"), "{}", stderr(&early));
    broker_in_state(&pod.layout().local_socket(), "run");
    let output = connect(&["sh", "-c", "echo $FLUX_URI $fluxsocket; command -v flux; exit 4"]);
    let (uri, flux) = (pod.layout().local_uri(), pod.at("mnt/flux/view/bin/flux"));
    let expected = format!("{uri} {uri}\n{}\n", flux.display());
    assert_eq!((code(&output), stdout(&output)), (4, expected), "{}", stderr(&output));
}

#[test]
fn resources_are_told_as_text_and_as_json() {
    let pod = Pod::new();
    pod.write_config(&pod.config(&["true"]));
    let text = stdout(&pod.for_this_pod("resources").output().unwrap());
    assert!(text.starts_with("cores for Flux  -\n"), "{text}");
    let json = pod.for_this_pod("resources").args(["--output", "json"]).output().unwrap();
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["fluxCores"], Value::Null);
}

/// The helper files, each sourced and run by every shell there is, with a `flux` that writes down
/// how it was called.
#[test]
fn the_helper_files_work_under_sh_and_bash_sourced_and_run() {
    let pod = Pod::new();
    let config = pod.config(&["true"]);
    assert_eq!(code(&pod.run(&config)), 0);
    let shells = ["/bin/sh", "/bin/bash"].into_iter().filter(|path| fs::exists(path).unwrap());
    for shell in shells {
        for how in [". ", shell] {
            let call = |name: &str| {
                let _ = fs::remove_file(pod.at("flux-calls"));
                let file = pod.at("mnt/flux").join(name);
                let script = format!("set -u; {how} {}; echo $?", file.display());
                let mut command = Command::new(shell);
                command.args(["-c", &script]).env_clear().env("POD", pod.at(""));
                let output = command.env("PATH", "/usr/bin:/bin").output().unwrap();
                let calls = fs::read_to_string(pod.at("flux-calls")).unwrap_or_default();
                (stdout(&output).trim().to_owned(), calls, stderr(&output))
            };
            let uri = pod.layout().local_uri();
            let (_, calls, error) = call("flux-connect.sh");
            assert!(calls.contains(&format!("proxy {uri} ")), "{shell} {how}: {calls} {error}");
            // This Flux refuses to load modules: then its own scheduler is put back.
            let (ended, calls, error) = call("load-fluxion.sh");
            assert_eq!(ended, "1", "{shell} {how}: {error}");
            assert!(error.contains("simple scheduler stays"), "{error}");
            assert!(calls.trim_end().ends_with("module load sched-simple"), "{calls}");
        }
    }
}
