//! `logs`: which lines of which containers it prints, and its exit code.

use crate::scene::Scene;
use flux_testkit::http::Reaction;
use std::time::Duration;

/// An ended MiniCluster `hello` of two ranks, each with two lines of output.
async fn ended() -> Scene {
    let scene = Scene::new().await;
    scene.minicluster("hello", "Complete", "CommandSucceeded", Some(0));
    for rank in 0..2 {
        let pod = scene.pod("hello", rank, "a", "terminated");
        let lines = [format!("a of {rank}"), format!("b of {rank}")];
        let lines = lines.each_ref().map(String::as_bytes);
        scene.endpoint.logs.write(&format!("{pod}/hello"), &lines);
        scene.endpoint.logs.end(&format!("{pod}/hello"));
    }
    scene
}

#[tokio::test]
async fn an_ended_run_is_printed_whole() {
    let scene = ended().await;
    for follow in [&["--follow"][..], &[]] {
        // The watch of the MiniCluster shows the end before the pods are known, and each log breaks once.
        let slow = Reaction::Delay(Duration::from_millis(300));
        scene.endpoint.react("GET /api/v1/namespaces/default/pods?", 3, slow);
        scene.endpoint.react("/log?", 2, Reaction::CutAfter(1));
        let printed = scene.ends(&[&["logs", "hello", "-oraw"], follow].concat()).await;
        let mut lines: Vec<&str> = printed.out.lines().collect();
        if !follow.is_empty() {
            lines.sort_unstable();
        }
        assert_eq!(lines, ["a of 0", "a of 1", "b of 0", "b of 1"], "{}", printed.err);
        assert_eq!(printed.code, 0, "{}", printed.err);
    }
}

#[tokio::test]
async fn options_choose_lines_and_their_format() {
    let scene = ended().await;
    let pod = scene.pod("hello", 1, "b", "terminated");
    let (logs, log) = (&scene.endpoint.logs, format!("{pod}/hello"));
    logs.write(&log, &[b"flux-agent: run", b"again", b"sched.err[0]: x"]);
    logs.end(&log);
    for (options, printed) in [
        ("", "  0 | a of 0\n  0 | b of 0\n  1 | again\n"),
        ("--tail=1", "  0 | b of 0\n  1 | again\n"),
        ("--tail=1 --broker -r1", "  1 | sched.err[0]: x\n"),
        ("--tail=0", ""),
        ("--previous", "  1 | a of 1\n  1 | b of 1\n"),
        ("-oraw --since-time=2026-01-01T00:00:01Z", "b of 0\nagain\n"),
        ("-r0 --timestamps --tail=1", "  0 | 2026-01-01T00:00:01.500000000Z b of 0\n"),
        (
            "-ojson -r1",
            "{\"line\":\"again\",\"pod\":\"hello-1-b\",\"rank\":1,\"time\":\"2026-01-01T00:00:01.500000000Z\"}\n",
        ),
    ] {
        let words = ["logs", "hello"].into_iter().chain(options.split_whitespace());
        let ended = scene.ends(&words.collect::<Vec<_>>()).await;
        assert_eq!((ended.code, ended.out.as_str()), (0, printed), "{options}: {}", ended.err);
        // The agent's first line is missing.
        let warns = ended.err.contains("the node has rotated");
        assert_eq!(warns, ["", "--previous"].contains(&options), "{options}: {}", ended.err);
    }
    scene.ends(&["logs", "hello", "--since=1h30m"]).await;
    assert_eq!(scene.endpoint.count("sinceSeconds=5400"), 2);
}

#[tokio::test]
async fn bytes_are_printed_as_they_are() {
    let scene = ended().await;
    let line: &[u8] = b"\xff\xfe \x1b[1mx  \r";
    scene.endpoint.logs.write("hello-0-a/hello", &[line]);
    for follow in [&["-f"][..], &[]] {
        let arguments = [&["logs", "hello", "-oraw", "--rank=0"], follow].concat();
        let output = scene.command(&arguments).output().await.unwrap();
        let printed = output.stdout.strip_prefix(b"a of 0\nb of 0\n").unwrap();
        assert_eq!(printed.strip_suffix(b"\n"), Some(line));
    }
}

#[tokio::test]
async fn nothing_that_could_be_read_is_a_failure() {
    let scene = ended().await;
    let nosuch = "the pods of hello have no container nosuch; they have hello";
    let lines = [
        ("logs hello --container=nosuch", 1, nosuch),
        ("logs hello --rank=99", 1, "hello has no rank 99; it has the ranks 0 to 1"),
        ("logs hello --previous", 1, "no rank of hello has run before"),
        ("logs hello -f --container=nosuch", 1, nosuch),
    ];
    scene.each_ends(&lines).await;
    scene.endpoint.react("hello-1-a/log", 1, Reaction::Refuse(403));
    scene.each_ends(&[("logs hello", 0, "rank 1 (hello-1-a): refused by the test")]).await;
    scene.endpoint.react("/log", 2, Reaction::Refuse(403));
    scene.each_ends(&[("logs hello", 1, "no log could be read")]).await;
}

#[tokio::test]
async fn containers_and_pods_that_start_later_are_followed() {
    let scene = Scene::new().await;
    scene.minicluster("hello", "Running", "Running", None);
    let container = "sidecar";
    let pods = [scene.pod("hello", 0, "a", "running"), scene.pod("hello", 0, "b", "waiting")];
    for pod in &pods {
        scene.container(pod, container, "waiting");
    }
    // A run may last for hours, so the refusal is reported now.
    scene.endpoint.react("GET /api/v1/namespaces/default/pods?", 1, Reaction::Refuse(403));
    scene.each_ends(&[("logs hello -f", 1, "refused by the test")]).await;
    let logs = scene.start(&["logs", "hello", "-f", "-oraw", "-c", container]);
    scene.endpoint.await_requests("watch=true", 2).await;
    for (pod, line) in pods.iter().zip(["one", "two"]) {
        scene.container(pod, container, "running");
        let log = format!("{pod}/{container}");
        scene.endpoint.logs.write(&log, &[line.as_bytes()]);
        logs.prints(line).await;
        scene.container(pod, container, "terminated");
        scene.endpoint.logs.end(&log);
    }
    scene.minicluster("hello", "Complete", "CommandSucceeded", Some(0));
    let ended = logs.end().await;
    assert_eq!((ended.code, ended.out.as_str()), (0, "one\ntwo\n"), "{}", ended.err);
}

/// As `run` deletes the MiniCluster that it has made.
#[tokio::test]
async fn followed_logs_end_with_a_deleted_minicluster() {
    let scene = Scene::hello("Running", "running").await;
    let logs = scene.start(&["logs", "--follow", "hello"]);
    logs.prints("one\n").await;
    scene.ends(&["delete", "hello"]).await;
    scene.endpoint.logs.end("hello-0-a/hello");
    scene.pod("hello", 0, "a", "terminated");
    let ended = logs.end().await;
    assert_eq!((ended.code, ended.err.as_str()), (0, ""));
}
