//! Waiting for every child of a process: tests take turns, for each of them waits for all there are.

use flux_agent::process::{Children, Running};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::process::Command;
use tokio::sync::Mutex;

static TURN: Mutex<()> = Mutex::const_new(());
const PATIENCE: Duration = Duration::from_secs(20);

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]).stdout(Stdio::piped());
    command
}

#[tokio::test]
async fn every_child_gets_its_own_status_whatever_ended_it() {
    let _turn = TURN.lock().await;
    let children = Children::reaped().unwrap();
    let scripts = ["exit 3", "kill -9 $$", "kill -40 $$", "true"];
    let mut running: Vec<Running> =
        scripts.iter().map(|script| children.spawn(&mut shell(script)).unwrap()).collect();
    let mut raw = Vec::new();
    for running in &mut running {
        raw.push(tokio::time::timeout(PATIENCE, running.wait()).await.unwrap().into_raw());
    }
    assert_eq!(raw, [3 << 8, 9, 40, 0]);
    assert_eq!(running[0].wait().await.into_raw(), 3 << 8, "asked twice");
}

#[tokio::test]
async fn one_that_is_dropped_is_killed_with_its_group() {
    let _turn = TURN.lock().await;
    let children = Children::reaped().unwrap();
    let mut running = children.spawn(&mut shell("sleep 600 & echo $!; wait")).unwrap();
    let mut stdout = running.stdout.take().unwrap();
    let mut pids = vec![running.pid.to_string()];
    let mut text = [0; 64];
    let length = stdout.read(&mut text).await.unwrap();
    pids.push(std::str::from_utf8(&text[..length]).unwrap().trim().to_owned());
    drop(running);
    let runs = |pid: &String| {
        fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
    };
    let gone = async {
        while pids.iter().any(runs) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.unwrap();
}
