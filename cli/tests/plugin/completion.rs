//! Completion for kubectl, which runs the plugin by another name.

use crate::process::{Ended, Process};
use crate::scene::Scene;
use serde_json::json;
use std::path::Path;
use tokio::process::Command;

/// Runs a program in the directory of the scene, where also its `PATH` is.
async fn ran(scene: &Scene, program: &Path, words: &[&str]) -> Ended {
    let mut command = Command::new(program);
    command.args(words).env("PATH", scene.path("")).current_dir(scene.path(""));
    Process::start(command).end().await
}

#[tokio::test]
async fn kubectl_completes_by_the_installed_program() {
    let scene = Scene::hello("Running", "running").await;
    scene.pod("hello", 1, "a", "running");
    let namespace = json!({ "metadata": { "name": "lab" } });
    scene.endpoint.server.put("/api/v1/namespaces/lab", namespace);
    scene.file("in.lj", "");
    let plugin = scene.path("kubectl-flux");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_kubectl-flux"), &plugin).unwrap();
    let program = scene.path("kubectl_complete-flux");
    for _ in 0..2 {
        let installed = ran(&scene, &plugin, &["completion", "install"]).await;
        assert_eq!((installed.code, installed.out), (0, format!("{}\n", program.display())));
    }
    let kubeconfig = scene.path("kubeconfig");
    let kubeconfig = ["--kubeconfig", kubeconfig.to_str().unwrap()];
    for (line, expected) in [
        ("status ", "hello\n:4\n"),
        ("logs hello --rank ", "0\n1\n:4\n"),
        ("logs hello --rank 0,", "0,0\n0,1\n:4\n"),
        ("exec hello --rank 1", "1\n:4\n"),
        ("logs hello --container ", "hello\n:4\n"),
        ("list --namespace l", "lab\n:4\n"),
        ("list --context ", "test\n:4\n"),
        ("cp hel", "hello:\n:6\n"),
        ("cp in", "in.lj\n:4\n"),
        ("cp in.lj ./i", "./in.lj\n:4\n"),
        ("run -f in", ":0\n"),
        ("validate ", ":0\n"),
        ("render ", ":0\n"),
        ("migrate ", ":0\n"),
        ("list --kubeconfig ", ":0\n"),
        ("susp", "suspend\tSuspend a MiniCluster: its pods are deleted\n:4\n"),
        ("wait hello --for r", "ready\n:4\n"),
        (
            "exec hello --al",
            "--all\tRun it in all running ranks, without input, and end with the highest exit code\n:4\n",
        ),
        ("no-such-command x", ":4\n"),
        // The simulated API server starts no programs, so it has no jobs.
        ("cancel hello ", ":4\n"),
    ] {
        let words: Vec<&str> = kubeconfig.into_iter().chain(line.split(' ')).collect();
        let ended = ran(&scene, &program, &words).await;
        // An option may stand wherever a name may.
        let is_wanted = |it: &&str| !it.starts_with("--") || line.ends_with("--al");
        let values = ended.out.split_inclusive('\n').filter(is_wanted);
        let values: String = values.collect();
        assert_eq!((ended.code, values.as_str()), (0, expected), "{line}: {}", ended.err);
    }
    assert_eq!(scene.endpoint.count("/hello-0-a/exec?"), 1);
}
