//! Subcommands for people who enter a pod.

use crate::pod::closed_port;
use crate::prelude::*;
use flux_contract::Bootstrap;
use flux_protocol::Hostlist;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;

/// Findings by the name of the check, with what was seen and the remedy.
fn doctor(pod: &Pod) -> (i32, BTreeMap<String, (String, String)>) {
    let ended = pod.ask("doctor", &["--output", "json"]);
    let checks = ended.json();
    let text = |check: &Value, key: &str| check[key].as_str().unwrap_or_default().to_owned();
    let all = checks.as_array().unwrap().iter().map(|check| {
        let details = format!("{} {}", text(check, "seen"), text(check, "remedy"));
        (text(check, "name"), (text(check, "finding"), details))
    });
    (ended.code, all.collect())
}

#[test]
fn the_doctor_has_a_remedy_for_every_problem() {
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
        ("agent", "no agent runs here"),
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
fn the_doctor_of_a_sidecar_skips_checks_of_the_runner() {
    let pod = Pod::new();
    pod.write_config(&pod.config(&["true"]));
    fs::remove_dir_all(pod.at("flux_operator/curve")).unwrap();
    let (_, checks) = doctor(&pod);
    for name in ["certificate", "agent", "lead"] {
        let (finding, text) = &checks[name];
        assert_eq!(finding, "skipped", "{name}: {text}");
        assert!(text.contains("container that runs Flux"), "{name}: {text}");
    }
    assert_eq!(pod.ask("doctor", &[]).log, "", "what is wrong stands in the table");
}

#[test]
fn the_doctor_of_a_waiting_lead_reports_the_quorum() {
    let (pod, mut config) = Pod::with(&["true"]);
    config.network.port = closed_port();
    broker_in_state(pod.layout().local_socket(), "quorum");
    pod.broker_does("while [ ! -e $POD/done ]; do sleep 0.02; done; exit 0");
    let run = pod.start(&config);
    await_that("the agent answers", || pod.ask("status", &[]).code == 0);
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

/// The doctor's check of Python, with a running broker and modules for Python 3.11 in the view.
fn found_of_python(pod: &Pod) -> (String, String) {
    found_alone(pod).remove("python").unwrap()
}

/// What the doctor of an instance of one broker finds, which looks for no lead.
fn found_alone(pod: &Pod) -> BTreeMap<String, (String, String)> {
    let mut config = pod.config(&["true"]);
    config.cluster.size = 1;
    config.network.bootstrap = Bootstrap::Root { hosts: Hostlist::of_range("hello", 0..1) };
    pod.write_config(&config);
    broker_in_state(pod.layout().local_socket(), "run");
    fs::create_dir_all(pod.at("mnt/flux/view/lib/python3.11/site-packages")).unwrap();
    doctor(pod).1
}

#[test]
fn the_doctor_imports_flux_with_the_images_python() {
    let pod = Pod::new();
    let (finding, text) = found_of_python(&pod);
    assert_eq!(finding, "skipped", "{text}");
    assert!(text.contains("no python3 of its own"), "{text}");
    // The view's is not the image's.
    pod.write_executable("mnt/flux/view/bin/python3", "#!/bin/sh\nexit 9\n");
    assert_eq!(found_of_python(&pod).0, "skipped");

    let script =
        "#!/bin/sh\necho 3.13.5\necho \"$PYTHONPATH\" > $POD/python-path\npwd > $POD/directory\n";
    pod.write_executable("usr/bin/python3", script);
    let (finding, text) = found_of_python(&pod);
    assert_eq!(finding, "ok", "{text}");
    assert!(text.contains("/usr/bin/python3 (3.13.5) imports flux.job"), "{text}");
    let modules = pod.at("mnt/flux/view/lib/python3.11/site-packages");
    assert_eq!(Path::new(pod.read("python-path").trim()), modules);
    assert_eq!(pod.read("directory"), "/\n");

    for (error, remedy) in [
        ("ModuleNotFoundError: No module named '_cffi_backend'", "pip install cffi pyyaml ply"),
        ("ModuleNotFoundError: No module named 'ply.lex'", "pip install cffi pyyaml ply"),
        ("ModuleNotFoundError: No module named 'flux'", "PYTHONPATH"),
        ("ImportError: libc.so.6: version 'GLIBC_2.38' not found", "C library"),
    ] {
        let script = format!("#!/bin/sh\necho 3.13.5\necho \"{error}\"\n");
        pod.write_executable("usr/bin/python3", &script);
        let (finding, text) = found_of_python(&pod);
        assert_eq!(finding, "warning", "{text}");
        for part in [error, "(3.13.5)", "for python3.11", remedy] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}

#[test]
fn the_doctor_does_not_wait_for_programs_that_hang() {
    let pod = Pod::new();
    for program in ["mnt/flux/view/bin/flux", "usr/bin/python3"] {
        pod.write_executable(program, "#!/bin/sh\nexec sleep 600\n");
    }
    let mut found = found_alone(&pod);
    let (finding, text) = found.remove("python").unwrap();
    assert!(finding == "warning" && text.contains("no end after 10 s"), "{finding}: {text}");
    let (finding, text) = found.remove("view").unwrap();
    assert!(finding == "failed" && text.contains("version: no end after 5 s"), "{finding}: {text}");
}

/// Flux's user may have changed the image's Python.
#[test]
fn the_doctor_of_root_starts_python_as_the_brokers_user() {
    let Some(pod) = Pod::of_root() else { return };
    pod.write_executable("usr/bin/python3", "#!/bin/sh\necho 3.11.2\nid -u > $POD/user\n");
    pod.write_config(&pod.config(&["true"]));
    fs::create_dir_all(pod.at("mnt/flux/view/lib/python3.11/site-packages")).unwrap();
    assert_eq!(doctor(&pod).1["python"].0, "skipped", "there is no broker");
    broker_in_state(pod.layout().local_socket(), "run");
    chown(pod.layout().local_socket(), Some(4321), Some(4321)).unwrap();
    let (finding, text) = doctor(&pod).1.remove("python").unwrap();
    assert_eq!(finding, "ok", "{text}");
    assert_eq!(pod.read("user"), "4321\n");
}

#[test]
fn connect_runs_a_command_and_returns_its_code() {
    let pod = Pod::new();
    pod.write_config(&pod.config(&["true"]));
    broker_in_state(pod.layout().local_socket(), "run");
    let script = "echo $FLUX_URI $fluxsocket; command -v flux; exit 4";
    let (uri, flux) = (pod.layout().local_uri(), pod.at("mnt/flux/view/bin/flux"));
    let expected = format!("{uri} {uri}\n{}\n", flux.display());
    pod.ask("connect", &["--", "sh", "-c", script]).with_code(4).with_output(&expected);
    // Without any shell.
    fs::remove_file(pod.at("bin/sh")).unwrap();
    let says = "neither the image nor the view has a shell";
    pod.ask("connect", &[]).with_code(127).with_log(says);
    pod.ask("connect", &["--", "echo", "a"]).with_output("a\n");
}

#[test]
fn root_connects_as_the_brokers_user() {
    let Some(pod) = Pod::of_root() else { return };
    pod.write_config(&pod.config(&["true"]));
    let connect = |uid: u32| {
        socket_of(pod.layout().local_socket(), uid);
        let script = "echo $(id -u):$(id -g) ${USER:-nobody} $HOME";
        pod.ask("connect", &["--", "sh", "-c", script]).with_code(0).output
    };
    fs::write(pod.at("etc/passwd"), "flux:x:1234:1234::/home/flux:/bin/sh\n").unwrap();
    assert_eq!(connect(1234), "1234:1234 flux /home/flux\n");
    // As in a sidecar whose image does not know the user.
    let home = pod.layout().home();
    assert_eq!(connect(4321), format!("4321:4321 nobody {home}\n"));
    assert_eq!(connect(0).split(' ').next(), Some("0:0"));
}

/// Makes the broker's socket at `path`, of user and group `owner`.
fn socket_of(path: impl AsRef<Path>, owner: u32) {
    let path = path.as_ref();
    broker_in_state(path, "run");
    chown(path, Some(owner), Some(owner)).unwrap();
}

/// Makes the home of Flux's user, 4321, whose broker is up.
fn home_of_flux(pod: &Pod) -> PathBuf {
    let home = pod.layout().home();
    fs::create_dir_all(&home).unwrap();
    chown(&home, Some(4321), Some(4321)).unwrap();
    socket_of(pod.layout().local_socket(), 4321);
    home.into()
}

/// A `flux` that prints its arguments, user and directory.
const FLUX_THAT_TELLS: &str = r#"#!/bin/sh
echo "$# $* uri=$FLUX_URI user=$(id -u) home=$HOME directory=$(pwd)"
exit 3
"#;

/// The output of that `flux`, called by the client's name. Nothing else may be printed, as a script may read it.
fn printed(command: &mut Command) -> String {
    let ended = Ended::of(command).with_code(3);
    assert_eq!(ended.log, "");
    ended.output
}

#[test]
fn the_client_is_the_views_flux_connected_to_its_broker() {
    let pod = Pod::new();
    pod.write_executable("mnt/flux/view/bin/flux", FLUX_THAT_TELLS);
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
    broker_in_state(pod.layout().local_socket(), "run");
    assert_eq!(printed(&mut client()), line(&pod.layout().local_uri()));
    // As in the instance of a batch job.
    assert_eq!(printed(client().env("FLUX_URI", "local:///job")), line("local:///job"));
    for path in ["flux_operator/config/agent.toml", "mnt/flux/view/bin/flux"] {
        fs::remove_file(pod.at(path)).unwrap();
    }
    let mut unknown = Command::new(pod.layout().client());
    Ended::of(unknown.env_clear().env("PATH", "/nowhere")).with_code(127);
}

#[test]
fn the_client_of_root_becomes_the_brokers_user() {
    let Some(pod) = Pod::of_root() else { return };
    pod.write_executable("mnt/flux/view/bin/flux", FLUX_THAT_TELLS);
    let (uri, home, work) = (pod.layout().local_uri(), home_of_flux(&pod), pod.at("work"));
    let client = || pod.entered(pod.layout().client());
    let line = |uri: &str, user: u32, directory: &Path| {
        let (home, directory) = (home.display(), directory.display());
        format!("0  uri={uri} user={user} home={home} directory={directory}\n")
    };
    assert_eq!(printed(&mut client()), line(&uri, 4321, &work), "others may read it");
    assert_eq!(printed(client().current_dir("/")), line(&uri, 4321, &home));
    fs::set_permissions(&work, Permissions::from_mode(0o700)).unwrap();
    assert_eq!(printed(&mut client()), line(&uri, 4321, &home));
    // Another instance, as `flux proxy` opens one.
    let other = pod.at("tmp/other");
    socket_of(&other, 5432);
    let nested = format!("local://{}", other.display());
    let output = printed(client().env("FLUX_URI", &nested).current_dir("/tmp"));
    assert_eq!(output, line(&nested, 5432, Path::new("/tmp")));
    // Flux's user, in a job: nothing is to be done.
    let output = printed(client().uid(4321).env("FLUX_URI", "x").current_dir("/"));
    assert_eq!(output, "0  uri=x user=4321 home= directory=/\n");
}

#[test]
fn without_a_view_the_client_is_the_images_flux() {
    let pod = Pod::new();
    pod.write_executable("bin/flux", FLUX_THAT_TELLS);
    let mut command = pod.entered(pod.layout().client());
    let mut config = pod.config(&["true"]);
    config.view.enabled = false;
    pod.write_config(&config);
    let path = [pod.layout().bin_dir().into(), pod.at("bin"), "/bin".into(), "/usr/bin".into()];
    command.env("PATH", std::env::join_paths(path).unwrap());
    assert!(printed(&mut command).starts_with("0  uri= "));
}

fn shells() -> impl Iterator<Item = &'static str> {
    ["/bin/sh", "/bin/bash"].into_iter().filter(|path| Path::new(path).exists())
}

#[test]
fn a_shell_with_the_helper_finds_the_client_first() {
    let pod = Pod::new();
    pod.run(&pod.config(&["true"])).with_code(0);
    let (helper, uri) = (pod.layout().view_helper(), pod.layout().local_uri());
    let (bin, view) = (pod.layout().bin_dir(), pod.at("mnt/flux/view/bin"));
    let paths = format!("{}:/usr/bin:/bin:{}", bin, view.display());
    let client = pod.layout().client();
    for shell in shells() {
        let twice =
            format!("set -eu; . {helper}; . {helper} && command -v flux; echo $FLUX_URI $PATH");
        for (given, expected) in [(None, uri.as_str()), (Some("x"), "x")] {
            let mut command = pod.entered(shell);
            command.args(["-c", &twice]).envs(given.map(|uri| ("FLUX_URI", uri)));
            let expected = format!("{client}\n{expected} {paths}\n");
            Ended::of(&mut command).with_code(0).with_output(&expected);
        }
        let changes = Ended::of(pod.entered(pod.layout().agent()).arg("env")).output;
        let script = format!("{changes}\necho $FLUX_URI $fluxsocket $PATH");
        let ended = Ended::of(pod.entered(shell).args(["-c", &script]));
        ended.with_output(&format!("{uri} {uri} {paths}\n"));
    }
}

#[test]
fn a_connected_shell_starts_where_its_user_can_write() {
    let Some(pod) = Pod::of_root() else { return };
    pod.write_config(&pod.config(&["true"]));
    let home = home_of_flux(&pod);
    let mut shell = pod.for_this_pod("connect");
    shell.stdin(Stdio::piped());
    let mut shell = Background::start(shell);
    std::io::Write::write_all(&mut shell.0.stdin.take().unwrap(), b"pwd\n").unwrap();
    shell.end().with_output(&format!("{}\n", home.display()));
    // A command may name files relative to where it was called.
    let expected = format!("{}\n", pod.at("work").display());
    pod.ask("connect", &["--", "pwd"]).with_output(&expected);
}

#[test]
fn the_connect_helper_runs_a_command_or_a_shell() {
    let pod = Pod::new();
    pod.run(&pod.config(&["true"])).with_code(0);
    broker_in_state(pod.layout().local_socket(), "run");
    let (file, uri) = (pod.layout().connect_helper(), pod.layout().local_uri());
    for (script, expected) in [
        // A shell reads its commands from standard input.
        ("set -u; echo 'echo $FLUX_URI; exit 3' | FILE; echo $?", format!("{uri}\n3\n")),
        ("set -u; echo 'echo $FLUX_URI; exit 3' | (. FILE; echo $?)", format!("{uri}\n3\n")),
        ("FILE sh -c 'echo \"$1\"; exit 4' sh 'a  b'; echo $?", "a  b\n4\n".to_owned()),
        ("set -- sh -c 'exit 5'; . FILE; echo $?", "5\n".to_owned()),
    ] {
        let script = script.replace("FILE", &file);
        for shell in shells() {
            Ended::of(pod.entered(shell).args(["-c", &script])).with_output(&expected);
        }
    }
}

/// A `flux` that loads and removes schedulers.
const FLUX_WITH_MODULES: &str = include_str!("pod/flux_with_modules.sh");

const SIMPLE: &str = "sched-simple 0 R 0 0 feasibility,sched\n";
const OTHER: &str = "kvs 1 R 0 0\nsched-backfill 3 R 0 0 sched,feasibility\n";
const RESOURCE: &str = "sched-fluxion-resource 0 R 0 0\n";
/// Of an older Fluxion, which has no third module.
const OLDER: &str = "sched-fluxion-resource 0 R 0 0\nsched-fluxion-qmanager 0 R 0 0 sched\n";
const FLUXION: &str = "sched-fluxion-resource 0 R 0 0\nsched-fluxion-qmanager 0 R 0 0 sched\n\
                       sched-fluxion-feasibility 0 R 0 0 feasibility\n";

#[test]
fn fluxion_replaces_the_scheduler_if_it_can_be_loaded() {
    let with_resource = format!("{SIMPLE}{RESOURCE}");
    let with_other = format!("kvs 1 R 0 0\n{FLUXION}");
    let loaded = "Fluxion is the scheduler now";
    let already = "load-fluxion.sh: Fluxion is the scheduler already";
    let no_resource = "sched-fluxion-resource: module not found";
    let no_manager = "sched-fluxion-qmanager: module not found";
    // The rank, the running jobs, the modules of the view, the loaded ones before and after, a message, and the exit code.
    let cases = [
        ("0", "", FLUXION, SIMPLE, FLUXION, loaded, 0),
        ("0", "", FLUXION, OTHER, with_other.as_str(), loaded, 0),
        ("0", "", FLUXION, "", FLUXION, loaded, 0),
        ("0", "", OLDER, SIMPLE, OLDER, "going on without", 0),
        ("0", "", FLUXION, FLUXION, FLUXION, already, 0),
        ("1", "", FLUXION, SIMPLE, SIMPLE, "this is rank 1: run it in the lead", 1),
        ("0", "{\"id\":7}\n", FLUXION, SIMPLE, SIMPLE, "jobs are running", 1),
        ("0", "", SIMPLE, SIMPLE, SIMPLE, "sched-simple stays", 1),
        ("0", "", SIMPLE, SIMPLE, SIMPLE, no_resource, 1),
        ("0", "", with_resource.as_str(), SIMPLE, SIMPLE, no_manager, 1),
    ];
    let pod = Pod::new();
    pod.run(&pod.config(&["true"])).with_code(0);
    pod.write_executable("mnt/flux/view/bin/flux", FLUX_WITH_MODULES);
    let file = pod.layout().fluxion_helper();
    for (shell, how) in shells().flat_map(|shell| [".", shell].map(|how| (shell, how))) {
        for (rank, jobs, view, before, after, message, code) in cases {
            for (file, text) in
                [("rank", rank), ("jobs", jobs), ("view", view), ("modules", before)]
            {
                fs::write(pod.at(file), text).unwrap();
            }
            let script = format!("set -u; {how} {file}; echo $?");
            let ended = Ended::of(pod.entered(shell).args(["-c", &script]));
            assert!((ended.output.clone() + &ended.log).contains(message), "{ended:?}");
            assert!(ended.output.ends_with(&format!("{code}\n")), "{ended:?}");
            assert_eq!(pod.read("modules"), after, "{ended:?}");
        }
    }
}
