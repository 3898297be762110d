//! `run`: the exit code, the output and the end of what it made.

use crate::scene::Scene;
use nix::sys::signal::Signal;

/// A run of the MiniCluster `hello` whose lead runs.
async fn running(scene: &Scene, options: &[&str]) -> crate::process::Process {
    let run = [&["run", "ubuntu", "--name=hello"], options, &["--", "true"]].concat();
    let run = scene.start(&run);
    scene.endpoint.await_requests("POST ", 1).await;
    scene.minicluster("hello", "Running", "Running", None);
    scene.pod("hello", 0, "a", "running");
    run
}

#[tokio::test]
async fn a_run_prints_its_output_and_ends_with_its_code() {
    let scene = Scene::new().await;
    let run = running(&scene, &[]).await;
    scene.endpoint.logs.write("hello-0-a/hello", &[b"one", b"two"]);
    run.prints("two\n").await;
    scene.endpoint.logs.end("hello-0-a/hello");
    scene.pod("hello", 0, "a", "terminated");
    scene.minicluster("hello", "Failed", "CommandFailed", Some(7));
    let ended = run.end().await;
    assert_eq!((ended.code, ended.out.as_str()), (7, "one\ntwo\n"), "{}", ended.err);
    assert!(scene.get("hello").is_none());
}

#[tokio::test]
async fn an_interrupted_run_is_deleted() {
    let scene = Scene::new().await;
    let run = running(&scene, &[]).await;
    run.reports("Running").await;
    run.signal(Signal::SIGINT);
    let ended = run.end().await;
    assert_eq!(ended.code, 130, "{}", ended.err);
    assert!(scene.get("hello").is_none());
}
