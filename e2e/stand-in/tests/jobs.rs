//! Jobs over two brokers.

mod support;

use support::{Broker, Site, stderr, stdout, wait_for};

/// A running instance of two brokers with two cores each.
fn instance(site: &Site) -> [Broker; 2] {
    let brokers = [site.start(0, &["sleep", "600"]), site.start(1, &[])];
    site.wait_for_log(1, "quorum->run");
    brokers
}

#[test]
fn four_tasks_run_on_two_brokers() {
    let site = Site::new(2);
    let _brokers = instance(&site);
    let task = "echo $FLUX_TASK_RANK/$FLUX_JOB_SIZE on $FLUX_JOB_NNODES at ${FLUX_URI##*-}";
    let words = ["submit", "-N2", "-n4", "--quiet", "--watch", "bash", "-c", task];
    let output = site.ask(0, &words);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let mut lines: Vec<String> = stdout(&output).lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["0/4 on 2 at 0", "1/4 on 2 at 0", "2/4 on 2 at 1", "3/4 on 2 at 1"]);
    let from_worker = site.ask(1, &words);
    assert_eq!(stdout(&from_worker).lines().count(), 4);
}

#[test]
fn the_highest_exit_code_is_the_jobs() {
    let site = Site::new(2);
    let _brokers = instance(&site);
    let code = |words: &[&str]| site.ask(0, words).status.code();
    let exit = "exit $((FLUX_TASK_RANK + 3))";
    assert_eq!(code(&["submit", "-n4", "--watch", "bash", "-c", exit]), Some(6));
    let run = site.ask(0, &["run", "-n2", "bash", "-c", exit]);
    assert_eq!(run.status.code(), Some(4));
    assert!(stderr(&run).contains("flux-job: task(s) exited with exit code 4"));
    assert_eq!(code(&["run", "bash", "-c", "kill -9 $$"]), Some(137));
    assert_eq!(code(&["run", "no-such-command"]), Some(127));
    assert_eq!(code(&["run", "-n5", "true"]), Some(1), "more cores than there are");
    assert_eq!(code(&["run", "cat"]), Some(0), "input ends with the null device");
}

#[test]
fn run_prints_at_once_and_submit_when_the_job_has_ended() {
    let site = Site::new(2);
    let _brokers = instance(&site);
    let task = "echo begun; echo said >&2; until [ -e go ]; do sleep 0.05; done";
    let commands: [&[&str]; 2] = [&["run"], &["submit", "--quiet", "--watch"]];
    let mut children = commands.map(|command| {
        let file = |stream: &str| {
            std::fs::File::create(site.path(&format!("{}.{stream}", command[0]))).expect("creates")
        };
        let mut question = site.question(0, &[command, &["bash", "-c", task]].concat());
        question.stdout(file("out")).stderr(file("err")).spawn().expect("starts")
    });
    wait_for("the output of run", || (site.read("run.out") == "begun\n").then_some(()));
    wait_for("the errors of submit", || (site.read("submit.err") == "said\n").then_some(()));
    assert_eq!(site.read("submit.out"), "", "it keeps what is no error");
    site.write("go", "");
    for child in &mut children {
        assert_eq!(child.wait().expect("waits").code(), Some(0));
    }
    assert_eq!(site.read("submit.out"), "begun\n");
}

#[test]
fn a_job_that_reads_its_input_waits_unless_there_is_none() {
    let site = Site::new(2);
    let _brokers = instance(&site);
    let output = site.ask(0, &["submit", "--input=/dev/null", "--quiet", "--watch", "cat"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let waiting = stdout(&site.ask(0, &["submit", "cat"])).trim().to_owned();
    let state = stdout(&site.ask(0, &["jobs", "-no", "{state}", &waiting]));
    assert_eq!(state, "RUN\n");
}

#[test]
fn the_events_of_a_job_say_whether_it_was_started() {
    let site = Site::new(2);
    let _brokers = instance(&site);
    let none = site.ask(0, &["job", "last"]);
    assert_eq!(
        (none.status.code(), stderr(&none).as_str()),
        (Some(1), "flux-job: job history is empty\n")
    );
    site.ask(0, &["submit", "-N9", "--watch", "true"]);
    site.ask(0, &["submit", "--watch", "no-such-command"]);
    let ids = stdout(&site.ask(0, &["job", "last", "[:9]"]));
    let ids: Vec<&str> = ids.lines().collect();
    let [not_found, refused] = ids.as_slice() else { panic!("{ids:?}") };
    let events = |words: &[&str]| {
        let output = site.ask(0, &[&["job", "eventlog", "--format=json"], words].concat());
        (output.status.code(), stdout(&output))
    };
    let (_, log) = events(&[refused]);
    assert!(log.contains("\"type\":\"alloc\"") && !log.contains("\"name\":\"start\""), "{log}");
    assert_eq!(events(&["--path=exec", refused]).0, Some(1), "it has no such eventlog");
    let (_, log) = events(&[not_found]);
    assert!(log.contains("start failed") && log.contains("\"name\":\"start\""), "{log}");
    assert!(events(&["-p", "exec", not_found]).1.contains("shell.init"));
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    let site = Site::new(1);
    let text = |words: &[&str]| {
        let output = site.ask(0, words);
        assert_eq!(output.status.code(), Some(1), "{words:?}");
        stderr(&output)
    };
    let error = text(&["submit", "-N4", "-n2", "true"]);
    assert_eq!(error, "flux-submit: ERROR: node count must not be greater than task count\n");
    assert!(text(&["submit"]).contains("job command and arguments are missing"));
    assert!(text(&["submit", "--ntasks=x", "true"]).contains("--ntasks: invalid int value 'x'"));
    assert!(text(&["batch", "x"]).contains("ERROR"));
    let unknown = site.ask(0, &["submit", "--nope", "true"]);
    assert_eq!(unknown.status.code(), Some(2), "as Python's argument parser has it");
    assert!(stderr(&unknown).contains("flux submit: error: unrecognized arguments: --nope"));
    let script = site.script("script", "#!/bin/bash\ntrue\n");
    assert!(text(&["batch", &script]).contains("Number of slots to allocate must be specified"));
}

#[test]
fn results_are_waited_for_once() {
    let site = Site::new(2);
    let _brokers = instance(&site);
    let wait = |words: &[&str]| {
        let output = site.ask(0, words);
        (output.status.code(), stderr(&output))
    };
    assert_eq!(wait(&["job", "wait", "--all"]).0, Some(0));
    let (code, text) = wait(&["job", "wait"]);
    assert_eq!((code, text.as_str()), (Some(2), "flux-job: there are no more waitable jobs\n"));
    let submit = |words: &[&str]| stdout(&site.ask(0, words)).trim().to_owned();
    let good = submit(&["submit", "--flags=waitable", "true"]);
    let bad = submit(&["submit", "--flags", "waitable", "false"]);
    assert!(good.starts_with('ƒ'), "{good}");
    assert_eq!(wait(&["job", "wait", &good]).0, Some(0));
    assert_eq!(wait(&["job", "wait", &good]).0, Some(2));
    assert_eq!(wait(&["job", "wait", &bad]).0, Some(1));
    submit(&["submit", "--flags=waitable", "false"]);
    let (code, text) = wait(&["job", "wait", "--all"]);
    assert_eq!(code, Some(1));
    assert!(text.contains("exited with exit code 1"), "{text}");
    assert_eq!(stdout(&site.ask(0, &["queue", "idle"])), "0 jobs\n");
    assert_eq!(site.ask(0, &["jobs", "--stats-only"]).status.code(), Some(1));
}

#[test]
fn output_files_hold_what_tasks_write() {
    let site = Site::new(2);
    let _brokers = instance(&site);
    let words = [
        "submit",
        "-N2",
        "--wait",
        "--quiet",
        "--label-io",
        "--output=out-{{id}}",
        "--error=err",
        "bash",
        "-c",
        "echo to output; echo to error >&2",
    ];
    assert_eq!(site.ask(0, &words).status.code(), Some(0));
    let id = stdout(&site.ask(0, &["jobs", "-ano", "{id}"])).trim().to_owned();
    let lines = |name: &str| {
        let mut lines: Vec<String> = site.read(name).lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(lines(&format!("out-{id}")), ["0: to output", "1: to output"]);
    assert_eq!(lines("err"), ["0: to error", "1: to error"]);
}

#[test]
fn a_batch_job_has_an_instance_of_its_own() {
    let site = Site::new(2);
    let _brokers = instance(&site);
    let script = site.script(
        "script",
        "#!/bin/bash\nflux run -N2 -n2 echo inner\nflux run -n3 true || echo too many\n\
         flux submit --quiet true\nflux queue idle --quiet\nflux jobs -ano '{name} {status}'\nexit 5\n",
    );
    let output = site.ask(0, &["batch", "-N2", "-n2", "--flags=waitable", &script, "argument"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let id = stdout(&output).trim().to_owned();
    assert_eq!(site.ask(0, &["job", "wait", &id]).status.code(), Some(1));
    let text = site.read(&format!("flux-{id}.out"));
    assert_eq!(text.matches("inner\n").count(), 2, "{text}");
    assert!(text.contains("too many\n"), "{text}");
    assert!(text.contains("true COMPLETED\n") && !text.contains("script"), "{text}");
    let outer = stdout(&site.ask(0, &["jobs", "-ano", "{name} {returncode}"]));
    assert_eq!(outer, format!("{script} 5\n"));
}

#[test]
fn a_batch_script_without_its_interpreter_fails_as_not_found() {
    let site = Site::new(1);
    let _lead = site.start(0, &["sleep", "600"]);
    site.wait_for_log(0, "quorum->run");
    let script = site.script("script", "#!/nowhere/bash\ntrue\n");
    let id = stdout(&site.ask(0, &["batch", "-n1", "--flags=waitable", &script]));
    assert_eq!(site.ask(0, &["job", "status", id.trim()]).status.code(), Some(127));
}

#[test]
fn drained_and_missing_nodes_are_not_used() {
    let site = Site::new(2);
    let config = site.read("broker.toml");
    let many =
        config.replace("noverify = true\n", "").replace(r#"cores = "0-1""#, r#"cores = "0-4000""#);
    site.write("broker.toml", &many);
    let _lead = site.start(0, &["-Sbroker.quorum=1", "sleep", "600"]);
    site.wait_for_log(0, "resource.err[0]: draining: rank 0 (a0) missing resources: core[");
    site.wait_for_log(0, "quorum->run");
    assert!(stdout(&site.ask(0, &["uptime"])).contains(",  1 drained,  1 offline\n"));
    let id = stdout(&site.ask(0, &["submit", "true"]));
    assert_eq!(stdout(&site.ask(0, &["queue", "idle"])), "1 jobs\n");
    assert_eq!(site.ask(0, &["resource", "undrain", "0"]).status.code(), Some(0));
    assert_eq!(site.ask(0, &["job", "status", id.trim()]).status.code(), Some(0));
}

#[test]
fn jobs_are_cancelled_when_the_program_ends() {
    let site = Site::new(1);
    let program = "flux submit --quiet bash -c 'echo $$ > task; exec sleep 600'; until [ -s task ]; do :; done";
    assert_eq!(site.start(0, &["bash", "-c", program]).code(), Some(0));
    let process = site.read("task").trim().to_owned();
    wait_for("the end of the task", || {
        (!std::path::Path::new(&format!("/proc/{process}")).exists()).then_some(())
    });
}

#[test]
fn jobs_are_listed_by_ids_that_exist_and_with_options_that_do() {
    let site = Site::new(1);
    let _lead = site.start(0, &["sleep", "600"]);
    site.wait_for_log(0, "quorum->run");
    for (words, code, text) in [
        (["jobs", "1234"], 1, "JobID 1234 unknown\n"),
        (["jobs", "nope"], 2, "flux-jobs: error: argument JOBID: invalid JobID value: 'nope'\n"),
        (["jobs", "--all"], 2, "flux-jobs: error: unrecognized arguments: --all\n"),
        (["jobs", "--count=1"], 64, "flux: jobs --count: not simulated by the stand-in\n"),
        (["cancel", "123"], 1, "38: unknown job id\n"),
    ] {
        let output = site.ask(0, &words);
        assert_eq!(output.status.code(), Some(code), "{words:?}");
        assert!(stderr(&output).ends_with(text), "{words:?}: {}", stderr(&output));
    }
}

#[test]
fn a_dump_is_written_and_restored() {
    let site = Site::new(1);
    let archive = site.text("archive.tgz");
    let dump = format!("-Scontent.dump={archive}");
    assert_eq!(site.start(0, &[&dump, "flux run true"]).code(), Some(0));
    assert!(site.path("archive.tgz").exists());
    let restore = format!("-Scontent.restore={archive}");
    let mut lead = site.start(0, &[&restore, "flux dump again"]);
    assert_eq!(lead.code(), Some(0));
    assert!(site.read("0.err").contains(&format!("restoring content from {archive}")));
    let jobs = |name: &str| {
        let dump: serde_json::Value = serde_json::from_str(&site.read(name)).expect("JSON");
        let jobs = dump["content"]["jobs"].as_array().cloned().unwrap_or_default();
        jobs.iter().map(|job| (job["id"].clone(), job["name"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(jobs("again").len(), 1);
    assert_eq!(jobs("again"), jobs("archive.tgz"));
    let list = "flux jobs -ano '{name} {status} {nodelist}'; flux jobs -A; flux jobs --stats-only";
    assert_eq!(site.start(0, &[&restore, list]).code(), Some(1), "none is active");
    let expected = "true COMPLETED a0\n       JOBID USER     NAME       ST NTASKS NNODES     TIME INFO\n\
                    0 running, 1 completed, 0 failed, 0 pending, 0 inactive purged\n";
    assert_eq!(site.read("0.out"), expected, "the restored job is known, and not active");
    let missing = site.start(0, &["-Scontent.restore=/nowhere/x", "true", "x"]).code();
    assert_eq!(missing, Some(0), "a missing archive is skipped");
}

#[test]
fn proxy_runs_commands_through_a_shell() {
    let site = Site::new(1);
    let _lead = site.start(0, &["sleep", "600"]);
    site.wait_for_log(0, "quorum->run");
    let uri = format!("local://{}", site.text("run0/local-0"));
    let output = site.flux(&["proxy", &uri, "flux", "getattr", "size;", "exit", "3"]);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(3), "1\n"));
    let gone = site.flux(&["proxy", "local:///nowhere/local", "true"]);
    assert_eq!(gone.status.code(), Some(1));
    assert!(stderr(&gone).contains("broker socket /nowhere/local was not found"));
}

#[test]
fn resource_sets_are_encoded_without_a_broker() {
    let site = Site::new(1);
    let output = site.flux(&["R", "encode", "--hosts=a[0-1]", "--cores=0-3", "-p", "big:1"]);
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(value["execution"]["R_lite"][0]["rank"], "0-1");
    assert_eq!(value["execution"]["R_lite"][0]["children"]["core"], "0-3");
    assert_eq!(value["execution"]["properties"]["big"], "1");
}
