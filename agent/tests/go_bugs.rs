//! The bugs of the operator in Go, and where it disagrees with its document, that show in a pod; by
//! the numbers in `operator/tests/it/go_differences.txt`. Each test runs the real binary and would fail on what the
//! scripts of that operator do.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod pod;

use flux_contract::{AgentConfig, Bootstrap, Hooks, Hostlist};
use pod::{Pod, broker_in_state, code, stderr, stdout};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

/// The lead's run of `config`, which must end well.
fn run(pod: &Pod, config: &AgentConfig) -> String {
    let output = pod.run(config);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    stdout(&output)
}

/// What pod `index` would do.
fn plan(pod: &mut Pod, config: &AgentConfig, index: u32) -> String {
    pod.write_config(config);
    pod.hostname = format!("hello-{index}");
    let output = pod.for_this_pod("plan").output().unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    stdout(&output)
}

const BROKER_CONFIG: &str = "mnt/flux/config/etc/flux/config/broker.toml";

#[test]
fn bug_01_a_bursted_clusters_broker_is_told_the_leads_port_and_all_hosts() {
    let mut pod = Pod::new();
    let mut config = pod.config(&[]);
    config.network.lead_address = None;
    config.network.bootstrap = Bootstrap::Child {
        lead: "203.0.113.7".to_owned(),
        lead_port: 30093,
        hosts: Hostlist::parse("root-[0-1],hello-[0-1]").unwrap(),
    };
    let plan = plan(&mut pod, &config, 0);
    assert!(plan.contains("203.0.113.7:30093"), "{plan}");
    assert!(!plan.contains("%!"), "{plan}");
}

#[test]
fn bug_02_an_argument_with_quotes_and_dollars_arrives_as_it_is() {
    let pod = Pod::new();
    let argument = "a \"b  c\" $HOME `id` 'd'";
    assert_eq!(run(&pod, &pod.config(&["echo", argument])), format!("{argument}\n"));
}

#[test]
fn bug_04_another_mount_path_holds_hostlist_configuration_and_run_directory() {
    let pod = Pod::new();
    let config = pod.config(&["true"]);
    assert_ne!(config.layout, flux_contract::Layout::default(), "this pod has a path of its own");
    run(&pod, &config);
    for file in ["system/hostlist", "system/R", "config/broker.toml"] {
        assert!(pod.at("mnt/flux/config/etc/flux").join(file).is_file(), "{file}");
    }
    let calls = pod.read("flux-calls");
    assert!(!calls.contains(" /mnt/flux") && !calls.contains("=/mnt/flux"), "{calls}");
}

#[test]
fn bug_12_the_key_is_in_no_log_however_much_is_said() {
    let pod = Pod::new();
    let mut config = pod.config(&["true"]);
    config.logging.debug = true;
    let output = pod.run(&config);
    let said = stdout(&output) + &stderr(&output) + &pod.read("dev/termination-log");
    assert!(said.contains("curve.cert"), "{said}");
    for line in pod::certificate().to_text().expose().lines().filter(|it| it.contains("-key")) {
        let key = line.split('"').nth(1).unwrap();
        assert!(!said.contains(key), "{said}");
    }
}

#[test]
fn bug_16_the_helper_that_connects_finds_flux_and_its_socket() {
    let pod = Pod::new();
    run(&pod, &pod.config(&["true"]));
    broker_in_state(&pod.layout().local_socket(), "run");
    let mut connect = pod.entered(pod.layout().connect_helper());
    let output = connect.args(["sh", "-c", "echo $FLUX_URI; command -v flux"]).output().unwrap();
    let flux = pod.layout().client();
    let expected = format!("{}\n{}\n", pod.layout().local_uri(), flux.display());
    assert_eq!(stdout(&output), expected, "{}", stderr(&output));
}

#[test]
fn bug_17_the_code_of_the_command_is_the_code_of_the_pod_also_without_strict() {
    let pod = Pod::new();
    let mut config = pod.config(&["sh", "-c", "exit 3"]);
    config.logging.strict = false;
    config.hooks.post = Some("true".to_owned());
    assert_eq!(code(&pod.run(&config)), 3);
    assert_eq!(pod.message().exit_code, 3);
}

#[test]
fn bug_18_a_view_with_any_python_or_none_starts_strictly() {
    let pod = Pod::new();
    assert!(pod.config(&[]).logging.strict);
    run(&pod, &pod.config(&["true"]));
    fs::create_dir_all(pod.at("mnt/flux/view/lib/python3.9/site-packages")).unwrap();
    run(&pod, &pod.config(&["true"]));
    assert!(pod.read("mnt/flux/flux-view.sh").contains("python3.9/site-packages"));
}

#[test]
fn bug_19_the_brokers_configuration_is_verbatim_and_written_anew() {
    let pod = Pod::new();
    let mut config = pod.config(&["true"]);
    let text = "[exec]\n# $HOME `date` \\$ \"quoted\"\n";
    config.broker.custom_config = Some(text.to_owned());
    run(&pod, &config);
    let helpers = pod.read("mnt/flux/flux-view.sh");
    run(&pod, &config);
    assert_eq!(pod.read(BROKER_CONFIG), text);
    assert_eq!(pod.read("mnt/flux/flux-view.sh"), helpers);
}

#[test]
fn bug_20_the_views_own_python_stays_where_it_is() {
    let pod = Pod::new();
    pod.write_executable("mnt/flux/view/bin/python3", "#!/bin/sh\n");
    pod.write_executable("mnt/flux/view/bin/python3.12", "#!/bin/sh\n");
    fs::create_dir_all(pod.at("mnt/flux/view/lib/python3.12/site-packages")).unwrap();
    run(&pod, &pod.config(&["true"]));
    let mode = fs::metadata(pod.at("mnt/flux/view/bin/python3")).unwrap().permissions().mode();
    assert_eq!(mode & 0o111, 0o111);
    assert!(!pod.at("mnt/flux/view/lib/python3").exists());
}

#[test]
fn bug_21_the_post_hook_of_a_strict_run_follows_a_failed_command() {
    let pod = Pod::new();
    let mut config = pod.config(&["sh", "-c", "exit 3"]);
    config.hooks = Hooks { post: Some("echo post\nexit 1".to_owned()), ..Hooks::default() };
    let output = pod.run(&config);
    assert_eq!((code(&output), stdout(&output).as_str()), (3, "post\n"));
    assert!(pod.message().last_error.unwrap().contains("commands.post"));
}

#[test]
fn bug_24_the_brokers_of_workers_are_wrapped_as_well() {
    let mut pod = Pod::new();
    let mut config = pod.config(&["true"]);
    config.broker.wrap = Some("strace,-e,network".to_owned());
    for index in [0, 1] {
        let plan = plan(&mut pod, &config, index);
        assert!(plan.contains("--wrap=strace,-e,network"), "{index}: {plan}");
    }
}

#[test]
fn doc_13_the_lead_prints_both_times_and_nothing_in_the_image_is_needed_for_it() {
    let pod = Pod::new();
    let mut config = pod.config(&["true"]);
    config.logging.timed = true;
    let said = stderr(&pod.run(&config));
    let lines: Vec<&str> = said.lines().filter(|line| line.starts_with("FLUXTIME")).collect();
    let [submit, start] = lines[..] else { panic!("{said}") };
    assert!(submit.starts_with("FLUXTIME fluxsubmit wall time 0:0"), "{said}");
    assert!(start.starts_with("FLUXTIME fluxstart wall time 0:0"), "{said}");
}

#[test]
fn doc_15_a_quiet_run_says_what_command_and_post_hook_say_and_no_more() {
    let pod = Pod::new();
    let mut config = pod.config(&["echo", "hello"]);
    config.logging.quiet = true;
    config.view.enabled = false;
    config.hooks.pre = Some("echo one\necho two\n".to_owned());
    config.hooks.post = Some("echo results".to_owned());
    let path =
        format!("{}:{}", pod.at("mnt/flux/view/bin").display(), std::env::var("PATH").unwrap());
    let output = pod.prepared(&config).env("PATH", path).output().unwrap();
    assert_eq!((stdout(&output).as_str(), stderr(&output).as_str()), ("hello\nresults\n", ""));
}
