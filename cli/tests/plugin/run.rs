//! `run`: the exit code, the output and the end of what it made.

use crate::process::{Ended, Process};
use crate::scene::Scene;
use flux_testkit::http::Reaction;
use nix::sys::signal::Signal;
use std::time::Duration;

const LOG: &str = "hello-0-a/hello";

/// A run of the MiniCluster `hello`, which has been created.
async fn created(scene: &Scene, options: &[&str]) -> Process {
    let run = [&["run", "ubuntu", "--name=hello"], options, &["--", "true"]].concat();
    let run = scene.start(&run);
    scene.endpoint.await_requests("POST ", 1).await;
    scene.endpoint.await_requests("GET ", 3).await;
    run
}

/// The same, and its lead runs.
async fn running(scene: &Scene, options: &[&str]) -> Process {
    let run = created(scene, options).await;
    scene.minicluster("hello", "Running", "Running", None);
    scene.pod("hello", 0, "a", "running");
    run
}

/// Ends the lead's container and the run with this code.
fn end(scene: &Scene, code: i32) {
    scene.endpoint.logs.end(LOG);
    scene.pod("hello", 0, "a", "terminated");
    let (state, reason) =
        if code == 0 { ("Complete", "CommandSucceeded") } else { ("Failed", "CommandFailed") };
    scene.minicluster("hello", state, reason, Some(code));
}

fn expect(ended: &Ended, code: i32, out: &str) {
    assert_eq!((ended.code, ended.out.as_str()), (code, out), "{}", ended.err);
}

#[tokio::test]
async fn a_run_prints_its_output_and_ends_with_its_code() {
    let scene = Scene::new().await;
    let run = running(&scene, &[]).await;
    scene.endpoint.logs.write(LOG, &[b"one", b"two"]);
    run.prints("two\n").await;
    // The last line has no newline.
    scene.endpoint.logs.write_part(LOG, b"three");
    end(&scene, 7);
    expect(&run.end().await, 7, "one\ntwo\nthree");
    assert_eq!(scene.endpoint.count("DELETE "), 1);
}

/// As `logs` prints them.
#[tokio::test]
async fn lines_of_flux_are_printed_only_on_request() {
    let lines = [&b"<6>broker.info[0]: x"[..], b"one", b"flux-agent: run", b"flux-agent: error: e"];
    for (options, printed) in [
        (&[][..], "one\nflux-agent: error: e\n"),
        (&["--broker"], "<6>broker.info[0]: x\none\nflux-agent: run\nflux-agent: error: e\n"),
    ] {
        let scene = Scene::new().await;
        let run = running(&scene, options).await;
        scene.endpoint.logs.write(LOG, &lines);
        run.prints("error: e\n").await;
        let logs = scene.ends(&[&["logs", "hello", "-oraw"], options].concat()).await;
        assert_eq!(logs.out, printed, "{}", logs.err);
        end(&scene, 0);
        expect(&run.end().await, 0, printed);
    }
}

/// B1, B2: the log breaks, is cut in a line, is refused for a while, or is silent.
#[tokio::test]
async fn a_broken_log_is_reopened_where_it_ended() {
    for reaction in [
        Reaction::CutAfter(1),
        Reaction::CutAfter(0),
        Reaction::SilentAfter(1),
        Reaction::Refuse(500),
        Reaction::Refuse(503),
        Reaction::Refuse(404),
        Reaction::Hang,
    ] {
        let scene = Scene::new().await;
        scene.endpoint.react("/log?", 1, reaction);
        let run = running(&scene, &["--request-timeout=2s"]).await;
        scene.endpoint.logs.write(LOG, &[b"one", b"one", b"two"]);
        run.prints("two\n").await;
        scene.endpoint.break_connections();
        scene.endpoint.logs.write(LOG, &[b"two", b"three"]);
        run.prints("three\n").await;
        end(&scene, 0);
        let ended = run.end().await;
        expect(&ended, 0, "one\none\ntwo\ntwo\nthree\n");
        assert!(!ended.err.contains("missing"), "{reaction:?}: {}", ended.err);
    }
}

#[tokio::test]
async fn a_lead_that_is_gone_leaves_output_missing() {
    let scene = Scene::new().await;
    let run = created(&scene, &[]).await;
    scene.minicluster("hello", "Complete", "CommandSucceeded", Some(0));
    let ended = run.end().await;
    expect(&ended, 0, "");
    assert!(ended.err.contains("output is missing: the lead's pod is gone"), "{}", ended.err);
}

/// The end of the MiniCluster may be seen before the lead's pod.
#[tokio::test]
async fn a_quick_command_has_its_output() {
    let scene = Scene::new().await;
    scene.endpoint.react("/pods?&watch=true", usize::MAX, Reaction::Hang);
    scene.endpoint.logs.write(LOG, &[b"quick"]);
    let run = created(&scene, &[]).await;
    end(&scene, 0);
    expect(&run.end().await, 0, "quick\n");
}

/// B18.
#[tokio::test]
async fn the_output_of_a_second_lead_follows_the_first() {
    let scene = Scene::new().await;
    let run = running(&scene, &[]).await;
    scene.endpoint.logs.write(LOG, &[b"first"]);
    run.prints("first\n").await;
    scene.pod("hello", 0, "b", "running");
    scene.endpoint.logs.write("hello-0-b/hello", &[b"second"]);
    scene.endpoint.logs.end("hello-0-b/hello");
    scene.pod("hello", 0, "b", "terminated");
    end(&scene, 0);
    expect(&run.end().await, 0, "first\nsecond\n");
}

/// B3: at each step, from the creation on.
#[tokio::test]
async fn a_signal_deletes_what_was_made() {
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143), (Signal::SIGHUP, 129)] {
        for (options, state) in
            [(&[][..], "Pending"), (&[], "Running"), (&["-i"], "Pending"), (&["-i"], "Starting")]
        {
            let scene = Scene::new().await;
            let run = created(&scene, options).await;
            scene.minicluster("hello", state, state, None);
            run.reports(&format!("hello: {state}")).await;
            run.signal(signal);
            let ended = run.end().await;
            expect(&ended, code, "");
            assert!(ended.err.contains("Stopping hello"), "{}", ended.err);
            assert!(scene.get("hello").is_none(), "{signal} {options:?} {state}");
        }
    }
}

#[tokio::test]
async fn a_signal_during_the_creation_deletes_it_afterwards() {
    let scene = Scene::new().await;
    scene.endpoint.react("POST ", 1, Reaction::Delay(Duration::from_secs(1)));
    let run = scene.start(&["run", "ubuntu", "--", "true"]);
    scene.endpoint.await_requests("POST ", 1).await;
    run.signal(Signal::SIGTERM);
    expect(&run.end().await, 143, "");
    assert_eq!(scene.endpoint.count("DELETE "), 1);
    scene.endpoint.react("POST ", 1, Reaction::Hang);
    let run = scene.start(&["run", "ubuntu", "--", "true"]);
    scene.endpoint.await_requests("POST ", 2).await;
    run.signal(Signal::SIGINT);
    run.reports("Press Ctrl-C again to exit without waiting").await;
    run.signal(Signal::SIGINT);
    let ended = run.end().await;
    expect(&ended, 130, "");
    assert!(ended.err.contains("has not answered whether ubuntu-"), "{}", ended.err);
}

/// B9: a second signal does not wait for an API server that does not answer.
#[tokio::test]
async fn a_second_signal_leaves_at_once() {
    let scene = Scene::new().await;
    let run = running(&scene, &["--request-timeout=1s"]).await;
    run.reports("hello: Running").await;
    scene.endpoint.freeze(true);
    run.signal(Signal::SIGINT);
    run.reports("Press Ctrl-C again").await;
    run.reports("; trying again").await;
    scene.endpoint.await_requests("DELETE ", 3).await;
    run.signal(Signal::SIGINT);
    let ended = run.end().await;
    expect(&ended, 130, "");
    assert!(ended.err.contains("hello may not be deleted yet"), "{}", ended.err);
    assert_eq!(ended.err.matches("delete the MiniCluster hello: no answer").count(), 1);
}

#[tokio::test]
async fn a_run_that_cannot_be_stopped_continues() {
    let scene = Scene::new().await;
    scene.endpoint.react("DELETE ", 1, Reaction::Refuse(403));
    let run = running(&scene, &[]).await;
    run.signal(Signal::SIGINT);
    let ended = run.end().await;
    expect(&ended, 130, "");
    assert!(ended.err.contains("hello continues to run"), "{}", ended.err);
}

#[tokio::test]
async fn an_outage_of_the_api_server_is_survived() {
    let scene = Scene::new().await;
    let run = running(&scene, &["--request-timeout=2s"]).await;
    scene.endpoint.logs.write(LOG, &[b"before"]);
    run.prints("before\n").await;
    for code in [410, 429, 500, 504] {
        scene.endpoint.react("watch=true", 1, Reaction::Refuse(code));
    }
    scene.endpoint.break_connections();
    scene.endpoint.freeze(true);
    scene.endpoint.logs.write(LOG, &[b"during"]);
    end(&scene, 5);
    tokio::time::sleep(Duration::from_secs(3)).await;
    scene.endpoint.freeze(false);
    expect(&run.end().await, 5, "before\nduring\n");
}

/// The answer to the creation is lost; the second attempt finds what the first one created.
#[tokio::test]
async fn a_creation_without_an_answer_is_tried_again() {
    let scene = Scene::new().await;
    scene.endpoint.react("POST ", 1, Reaction::CutAfter(0));
    scene
        .each_ends(&[("run ubuntu --detach -- true", 0, "minicluster.flux-framework.org/ubuntu-")])
        .await;
    assert_eq!(scene.endpoint.server.writes().len(), 2);
}

/// B12.
#[tokio::test]
async fn files_are_strict_and_get_no_defaults() {
    let scene = Scene::new().await;
    let object = |fields: &str| {
        format!(
            "apiVersion: flux-framework.org/v1alpha2\nkind: MiniCluster\nmetadata: {{name: a}}\n{fields}"
        )
    };
    let spec = "spec: {containers: [{image: x, command: z}]}\n";
    for (text, expected) in [
        (
            object("spec: {taks: 3, containers: [{image: x, command: z}]}"),
            "spec.taks: no such field",
        ),
        (
            object(&format!("{spec}---\nkind: Pod\napiVersion: v1\n")),
            "has MiniCluster, Pod: give `run`",
        ),
        ("kind: Pod\napiVersion: v1\nmetadata: {name: a}\n".to_owned(), "no MiniCluster"),
        (object(spec).replace("name: a", "name: a, namespace: lab"), "use --namespace lab"),
        (object("spec: {size: 0, containers: [{image: x, command: z}]}"), "spec.size"),
    ] {
        let file = scene.file("run.yaml", &text);
        scene.each_ends(&[(&format!("run -f {file}"), 2, expected)]).await;
    }
    assert_eq!(scene.endpoint.count("POST "), 0);
    let long = "n".repeat(52);
    let file =
        scene.file("run.yaml", &object(spec).replace("name: a", &format!("generateName: {long}-")));
    let printed = scene.ends(&["run", "-f", &file, "--dry-run"]).await;
    assert!(printed.out.contains(&format!("name: {}-", &long[..46])), "{}", printed.out);
    assert!(!printed.out.contains("generateName") && !printed.out.contains("deadlineSeconds"));
    assert!(!printed.out.contains("ttlSeconds"), "it is for kubectl apply: {}", printed.out);
}

#[tokio::test]
async fn a_dry_run_of_the_server_stores_nothing() {
    let scene = Scene::new().await;
    scene.each_ends(&[("run ubuntu --dry-run=server -- true", 0, "kind: MiniCluster")]).await;
    assert_eq!(scene.endpoint.count("dryRun=All"), 1);
}

/// A watch that has to begin again meets an API server that starts.
#[tokio::test]
async fn a_refused_list_ends_no_run() {
    let scene = Scene::new().await;
    scene.endpoint.react("/miniclusters?", 1, Reaction::Refuse(500));
    let run = running(&scene, &[]).await;
    run.reports("hello: Running").await;
    scene.endpoint.react("watch=true", 2, Reaction::Refuse(410));
    for list in ["/pods?", "/miniclusters?"] {
        scene.endpoint.react(list, 1, Reaction::Refuse(500));
    }
    scene.endpoint.break_connections();
    end(&scene, 3);
    expect(&run.end().await, 3, "");
}

#[tokio::test]
async fn a_run_whose_end_is_unknown_is_not_deleted() {
    let scene = Scene::new().await;
    scene.endpoint.react("GET /apis/flux-framework.org", usize::MAX, Reaction::Refuse(403));
    let ended = scene.ends(&["run", "ubuntu", "--", "true"]).await;
    expect(&ended, 125, "");
    assert!(ended.err.contains("is not deleted and may run"), "{}", ended.err);
    assert_eq!(scene.endpoint.count("DELETE "), 0);
}

#[tokio::test]
async fn ignored_signals_stop_no_run() {
    let scene = Scene::new().await;
    let run = ["run", "ubuntu", "--name=hello", "--", "true"];
    let run = scene.start_by("trap '' HUP; exec \"$0\" \"$@\"", &run);
    scene.endpoint.await_requests("GET ", 3).await;
    scene.minicluster("hello", "Running", "Running", None);
    run.reports("hello: Running").await;
    run.signal(Signal::SIGHUP);
    scene.pod("hello", 0, "a", "running");
    end(&scene, 0);
    expect(&run.end().await, 0, "");
}

#[tokio::test]
async fn output_that_cannot_be_written_is_kept() {
    let scene = Scene::new().await;
    scene.endpoint.logs.write(LOG, &[b"lost"]);
    let run = ["run", "ubuntu", "--name=hello", "--", "true"];
    let run = scene.start_by("exec \"$0\" \"$@\" >/dev/full", &run);
    scene.endpoint.await_requests("GET ", 3).await;
    end(&scene, 0);
    let ended = run.end().await;
    expect(&ended, 0, "");
    assert!(ended.err.contains("write to the standard output"), "{}", ended.err);
    assert!(scene.get("hello").is_some());
}

/// B1, B2, B8, and the connection of a shell that breaks: the exit code stays, and the user can still get what is left.
#[tokio::test]
async fn what_fails_beside_the_command_is_named() {
    for (pattern, reaction, options, code, parts) in [
        (
            "/log?",
            403,
            &[][..],
            0,
            ["output is missing: follow the log of hello-0-a", "kept for an hour"],
        ),
        (
            "DELETE ",
            403,
            &[],
            0,
            ["warning: delete the MiniCluster hello", "`kubectl flux delete hello` deletes it"],
        ),
        (
            "/exec?",
            500,
            &["--interactive"],
            125,
            ["hello is not deleted", "`kubectl flux shell hello` enters it again"],
        ),
    ] {
        let scene = Scene::new().await;
        scene.endpoint.react(pattern, usize::MAX, Reaction::Refuse(reaction));
        let run = running(&scene, options).await;
        if options.is_empty() {
            end(&scene, 0);
        }
        let ended = run.end().await;
        expect(&ended, code, "");
        assert!(parts.iter().all(|part| ended.err.contains(part)), "{pattern}: {}", ended.err);
        assert!(scene.get("hello").is_some(), "{pattern}");
    }
}

/// Without an operator, or in a namespace that refuses the pods.
#[tokio::test]
async fn a_run_that_does_not_begin_is_explained() {
    let scene = Scene::new().await;
    let run = created(&scene, &[]).await;
    let remedy = "remedy: check that the operator runs";
    run.reports(&format!("cause:  the operator has not processed it yet\n{remedy}")).await;
    scene.minicluster("hello", "Pending", "PodsRefused", None);
    run.reports("hello: Pending: it is Pending\nremedy: correct the specification").await;
    run.signal(Signal::SIGINT);
    expect(&run.end().await, 130, "");
}

/// The pods of a run are deleted, unless they are kept.
#[tokio::test]
async fn a_failed_run_names_no_log_that_it_deletes() {
    let log = "its log: kubectl logs --namespace default hello-0-a --container hello";
    for reason in ["CommandFailed", "ContainerFailed"] {
        for (options, is_named) in [(&[][..], false), (&["--keep"], true)] {
            let scene = Scene::new().await;
            let run = running(&scene, options).await;
            run.reports("hello: Running").await;
            scene.endpoint.logs.end(LOG);
            scene.pod("hello", 0, "a", "terminated");
            // One change: `run` ends with it.
            scene.change("hello", |object| {
                let status = &mut object["status"];
                status["state"] = "Failed".into();
                status["reason"] = reason.into();
                status["exitCode"] = 7.into();
                let condition = &mut status["conditions"][0];
                condition["type"] = "Failed".into();
                condition["reason"] = reason.into();
                condition["message"] = format!("it has failed; {log}").into();
            });
            let ended = run.end().await;
            expect(&ended, 7, "");
            assert!(ended.err.contains("it has failed"), "{}", ended.err);
            assert_eq!(ended.err.contains(log), is_named, "{}", ended.err);
            let again = ended.err.contains("remedy: run it again with `--keep`, then see its log");
            assert_eq!(again, reason == "ContainerFailed" && !is_named, "{}", ended.err);
        }
    }
}
