//! How a run ends that does not end by itself.

use std::sync::Mutex;

use anyhow::{Context as _, Result, ensure};
use e2e::trial::logs::follow_lead;
use flux_operator::crd::MiniCluster;
use kube::api::DeleteParams;
use tokio::sync::Notify;

use crate::{DEADLINE, Trial, trial};

/// A script that says when it runs, when it gets a signal, and when it has saved, which takes longer than a
/// small share of the grace period.
const SAVES: &str = "cat > /tmp/saves <<'END'
trap 'echo $1 got HUP' HUP
trap 'echo $1 got TERM; sleep 20; echo $1 saved; exit 0' TERM
echo $1 runs; while :; do sleep 0.1; done
END";

/// Runs `container`, deletes it when `all` of its processes run, with a minute to end, and looks whether each
/// of them got SIGTERM and saved.
async fn deleted_while_it_runs(
    trial: &Trial,
    name: &str,
    container: &str,
    all: &[&str],
) -> Result<()> {
    let container = format!("commands: {{pre: {SAVES:?}}}, {container}");
    trial.run(name, "size: 1, flux: {drainSeconds: 60}", &container).await?;
    let said = Mutex::new(Vec::<String>::new());
    let all_say = |what: &str| {
        let said = said.lock().unwrap();
        all.iter().all(|process| said.contains(&format!("{process} {what}")))
    };
    let runs = Notify::new();
    let followed = follow_lead(trial, name, DEADLINE, |line| {
        said.lock().unwrap().push(line.to_owned());
        if line.ends_with(" runs") && all_say("runs") {
            runs.notify_one();
        }
    });
    let deleted = async {
        runs.notified().await;
        let clusters = trial.api::<MiniCluster>();
        clusters.delete(name, &DeleteParams::default()).await.context("deleting it")
    };
    // With the pod its log is gone, in the middle of a line if need be.
    let both = Box::pin(async { tokio::join!(followed, deleted).1 });
    let ended = tokio::time::timeout(DEADLINE, both).await;
    let log = || said.lock().unwrap().join("\n");
    ended.with_context(|| format!("following the log of {name} to its end:\n{}", log()))??;
    ensure!(all_say("got TERM") && all_say("saved"), "log of {name}:\n{}", log());
    ensure!(!log().contains("got HUP") && !log().contains("killing it"), "{}", log());
    Ok(())
}

#[test]
#[ignore = "needs a cluster"]
fn a_command_that_is_deleted_gets_sigterm_with_all_it_started_and_time_to_save() {
    trial("saves", async |trial| {
        let launcher =
            "launcher: true, command: 'sh /tmp/saves child & set -- parent; . /tmp/saves'";
        let shell = "launcher: true, command: 'sh /tmp/saves child; echo b'";
        let job = "command: 'sh /tmp/saves task; echo b'";
        tokio::try_join!(
            deleted_while_it_runs(trial, "launcher", launcher, &["child", "parent"]),
            deleted_while_it_runs(trial, "shell", shell, &["child"]),
            deleted_while_it_runs(trial, "job", job, &["task"]),
        )?;
        Ok(())
    });
}
