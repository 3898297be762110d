//! The bugs of the operator in Go, and where it disagrees with its document, that show in a pod; by
//! the numbers in `operator/tests/it/go_differences.txt`. Each test runs the real binary and would fail on what the
//! scripts of that operator do.

use crate::pod::certificate;
use crate::prelude::*;

#[test]
fn bug_12_the_key_is_in_no_log() {
    let (pod, mut config) = Pod::with(&["true"]);
    let housekeeping = "make directory";
    assert!(!pod.run(&config).log.contains(housekeeping));
    config.logging.debug = true;
    let ended = pod.run(&config).with_log(housekeeping);
    let said = ended.output + &ended.log + &pod.read("dev/termination-log");
    assert!(said.contains("curve.cert"), "{said}");
    for line in certificate().to_text().expose().lines().filter(|it| it.contains("-key")) {
        let key = line.split('"').nth(1).unwrap();
        assert!(!said.contains(key), "{said}");
    }
}

#[test]
fn bug_18_any_python_of_a_view_stays_in_place() {
    let pod = Pod::new();
    assert!(pod.config(&[]).logging.strict);
    pod.run(&pod.config(&["true"])).with_code(0);
    fs::create_dir_all(pod.at("mnt/flux/view/lib/python3.9/site-packages")).unwrap();
    pod.write_executable("mnt/flux/view/bin/python3", "#!/bin/sh\n");
    pod.run(&pod.config(&["true"])).with_code(0);
    assert!(pod.read("mnt/flux/flux-view.sh").contains("python3.9/site-packages"));
    assert_eq!(pod.mode("mnt/flux/view/bin/python3"), 0o755);
    assert!(!pod.at("mnt/flux/view/lib/python3").exists());
}

#[test]
fn bug_19_the_brokers_configuration_is_verbatim_and_written_anew() {
    let (pod, mut config) = Pod::with(&["true"]);
    let text = "[exec]\n# $HOME `date` \\$ \"quoted\"\n";
    config.broker.custom_config = Some(text.to_owned());
    pod.run(&config).with_code(0);
    let helpers = pod.read("mnt/flux/flux-view.sh");
    pod.run(&config).with_code(0);
    assert_eq!(pod.read("mnt/flux/config/etc/flux/config/broker.toml"), text);
    assert_eq!(pod.read("mnt/flux/flux-view.sh"), helpers);
}

#[test]
fn bug_21_the_post_hook_follows_a_failed_command() {
    let (pod, mut config) = Pod::with(&["sh", "-c", "exit 3"]);
    config.hooks.post = Some("echo post\nexit 1".to_owned());
    pod.run(&config).with_code(3).with_output("post\n");
    pod.error_says("commands.post");
}

#[test]
fn doc_13_the_lead_prints_both_times() {
    let (pod, mut config) = Pod::with(&["true"]);
    config.logging.timed = true;
    let said = pod.run(&config).log;
    let lines: Vec<&str> = said.lines().filter(|line| line.starts_with("FLUXTIME")).collect();
    let [submit, start] = lines[..] else { panic!("{said}") };
    assert!(submit.starts_with("FLUXTIME fluxsubmit wall time 0:0"), "{said}");
    assert!(start.starts_with("FLUXTIME fluxstart wall time 0:0"), "{said}");
}

#[test]
fn doc_15_a_quiet_run_prints_command_and_post_hook() {
    let (pod, mut config) = Pod::with(&["echo", "hello"]);
    config.logging.quiet = true;
    config.view.enabled = false;
    config.hooks.pre = Some("echo one\necho two\n".to_owned());
    config.hooks.post = Some("echo results".to_owned());
    let path =
        format!("{}:{}", pod.at("mnt/flux/view/bin").display(), std::env::var("PATH").unwrap());
    let ended = Ended::of(pod.prepared(&config).env("PATH", path)).with_output("hello\nresults\n");
    assert_eq!(ended.log, "");
}
