//! Jobs over two brokers.

use crate::site::{Site, wait_for};
use crate::socket::{ANY_NODE, ask, connect};
use flux_protocol::job_id;
use serde_json::{Value, json};

#[test]
fn the_highest_exit_code_is_the_jobs() {
    let (site, _brokers) = Site::two();
    let code = |words: &[&str]| site.ask(0, words).code;
    let exit = "exit $((FLUX_TASK_RANK + 3))";
    assert_eq!(code(&["submit", "-n4", "--watch", "bash", "-c", exit]), Some(6));
    assert_eq!(code(&["run", "-n2", "bash", "-c", exit]), Some(4));
    assert_eq!(code(&["run", "bash", "-c", "kill -9 $$"]), Some(137));
    assert_eq!(code(&["run", "no-such-command"]), Some(127));
    assert_eq!(code(&["run", "-n5", "true"]), Some(1), "more cores than there are");
    assert_eq!(code(&["run", "cat"]), Some(0), "input ends with the null device");
}

#[test]
fn a_jobspec_is_submitted_and_attached_to() {
    let (site, _brokers) = Site::two();
    let jobspec = site.write(
        "jobspec",
        r#"{"version": 1, "resources": [{"type": "node", "count": 2, "with": [{"type": "slot", "count": 1,
            "label": "task", "with": [{"type": "core", "count": 1}]}]}],
            "tasks": [{"command": ["sh", "-c", "cat; echo $A; exit 3"], "slot": "task", "count": {"per_slot": 1}}],
            "attributes": {"system": {"duration": 0, "environment": {"PATH": "/usr/bin:/bin", "A": "a"},
            "cwd": "/tmp", "shell": {"options": {"rlimit": {"core": 0}}}}}}"#,
    );
    let through = |flag: &str, jobspec: &str| {
        let script = "PATH=$FLUX_EXEC_PATH:$PATH; \
            id=$(flux-job submit --flags=$0 < $1) || exit 9; flux-job attach $id";
        site.ask(0, &["/bin/sh", "-c", script, flag, jobspec])
    };
    let ended = through("novalidate", &jobspec);
    assert_eq!((ended.code, ended.out.as_str()), (Some(3), "a\na\n"), "{ended:?}");
    for (flag, jobspec, text) in [
        ("nope", jobspec.as_str(), "flux-job: unknown flag: nope"),
        ("novalidate", "/dev/null", "flux-job: required jobspec is empty"),
    ] {
        let refused = through(flag, jobspec);
        assert!(refused.code == Some(9) && refused.err.contains(text), "{refused:?}");
    }
}

#[test]
fn a_job_waits_for_its_input_if_there_is_any() {
    let (site, _brokers) = Site::two();
    site.ok(0, &["submit", "--input=/dev/null", "--quiet", "--watch", "cat"]);
    site.ok(0, &["submit", "cat"]);
    wait_for("the job to run", || {
        (site.ok(0, &["jobs", "-no", "{name} {state}"]) == "cat RUN\n").then_some(())
    });
}

#[test]
fn the_events_of_a_job_say_whether_it_was_started() {
    let (site, _brokers) = Site::two();
    site.ask(0, &["submit", "-N9", "--watch", "true"]);
    site.ask(0, &["submit", "--watch", "no-such-command"]);
    site.ask(0, &["submit", "--watch", "sh", "-c", "exit 3"]);
    let ids = site.ok(0, &["jobs", "-ano", "{id}"]);
    let ids: Vec<&str> = ids.lines().collect();
    let [failed, not_found, refused] = ids.as_slice() else { panic!("{ids:?}") };
    let mut stream = connect(&site, 0);
    let mut lookup = |id: &str, key: &str| {
        let id = job_id::parse(id).expect("a job id");
        let payload = json!({ "id": id, "keys": [key], "flags": 0 }).to_string();
        let (errno, answer) = ask(&mut stream, "job-info.lookup", Some(&payload), 0);
        let answer: Value = serde_json::from_str(&answer).unwrap_or_default();
        (errno, answer[key].as_str().unwrap_or_default().to_owned())
    };
    let execution = "guest.exec.eventlog";
    let (_, log) = lookup(refused, "eventlog");
    assert!(log.contains("\"type\":\"alloc\"") && !log.contains("\"name\":\"start\""), "{log}");
    assert_eq!(lookup(refused, execution).0, 2, "it has no such eventlog");
    let (_, log) = lookup(not_found, "eventlog");
    let error = "no-such-command: No such file or directory";
    assert!(log.contains(error) && log.contains("\"name\":\"start\""), "{log}");
    assert!(lookup(not_found, execution).1.contains("shell.init"));
    assert!(lookup(failed, execution).1.contains("\"wait_status\":768"));
    assert!(site.ok(0, &["job", "taskmap", "--hostname=0", failed]).ends_with('\n'));
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    let (site, _lead) = Site::one();
    let script = site.write("script", "#!/bin/bash\ntrue\n");
    for (words, code, text) in [
        (vec!["submit", "-N4", "-n2", "true"], 1, "node count must not be greater than task count"),
        (vec!["submit"], 1, "job command and arguments are missing"),
        (vec!["run", "--ntasks=x", "true"], 1, "--ntasks: invalid int value 'x'"),
        (vec!["run", "--nope", "true"], 2, "flux run: error: unrecognized arguments: --nope"),
        (vec!["submit", "--nope", "true"], 2, "flux submit: error: unrecognized arguments: --nope"),
        (vec!["batch", "/nowhere/x"], 1, "No such file or directory"),
        (vec!["batch", &script], 1, "Number of slots to allocate must be specified"),
        (vec!["batch", "-n1", "/etc/hostname"], 1, "does not appear to start with '#!'"),
        (vec!["getattr", "nope"], 1, "No such file or directory"),
    ] {
        let answer = site.ask(0, &words);
        assert_eq!(answer.code, Some(code), "{words:?}: {answer:?}");
        assert!(answer.err.contains(text), "{words:?}: {answer:?}");
    }
}

#[test]
fn the_end_of_the_instance_cancels_jobs_unless_disabled() {
    let task = "trap '' TERM; echo $$ > task; sleep 120; sleep 120";
    for (disabled, registered, event) in
        [(false, false, "success"), (true, true, "success"), (true, false, "none")]
    {
        let site = Site::new(1);
        let config = site.read("broker.toml");
        site.write("broker.toml", &format!("{config}[exec]\nkill-timeout = \"200ms\"\n"));
        let mut command = site.broker("start", 0, &[]);
        command.envs(disabled.then_some(("FLUX_DISABLE_JOB_CLEANUP", "t")));
        let mut lead = site.spawn(command, 0);
        site.wait_for_log(0, "quorum->run");
        site.ok(0, &["submit", "bash", "-c", task]);
        let process = wait_for("the task", || Some(site.read("task")).filter(|it| !it.is_empty()));
        if registered {
            let commands = [
                "flux queue idle --quiet",
                "flux cancel --user=all --quiet --states RUN",
                "flux queue stop --quiet --all --nocheckpoint",
            ];
            let payload = json!({ "name": "cleanup", "commands": commands }).to_string();
            let pushed = ask(&mut connect(&site, 0), "runat.push", Some(&payload), ANY_NODE);
            assert_eq!(pushed.0, 0, "{pushed:?}");
        }
        assert_eq!(lead.end(), Some(0));
        assert!(site.read("0.err").contains(&format!("cleanup-{event}: cleanup->shutdown")));
        let process = format!("/proc/{}", process.trim());
        if event == "success" {
            let ended = || (!std::path::Path::new(&process).exists()).then_some(());
            wait_for("the end of the task", ended);
        }
    }
}
