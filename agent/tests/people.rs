//! Subcommands for people who enter a pod, on the real binary.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod pod;

use flux_contract::Exit;
use pod::broker::broker_in_state;
use pod::{Background, Pod, await_that, closed_port, code, stderr, stdout};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;

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
    let pod = Pod::called("stranger");
    let mut config = pod.config(&["true"]);
    config.network.port = closed_port();
    pod.write_config(&config);
    fs::remove_file(pod.at("mnt/flux/view/bin/flux")).unwrap();
    fs::write(pod.at("flux_operator/curve/curve.cert"), "no certificate").unwrap();
    let (code, checks) = doctor(&pod);
    assert_eq!(code, 1);
    for (name, printed) in [
        ("host", "setHostnameAsFQDN"),
        ("view", "flux.container.image"),
        ("certificate", "flux.curveCert"),
        ("directories", "config/run/flux"),
        ("agent", "status.sock"),
    ] {
        let (finding, text) = &checks[name];
        assert_eq!(finding, "failed", "{name}: {text}");
        assert!(text.contains(printed), "{name}: {text}");
    }
    fs::remove_file(pod.at("flux_operator/config/agent.toml")).unwrap();
    let (code, checks) = doctor(&pod);
    assert_eq!((code, checks.len()), (1, 1), "nothing else can be checked: {checks:?}");
    assert!(checks["configuration"].1.contains("agent.toml"));
}

/// The certificate is mounted in the container that runs Flux, and in no other.
#[test]
fn the_doctor_beside_the_runner_looks_for_nothing_that_is_not_there_by_design() {
    let pod = Pod::new();
    pod.write_config(&pod.config(&["true"]));
    fs::remove_dir_all(pod.at("flux_operator/curve")).unwrap();
    let (_, checks) = doctor(&pod);
    for name in ["certificate", "agent", "lead"] {
        let (finding, text) = &checks[name];
        assert!(
            finding == "skipped" && text.contains("container that runs Flux"),
            "{name}: {text}"
        );
    }
    let output = pod.for_this_pod("doctor").output().unwrap();
    assert_eq!(stderr(&output), "", "what is wrong stands in the table");
}

#[test]
fn the_doctor_does_not_wait_for_a_flux_that_hangs() {
    let pod = Pod::called("stranger");
    pod.write_config(&pod.config(&["true"]));
    pod.write_executable("mnt/flux/view/bin/flux", "#!/bin/sh\nexec sleep 600\n");
    let (code, checks) = doctor(&pod);
    let (finding, text) = &checks["view"];
    assert_eq!((code, finding.as_str()), (1, "failed"), "{text}");
    assert!(text.contains("version: no end after 5 s"), "{text}");
}

#[test]
fn the_doctor_of_a_lead_that_waits_finds_all_well_but_the_quorum() {
    let pod = Pod::new();
    let mut config = pod.config(&["true"]);
    config.network.port = closed_port();
    broker_in_state(&pod.layout().local_socket(), "quorum");
    pod.broker_does("while [ ! -e $POD/done ]; do sleep 0.02; done; exit 0");
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
fn root_who_connects_becomes_the_brokers_user_with_its_name_and_home() {
    let Some(pod) = Pod::of_root() else { return };
    pod.write_config(&pod.config(&["true"]));
    broker_in_state(&pod.layout().local_socket(), "run");
    let connect = |uid: u32| {
        std::os::unix::fs::chown(pod.layout().local_socket(), Some(uid), Some(uid)).unwrap();
        let words = ["--", "sh", "-c", "echo $(id -u):$(id -g) ${USER:-nobody} $HOME"];
        let output = pod.for_this_pod("connect").args(words).output().unwrap();
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        stdout(&output)
    };
    fs::write(pod.at("etc/passwd"), "flux:x:1234:1234::/home/flux:/bin/sh\n").unwrap();
    assert_eq!(connect(1234), "1234:1234 flux /home/flux\n");
    // As in a sidecar whose image does not know the user.
    let home = pod.layout().home();
    assert_eq!(connect(4321), format!("4321:4321 nobody {}\n", home.display()));
    assert_eq!(connect(0).split(' ').next(), Some("0:0"));
}

/// A `flux` that says what it was called with, and how it got there.
const FLUX_THAT_TELLS: &str = r#"#!/bin/sh
echo "$# $* uri=$FLUX_URI user=$(id -u) home=$HOME directory=$(pwd)"
exit 3
"#;

/// A pod that somebody has entered, with such a Flux.
fn entered_pod() -> Pod {
    let pod = Pod::new();
    pod.write_executable("mnt/flux/view/bin/flux", FLUX_THAT_TELLS);
    pod
}

/// Makes the broker's socket at `path`, of user and group `owner`.
fn socket_of(path: &std::path::Path, owner: u32) {
    broker_in_state(path, "run");
    std::os::unix::fs::chown(path, Some(owner), Some(owner)).unwrap();
}

/// What such a Flux says, called by the client's name.
fn printed(command: &mut std::process::Command) -> String {
    let output = command.output().unwrap();
    assert_eq!(code(&output), 3, "{}", stderr(&output));
    assert_eq!(stderr(&output), "", "a script may read it");
    stdout(&output)
}

#[test]
fn the_client_is_the_views_flux_and_once_there_is_a_broker_connected_to_it() {
    let pod = entered_pod();
    let client = || {
        let mut command = pod.entered(pod.layout().client());
        command.args(["jobs", "-a", "b  c"]).env("HOME", "/h");
        command
    };
    let (own, work) = (nix::unistd::getuid(), pod.at("work"));
    let line = |uri: &str| {
        format!("3 jobs -a b  c uri={uri} user={own} home=/h directory={}\n", work.display())
    };
    assert_eq!(printed(&mut client()), line(""));
    broker_in_state(&pod.layout().local_socket(), "run");
    assert_eq!(printed(&mut client()), line(&pod.layout().local_uri()));
    // As in the instance of a batch job.
    assert_eq!(printed(client().env("FLUX_URI", "local:///job")), line("local:///job"));
    for path in ["flux_operator/config/agent.toml", "mnt/flux/view/bin/flux"] {
        fs::remove_file(pod.at(path)).unwrap();
    }
    let mut unknown = std::process::Command::new(pod.layout().client());
    let output = unknown.env_clear().env("PATH", "/nowhere").output().unwrap();
    assert_eq!(code(&output), 127, "{}", stderr(&output));
}

#[test]
fn root_becomes_the_user_of_the_broker_that_is_meant_and_goes_home_from_the_root_directory() {
    let Some(pod) = Pod::of_root() else { return };
    pod.write_executable("mnt/flux/view/bin/flux", FLUX_THAT_TELLS);
    let (uri, home) = (pod.layout().local_uri(), pod.layout().home());
    let client = || pod.entered(pod.layout().client());
    fs::create_dir_all(&home).unwrap();
    std::os::unix::fs::chown(&home, Some(4321), Some(4321)).unwrap();
    socket_of(&pod.layout().local_socket(), 4321);
    let line = |uri: &str, user: u32, directory: &std::path::Path| {
        let (home, directory) = (home.display(), directory.display());
        format!("0  uri={uri} user={user} home={home} directory={directory}\n")
    };
    let work = pod.at("work");
    assert_eq!(printed(&mut client()), line(&uri, 4321, &work), "others may read it");
    assert_eq!(printed(client().current_dir("/")), line(&uri, 4321, &home));
    fs::set_permissions(&work, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    assert_eq!(printed(&mut client()), line(&uri, 4321, &home));
    // Another instance, as `flux proxy` opens one.
    let other = pod.at("tmp/other");
    socket_of(&other, 5432);
    let nested = format!("local://{}", other.display());
    assert_eq!(
        printed(client().env("FLUX_URI", &nested).current_dir("/tmp")),
        line(&nested, 5432, "/tmp".as_ref())
    );
    // Flux's user, in a job: nothing is to be done.
    let job = std::os::unix::process::CommandExt::uid(&mut client(), 4321)
        .env("FLUX_URI", "x")
        .current_dir("/")
        .output();
    assert_eq!(stdout(&job.unwrap()), "0  uri=x user=4321 home= directory=/\n");
}

#[test]
fn without_a_view_the_client_is_the_images_flux_and_not_itself() {
    let pod = entered_pod();
    pod.write_executable("bin/flux", FLUX_THAT_TELLS);
    let mut command = pod.entered(pod.layout().client());
    let mut config = pod.config(&["true"]);
    config.view.enabled = false;
    pod.write_config(&config);
    let path = [pod.layout().bin_dir(), pod.at("bin"), "/bin".into(), "/usr/bin".into()];
    command.env("PATH", std::env::join_paths(path).unwrap());
    assert!(printed(&mut command).starts_with("0  uri= "));
}

#[test]
fn a_shell_that_sources_the_helper_finds_the_client_first_and_keeps_the_instance_it_is_in() {
    let pod = Pod::new();
    assert_eq!(code(&pod.run(&pod.config(&["true"]))), 0);
    let (helper, uri) = (pod.layout().view_helper(), pod.layout().local_uri());
    for shell in ["/bin/sh", "/bin/bash"].into_iter().filter(|path| fs::exists(path).unwrap()) {
        let twice = format!(
            "set -eu; . {0}; . {0} && command -v flux; echo $FLUX_URI $PATH",
            helper.display()
        );
        let said = |uri: Option<&str>| {
            let mut command = pod.entered(shell);
            command.args(["-c", &twice]).envs(uri.map(|uri| ("FLUX_URI", uri)));
            let output = command.output().unwrap();
            assert_eq!(code(&output), 0, "{}", stderr(&output));
            stdout(&output)
        };
        let (bin, view) = (pod.layout().bin_dir(), pod.at("mnt/flux/view/bin"));
        let paths = format!("{}:/usr/bin:/bin:{}", bin.display(), view.display());
        let client = pod.layout().client();
        assert_eq!(said(None), format!("{}\n{uri} {paths}\n", client.display()));
        assert_eq!(said(Some("x")), format!("{}\nx {paths}\n", client.display()));
        let changes = stdout(&pod.entered(pod.layout().agent()).arg("env").output().unwrap());
        let script = format!("{changes}\necho $FLUX_URI $fluxsocket $PATH");
        let output = pod.entered(shell).args(["-c", &script]).output().unwrap();
        assert_eq!(stdout(&output), format!("{uri} {uri} {paths}\n"), "{}", stderr(&output));
    }
}

#[test]
fn a_connected_shell_starts_where_its_user_can_write() {
    let Some(pod) = Pod::of_root() else { return };
    pod.write_config(&pod.config(&["true"]));
    let home = pod.layout().home();
    fs::create_dir_all(&home).unwrap();
    std::os::unix::fs::chown(&home, Some(4321), Some(4321)).unwrap();
    socket_of(&pod.layout().local_socket(), 4321);
    let mut shell = pod.for_this_pod("connect");
    let output = pod::with_input(&mut shell, "pwd\n");
    assert_eq!(stdout(&output), format!("{}\n", home.display()), "{}", stderr(&output));
    // A command may name files relative to where it was called.
    let output = pod.for_this_pod("connect").args(["--", "pwd"]).output().unwrap();
    assert_eq!(stdout(&output), format!("{}\n", pod.at("work").display()));
}

#[test]
fn the_helper_that_connects_runs_a_command_or_a_shell_sourced_and_run() {
    let pod = Pod::new();
    assert_eq!(code(&pod.run(&pod.config(&["true"]))), 0);
    broker_in_state(&pod.layout().local_socket(), "run");
    let (file, uri) = (pod.layout().connect_helper(), pod.layout().local_uri());
    let said = |shell: &str, script: &str| {
        let output = pod.entered(shell).args(["-c", script]).output().unwrap();
        (stdout(&output), stderr(&output))
    };
    for shell in ["/bin/sh", "/bin/bash"].into_iter().filter(|path| fs::exists(path).unwrap()) {
        for (script, expected) in [
            // A shell reads its commands from standard input.
            ("set -u; echo 'echo $FLUX_URI; exit 3' | FILE; echo $?", format!("{uri}\n3\n")),
            ("set -u; echo 'echo $FLUX_URI; exit 3' | (. FILE; echo $?)", format!("{uri}\n3\n")),
            ("FILE sh -c 'echo \"$1\"; exit 4' sh 'a  b'; echo $?", "a  b\n4\n".to_owned()),
            ("set -- sh -c 'exit 5'; . FILE; echo $?", "5\n".to_owned()),
        ] {
            let script = script.replace("FILE", &file.display().to_string());
            let (output, error) = said(shell, &script);
            assert_eq!(output, expected, "{shell}: {script}: {error}");
        }
    }
}

/// A `flux` that keeps a list of modules: `$POD/modules` are loaded, `$POD/view` can be. Like the real
/// one, it ends when two schedulers want the resources.
const FLUX_WITH_MODULES: &str = r#"#!/bin/sh
[ "$FLUX_URI" ] || exit 64
[ "$1" = getattr ] && cat "$POD/rank" && exit
[ "$1 $2" = "job list" ] && cat "$POD/jobs" && exit
case "$2" in
list) echo "Module Idle S Sendq Recvq Service"; cat "$POD/modules" ;;
remove)
    [ "$3" = -f ] && shift
    sed "/^$3 /!d" "$POD/modules" | grep -q . || [ "$2" = -f ] || exit 1
    sed -i "/^$3 /d" "$POD/modules" ;;
load)
    line=$(grep "^$3 " "$POD/view") || { echo "$3: module not found" >&2; exit 1; }
    if [ "$3" = sched-fluxion-resource ] && grep -q 'sched$' "$POD/modules"; then
        echo "the broker ends" >> "$POD/modules"
    fi
    echo "$line" >> "$POD/modules" ;;
esac
"#;

const SIMPLE: &str = "sched-simple 0 R 0 0 feasibility,sched\n";
const OTHER: &str = "kvs 1 R 0 0\nsched-backfill 3 R 0 0 sched,feasibility\n";
const RESOURCE: &str = "sched-fluxion-resource 0 R 0 0\n";
/// Of an older Fluxion, which has no third module.
const OLDER: &str = "sched-fluxion-resource 0 R 0 0\nsched-fluxion-qmanager 0 R 0 0 sched\n";
const FLUXION: &str = "sched-fluxion-resource 0 R 0 0\nsched-fluxion-qmanager 0 R 0 0 sched\n\
                       sched-fluxion-feasibility 0 R 0 0 feasibility\n";

/// Rank, jobs that are running, the modules that can be loaded and those that are; then the modules in the end,
/// what the helper says and the code that it ends with.
type FluxionCase<'case> = ([&'case str; 4], &'case str, &'case str, u8);

#[test]
fn fluxion_takes_the_place_of_whichever_scheduler_there_is_where_it_can() {
    let (with_resource, with_other) =
        (format!("{SIMPLE}{RESOURCE}"), format!("kvs 1 R 0 0\n{FLUXION}"));
    let (now, no_module) = ("Fluxion is the scheduler now", ": module not found");
    let cases: [FluxionCase; 10] = [
        (["0", "", FLUXION, SIMPLE], FLUXION, now, 0),
        (["0", "", FLUXION, OTHER], &with_other, now, 0),
        (["0", "", FLUXION, ""], FLUXION, now, 0),
        (["0", "", OLDER, SIMPLE], OLDER, "going on without", 0),
        (
            ["0", "", FLUXION, FLUXION],
            FLUXION,
            "load-fluxion.sh: Fluxion is the scheduler already",
            0,
        ),
        (["1", "", FLUXION, SIMPLE], SIMPLE, "this is rank 1: run it in the lead", 1),
        (["0", "{\"id\":7}\n", FLUXION, SIMPLE], SIMPLE, "jobs are running", 1),
        (["0", "", SIMPLE, SIMPLE], SIMPLE, "sched-simple stays", 1),
        (["0", "", SIMPLE, SIMPLE], SIMPLE, &format!("sched-fluxion-resource{no_module}"), 1),
        (
            ["0", "", &with_resource, SIMPLE],
            SIMPLE,
            &format!("sched-fluxion-qmanager{no_module}"),
            1,
        ),
    ];
    let pod = Pod::new();
    assert_eq!(code(&pod.run(&pod.config(&["true"]))), 0);
    pod.write_executable("mnt/flux/view/bin/flux", FLUX_WITH_MODULES);
    let shells = ["/bin/sh", "/bin/bash"].into_iter().filter(|path| fs::exists(path).unwrap());
    for (shell, how) in shells.flat_map(|shell| [".", shell].map(|how| (shell, how))) {
        for ([rank, jobs, view, loaded], modules, says, code) in cases {
            for (file, text) in
                [("rank", rank), ("jobs", jobs), ("view", view), ("modules", loaded)]
            {
                fs::write(pod.at(file), text).unwrap();
            }
            let script =
                format!("set -u; {how} {}; echo $?", pod.layout().fluxion_helper().display());
            let output = pod.entered(shell).args(["-c", &script]).output().unwrap();
            let said = stdout(&output) + &stderr(&output);
            assert!(
                said.contains(says) && stdout(&output).ends_with(&format!("{code}\n")),
                "{said}"
            );
            assert_eq!(pod.read("modules"), modules, "{said}");
        }
    }
}
