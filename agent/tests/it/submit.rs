//! The submission without Python, with a shell script in the place of `flux-job`.

use crate::pod::{Ended, Pod};
use std::fs;

/// Accepts one job, and records its jobspec.
const FLUX_JOB: &str = r#"#!/bin/sh
case "$1 $2" in
"submit --flags=novalidate")
    if [ -e "$POD/refuses" ]; then . "$POD/refuses"; fi
    cat > "$POD/jobspec"
    echo $$ >> "$POD/history"
    echo "ƒfakejob"
    ;;
"attach ƒfakejob")
    echo "attached, LC_CTYPE=$LC_CTYPE"
    exit 5
    ;;
esac
"#;

/// A pod whose Flux is of a release that is known.
fn pod() -> Pod {
    let pod = Pod::new();
    let flux = "mnt/flux/view/bin/flux";
    pod.write_executable(flux, &format!("{}exit\n\0{}\0\n", pod.read(flux), "0.88.0"));
    pod.write_executable("libexec/flux-job", FLUX_JOB);
    pod
}

#[test]
fn the_agent_submits_a_command_and_attaches() {
    let pod = pod();
    let config = pod.config(&["echo", "a  b"]);
    pod.run(&config).with_code(5).with_output("attached, LC_CTYPE=C.UTF-8\n");
    let jobspec: serde_json::Value = serde_json::from_str(&pod.read("jobspec")).unwrap();
    let system = &jobspec["attributes"]["system"];
    assert_eq!(jobspec["tasks"][0]["command"], serde_json::json!(["echo", "a  b"]));
    assert_eq!(system["cwd"], pod.at("work").canonicalize().unwrap().to_str().unwrap());
    assert_eq!(system["environment"]["POD"], pod.at("").to_str().unwrap().trim_end_matches('/'));
    assert!(system["shell"]["options"]["rlimit"]["nofile"].is_i64(), "{jobspec}");
}

#[test]
fn a_refused_job_has_the_error_of_flux() {
    let pod = pod();
    fs::write(pod.at("refuses"), "echo 'flux-job: no such luck' >&2; exit 1").unwrap();
    pod.run(&pod.config(&["true"])).with_code(flux_contract::Exit::FluxRefused.code());
    pod.error_says("no such luck");
}

#[test]
fn flux_run_submits_if_a_hook_brings_plugins() {
    let pod = pod();
    let mut config = pod.config(&["echo", "hello"]);
    config.hooks.pre = Some("export FLUX_CLI_PLUGINPATH=/site".to_owned());
    let ended: Ended = pod.run(&config).with_code(0).with_output("hello\n");
    ended.with_log("submitted by flux run: FLUX_CLI_PLUGINPATH is set");
    assert!(pod.read("flux-calls").contains(" run --flags=novalidate -n1 echo hello\n"));
}
