//! Whole runs: hooks, files, users and exit codes.

use crate::prelude::*;
use crate::settings::words;
use flux_contract::{FluxUser, Hooks, Submission};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use std::collections::BTreeSet;

#[test]
fn the_lead_passes_on_output_and_code_of_the_command() {
    let pod = Pod::new();
    let argument = "a \"b  c\" $HOME `id` 'd'";
    let config = pod.config(&["sh", "-c", "echo \"$1\"; exit 7", "sh", argument]);
    pod.run(&config).with_code(7).with_output(&format!("{argument}\n"));
    let message = pod.message();
    assert_eq!((message.exit_code, message.command_ran, message.signal), (7, true, None));
    let phases: Vec<&str> = message.phases.iter().map(|phase| phase.name.as_str()).collect();
    assert_eq!(phases, ["prepare", "quorum", "command", "shutdown", "post"]);
}

#[test]
fn files_are_where_users_and_flux_look_for_them() {
    let pod = Pod::new();
    pod.run(&pod.config(&["true"])).with_code(0);
    let flux = "mnt/flux/config/etc/flux";
    assert_eq!(pod.read(format!("{flux}/system/hostlist")), "hello-[0-1]\n");
    let resources = pod.read(format!("{flux}/system/R"));
    assert!(resources.contains(r#""nodelist":["hello-[0-1]"]"#), "{resources}");
    let broker_config = pod.read(format!("{flux}/config/broker.toml"));
    assert!(broker_config.contains("connect = \"tcp://127.0.0.1:8051\""), "{broker_config}");
    let certificate = "flux_operator/private/curve/curve.cert";
    assert_eq!(pod.mode(certificate), 0o600);
    assert_eq!(pod.read(certificate), pod.read("flux_operator/curve/curve.cert"));
    // Where a configuration that was written for the Go operator looks for it.
    let link = fs::read_link(pod.at("mnt/flux/config/curve/curve.cert")).unwrap();
    assert_eq!(link, pod.at(certificate));
    assert_eq!(pod.mode("mnt/flux/flux-view.sh"), 0o644);
    assert_eq!(pod.mode("mnt/flux/flux-connect.sh"), 0o755);
    assert!(pod.at("mnt/flux/flux-operator-complete.txt").exists());
    assert!(pod.at("mnt/flux/config/run/flux").is_dir());
    let calls = pod.read("flux-calls");
    assert!(!calls.contains(" /mnt/flux") && !calls.contains("=/mnt/flux"), "{calls}");
}

#[test]
fn later_hooks_and_the_broker_inherit_from_a_hook() {
    let (pod, mut config) = Pod::with(&["sh", "-c", "echo \"$FROM_INIT $FROM_PRE\"; pwd"]);
    let script = |text: &str| Some(text.to_owned());
    config.hooks = Hooks {
        init: script(
            "export FROM_INIT='a  b'\nunset UNWANTED\nset -e\nexit 0\nexport FROM_INIT=late",
        ),
        pre: script("mkdir $POD/new; cd $POD/new\nexport FROM_PRE=\"$FROM_INIT!\"\nlocal_only=1"),
        broker_pre: script("[ \"$PWD\" = \"$(pwd)\" ] && export FROM_PRE=\"$FROM_PRE?\""),
        worker_pre: script("exit 1"),
        ..Hooks::default()
    };
    let expected = format!("a  b a  b!?\n{}\n", pod.at("new").display());
    Ended::of(pod.prepared(&config).env("UNWANTED", "1")).with_output(&expected);
    let environment = pod.read("broker-environment");
    assert!(!environment.contains("UNWANTED") && !environment.contains("local_only"));
    assert!(!environment.lines().any(|line| line.starts_with("FLUX_URI=")), "{environment}");
}

#[test]
fn limits_of_hooks_hold_for_all_but_the_agent() {
    let pod = Pod::new();
    let shown = "ulimit -Sn; ulimit -Hn; ulimit -Sc; ulimit -Ss; umask";
    pod.broker_does(&format!("({shown}) > \"$POD/broker-limits\""));
    let mut config = pod.config(&["sh", "-c", shown]);
    config.hooks = Hooks {
        init: Some("ulimit -n 512".to_owned()),
        pre: Some("ulimit -Sc 0; ulimit -Ss 4096; umask 0027".to_owned()),
        broker_pre: Some(
            "ulimit -Sn 256; ulimit -n >> $POD/seen; touch $POD/seen-mode\n\
             grep 'open files' /proc/$PPID/limits > $POD/agent; umask >> $POD/seen"
                .to_owned(),
        ),
        post: Some("umask >> $POD/seen".to_owned()),
        ..Hooks::default()
    };
    let expected = "256\n512\n0\n4096\n0027\n";
    Ended::of(&mut pod.prepared(&config)).with_output(expected);
    assert_eq!(pod.read("broker-limits"), expected);
    assert_eq!(pod.read("seen"), "256\n0027\n0027\n");
    assert_eq!(pod.mode("seen-mode"), 0o640);
    assert!(!pod.read("agent").contains(" 512 "), "{}", pod.read("agent"));
}

#[test]
fn a_long_hook_runs_and_is_in_no_command_line() {
    let (pod, mut config) = Pod::with(&["printenv", "LENGTH"]);
    // An argument holds 128 KiB (execve(2)).
    let filler = "x".repeat(200_000);
    let pre = format!(
        "TEXT={filler}\nLENGTH=${{#TEXT}}; export LENGTH; unset TEXT\ntr '\\0' ' ' </proc/$$/cmdline"
    );
    config.hooks.pre = Some(pre);
    let text = pod.run(&config).with_code(0).output;
    assert!(text.ends_with("200000\n"), "{text}");
    assert!(text.len() < 1000 && !text.contains("export"), "{text}");
    let private = pod.layout().private_directory();
    let left = fs::read_dir(private).unwrap().flatten().map(|entry| entry.file_name());
    assert!(left.into_iter().all(|name| name != "commands.pre"), "it is gone afterwards");
}

/// The only shell of the pod is the view's, and cannot be started.
#[test]
fn a_shell_that_cannot_be_started_fails_its_hook() {
    let pod = Pod::new();
    fs::remove_file(pod.at("bin/sh")).unwrap();
    pod.write_executable("mnt/flux/view/bin/bash", "#!/no/such/loader\n");
    let mut config = pod.config(&["touch", "ran"]);
    config.hooks.pre = Some("true".to_owned());
    pod.run(&config).with_code(Exit::Hook.code());
    pod.error_says("hook commands.pre cannot run: start");
    pod.error_says("bin/bash");
    Ended::of(&mut pod.beside(config.clone(), sidecar("true")))
        .with_code(Exit::Hook.code())
        .with_log("hook command cannot run: start");
    config.logging.strict = false;
    pod.run(&config).with_code(0);
    assert!(pod.at("work/ran").exists());
}

#[test]
fn a_working_directory_that_a_hook_has_removed_is_named() {
    let (pod, mut config) = Pod::with(&["true"]);
    config.hooks.pre = Some("mkdir $POD/gone; cd $POD/gone".to_owned());
    config.hooks.broker_pre = Some("rmdir $POD/gone".to_owned());
    pod.run(&config).with_code(Exit::Prepare.code());
    pod.error_says("enter the working directory");
    pod.error_says("/gone");
}

#[test]
fn a_failing_hook_ends_a_strict_run_by_name() {
    let (pod, mut config) = Pod::with(&["touch", "ran"]);
    config.hooks.pre = Some("export A=seen\nset -e\nfalse\ntrue".to_owned());
    config.hooks.post = Some("echo post $A".to_owned());
    pod.run(&config).with_code(Exit::Hook.code()).with_output("post seen\n");
    assert!(!pod.message().command_ran && !pod.at("work/ran").exists());
    pod.error_says("commands.pre");
    pod.error_says("exit code 1");
}

#[test]
fn a_failing_hook_of_a_lenient_run_is_reported() {
    let (pod, mut config) = Pod::with(&["sh", "-c", "echo $A; exit 4"]);
    config.logging.strict = false;
    config.hooks.pre = Some("export A=1\nexit 3".to_owned());
    config.hooks.post = Some("true".to_owned());
    let ended = pod.run(&config).with_code(4).with_output("1\n");
    assert_eq!(pod.message().exit_code, 4);
    ended.with_log("hook commands.pre ended with exit code 3");
}

#[test]
fn codes_of_commands_are_those_of_a_shell() {
    let pod = Pod::new();
    let launch = |command: &[&str]| {
        let workload = Workload::Launcher { prefix: vec![], command: words(command), script: None };
        let code = pod.run(&AgentConfig { workload, ..pod.config(&[]) }).code;
        (code, pod.message().signal)
    };
    assert_eq!(launch(&["/no/such/program"]), (127, None));
    assert_eq!(launch(&["/etc"]), (126, None));
    assert_eq!(launch(&["sh", "-c", "kill -9 $$"]), (137, Some(9)));
}

#[test]
fn a_batch_script_is_submitted_from_the_working_directory() {
    for (directive, output) in [("", "/flux-{{id}}.out"), ("#flux: --output=/data/{{id}}\n", "")] {
        let pod = Pod::new();
        let script = format!("{directive}echo \"$FLUX_OUTPUT_DIR\" > batch-ran\n");
        let ended = pod.run(&pod.batch(&script)).with_code(0).with_output("ƒfakejob\n");
        let outputs = pod.at("outputs");
        assert_eq!(pod.read("work/batch-ran"), format!("{}\n", outputs.display()));
        assert_eq!(pod.mode("work/flux-job.batch"), 0o755);
        let calls = pod.read("flux-calls");
        for text in [" -N 2 --flags=waitable", "job status ƒfakejob", output] {
            assert!(calls.contains(text), "{text}: {calls}");
        }
        assert!(outputs.is_dir());
        let is_elsewhere = output.is_empty();
        assert_eq!(calls.contains("--output="), !is_elsewhere, "{calls}");
        let text = "the output of the batch script goes to /data/{{id}}\n";
        assert_eq!(ended.log.contains(text), is_elsewhere, "{}", ended.log);
    }
}

#[test]
fn the_munge_key_is_private_and_must_exist() {
    let (pod, mut config) = Pod::with(&["true"]);
    config.munge = true;
    pod.run(&config).with_code(Exit::Prepare.code());
    pod.error_says("munge.key");
    fs::create_dir(pod.at("flux_operator/munge")).unwrap();
    fs::write(pod.at("flux_operator/munge/munge.key"), [0xff, 0, 1]).unwrap();
    pod.run(&config).with_code(0);
    assert_eq!(fs::read(pod.at("etc/munge/munge.key")).unwrap(), [0xff, 0, 1]);
    assert_eq!((pod.mode("etc/munge/munge.key"), pod.mode("etc/munge")), (0o400, 0o700));
}

/// A pipe that no process writes to stands for a volume that does not answer.
#[test]
fn a_volume_that_does_not_answer_holds_up_no_stop() {
    let (pod, config) = Pod::with(&["true"]);
    let certificate = pod.at("flux_operator/curve/curve.cert");
    fs::remove_file(&certificate).unwrap();
    mkfifo(&certificate, Mode::S_IRWXU).unwrap();
    let run = pod.start(&config);
    let directories = pod.at("mnt/flux/config/curve");
    await_that("the steps before are done", || directories.is_dir());
    run.signal(Signal::SIGTERM);
    run.end().with_code(stopped());
    pod.error_says("stopped by SIGTERM");
}

#[test]
fn the_users_script_is_where_the_command_expects_it() {
    let pod = Pod::new();
    let path = pod.at("tmp/custom-entrypoint.sh").display().to_string();
    let script = "#!/bin/sh\necho \"$1 ${HOME:+home} `echo tick`\"\nexit 3\n".to_owned();
    let submission = crate::settings::submission(&["-n1"], &[&path, "$x"]);
    let command = submission.command.clone();
    let launcher = Workload::Launcher { prefix: vec![], command, script: Some(script.clone()) };
    let submission = Submission { script: Some(script), ..submission };
    for (workload, is_job) in [(launcher, false), (Workload::Submit { submission }, true)] {
        let ended = pod.run(&AgentConfig { workload, ..pod.config(&[]) });
        ended.with_code(3).with_output("$x home tick\n");
        assert_eq!(pod.read("flux-calls").contains(" run "), is_job, "{}", pod.read("flux-calls"));
    }
}

#[test]
fn started_by_root_flux_runs_as_its_own_user() {
    let Some(pod) = Pod::of_root() else { return };
    let mut config = pod.config(&["sh", "-c", "id -u; id -g; id -G; echo $HOME $USER; touch here"]);
    config.user = user(&[]);
    config.hooks.pre = Some("id -u > hook-uid; stat -c %a $0 > hook-mode".to_owned());
    pod.run(&config).with_code(0).with_output("1234\n1234\n1234\n/home/flux flux\n");
    assert_eq!(pod.read("work/hook-uid"), "0\n", "hooks run as the container's own user");
    let owner = |path: &str| fs::metadata(pod.at(path)).unwrap().uid();
    for path in [
        "mnt/flux/config/run/flux",
        "mnt/flux/config/var/lib/flux",
        "flux_operator/private/curve/curve.cert",
        "work",
    ] {
        assert_eq!(owner(path), 1234, "{path}");
    }
    assert_eq!(owner("mnt/flux/config/etc/flux/system/R"), 0, "what the agent alone writes");
    assert_eq!((owner("flux_operator/private"), pod.mode("flux_operator/private")), (0, 0o755));
    let agents = "flux_operator/private/agent";
    assert_eq!((owner(agents), pod.mode(agents)), (0, 0o711));
    assert_eq!(
        pod.read("work/hook-mode"),
        "600\n",
        "Flux's user cannot read the scripts of hooks there"
    );
    assert!(pod.read("etc/passwd").contains("flux:"));
}

#[test]
fn fluxs_user_keeps_only_added_capabilities() {
    let Some(pod) = Pod::of_root() else { return };
    let sets = |capabilities: &[&str]| {
        let config = pod.config(&["grep", "Cap[PEA]", "/proc/self/status"]);
        let config = AgentConfig { user: user(capabilities), ..config };
        let text = pod.run(&config).with_code(0).output;
        let sets = text.lines().map(|line| line.split_whitespace().last().unwrap().to_owned());
        sets.collect::<BTreeSet<_>>()
    };
    assert_eq!(sets(&[]), ["0000000000000000".to_owned()].into());
    // CAP_IPC_LOCK is number 14, CAP_SYS_NICE 23 (linux/capability.h).
    let added = format!("{:016x}", 1 << 14 | 1 << 23);
    assert_eq!(sets(&["IPC_LOCK", "cap_sys_nice"]), [added].into());
}

fn user(capabilities: &[&str]) -> FluxUser {
    let capabilities = words(capabilities);
    FluxUser { name: "flux".to_owned(), uid: 1234, run_as_root: false, capabilities }
}

#[test]
fn an_arbitrary_uid_runs_flux_with_a_home() {
    let Some(pod) = Pod::of_root() else { return };
    let mut config = pod.config(&["sh", "-c", "id -u; echo $HOME $USER; ls -d $HOME"]);
    config.user.run_as_root = false;
    let mut run = pod.prepared(&config);
    // What a container runtime sets for a uid without an account.
    run.env("HOME", "/");
    let home = pod.layout().home();
    let expected = format!("4321\n{home} flux\n{home}\n");
    Ended::of(&mut pod.as_other_user(&run)).with_code(0).with_output(&expected);
    assert!(!pod.read("etc/passwd").contains("flux"));
}

#[test]
fn a_user_that_cannot_be_added_still_runs_flux() {
    let Some(pod) = Pod::of_root() else { return };
    let config = AgentConfig { user: user(&[]), ..pod.config(&["id", "-u"]) };
    let Some(ended) = pod.with_read_only("etc", &pod.prepared(&config)) else { return };
    ended.with_code(0).with_output("1234\n").with_log("without an entry in /etc/passwd");
}

#[test]
fn missing_view_configuration_and_certificate_have_codes_of_their_own() {
    let (pod, config) = Pod::with(&["true"]);
    let (flux, elsewhere) = (pod.at("mnt/flux/view/bin/flux"), pod.at("flux"));
    fs::rename(&flux, &elsewhere).unwrap();
    pod.run(&config).with_code(Exit::View.code());
    pod.error_says("view/bin/flux");
    assert!(!pod.at("mnt/flux/config").exists(), "what is refused changes nothing");
    fs::rename(elsewhere, flux).unwrap();
    fs::remove_file(pod.at("flux_operator/curve/curve.cert")).unwrap();
    pod.run(&config).with_code(Exit::Prepare.code());
    pod.error_says("curve.cert");
    fs::remove_file(pod.at("flux_operator/config/agent.toml")).unwrap();
    pod.ask("run", &[]).with_code(Exit::Config.code());
}

#[test]
fn without_a_view_flux_is_on_the_hooks_path() {
    let (pod, mut config) = Pod::with(&["echo", "found"]);
    config.view.enabled = false;
    let run = |config: &AgentConfig| Ended::of(pod.prepared(config).env("PATH", "/usr/bin:/bin"));
    run(&config).with_code(Exit::View.code());
    pod.error_says("/usr/bin:/bin");
    config.hooks.pre = Some("export PATH=$PATH:$POD/mnt/flux/view/bin".to_owned());
    run(&config).with_code(0).with_output("found\n");
}

#[test]
fn no_secret_comes_into_the_shared_volume() {
    let (pod, mut config) = Pod::with(&["true"]);
    config.hooks.pre = Some("export TOKEN=hunter2".to_owned());
    // The post hook sees the volume as a sidecar does while the run goes on. The agent has the word
    // for the key in its code.
    config.hooks.post = Some(
        "cd $POD/mnt/flux; grep -rls --exclude=flux-agent -e secret-key -e hunter2 . > $POD/found; ls > $POD/seen"
            .to_owned(),
    );
    pod.run(&config).with_code(0);
    assert_eq!(pod.read("found"), "");
    let expected =
        "bin\nconfig\nflux-connect.sh\nflux-view.sh\nload-fluxion.sh\nrunner.lock\nview\n";
    assert_eq!(pod.read("seen"), expected);
}
