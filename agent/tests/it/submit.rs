//! The submission without Python, with a shell script in the place of `flux-job`.

use crate::prelude::*;

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

fn pod_with(release: &str) -> Pod {
    let pod = Pod::new();
    let flux = "mnt/flux/view/bin/flux";
    pod.write_executable(flux, &format!("{}exit\n\0{release}\0\n", pod.read(flux)));
    pod
}

fn pod() -> Pod {
    let pod = pod_with("0.88.0");
    pod.write_executable("libexec/flux-job", FLUX_JOB);
    pod
}

#[test]
fn the_agent_submits_a_command_and_attaches() {
    let pod = pod();
    let config = pod.config(&["echo", "a  b"]);
    pod.run(&config).with_code(5).with_output("attached, LC_CTYPE=C.UTF-8\n");
    let jobspec: Value = serde_json::from_str(&pod.read("jobspec")).unwrap();
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
    pod.run(&pod.config(&["true"])).with_code(Exit::FluxRefused.code());
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

#[test]
fn the_job_of_an_older_flux_run_prints_until_its_end() {
    // `flux run` of this pod ends at SIGTERM. Its job ends when it gets one.
    let run = "echo 7 >> $POD/history; touch $POD/runs
        until [ -e $POD/signalled ]; do sleep 0.02; done; echo saved; exit 4";
    let request = r#"{"id":7,"signum":15}"#;
    for (release, output, code, request) in
        [("0.72.0", "saved\n", 4, request), ("0.73.0", "", 143, "")]
    {
        let pod = pod_with(release);
        fs::write(pod.at("refuses"), run).unwrap();
        let mut config = pod.config(&["true"]);
        config.broker.simple_scheduler = true;
        let running = pod.start(&config);
        pod.await_file("runs");
        let note = format!("note      with Flux {release}, flux.scheduler.simple has no effect\n");
        assert!(pod.ask("status", &[]).output.contains(&note), "{note}");
        running.signal(Signal::SIGTERM);
        let ended = running.end().with_code(stopped()).with_output(output);
        ended.with_log(&format!("it then ended with exit code {code}"));
        let asked = fs::read_to_string(pod.at("signalled")).unwrap_or_default();
        assert_eq!(asked, request, "{release}");
    }
}
