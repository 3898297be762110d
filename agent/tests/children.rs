//! Waiting for every child of a process, which has to be one of its own.

use flux_agent::process::{Children, Running};
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;
use tokio::process::Command;

const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::test]
async fn every_child_gets_its_own_status_whatever_ended_it() {
    let children = Children::reaped().unwrap();
    let mut running: Vec<Running> = ["exit 3", "kill -9 $$", "kill -40 $$", "true"]
        .map(|script| children.spawn(Command::new("sh").args(["-c", script])).unwrap())
        .into();
    let mut raw = Vec::new();
    for running in &mut running {
        raw.push(tokio::time::timeout(PATIENCE, running.wait()).await.unwrap().into_raw());
    }
    assert_eq!(raw, [3 << 8, 9, 40, 0]);
    assert_eq!(running[0].wait().await.into_raw(), 3 << 8, "asked twice");
}
