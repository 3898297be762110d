//! How a run ends when its MiniCluster or its namespace is deleted.

use crate::prelude::*;
use e2e::product::images::for_tests::STOPPED_BY_SIGWINCH;
use e2e::trial::logs::follow_lead;

const UBUNTU: &str = "ubuntu:24.04";

/// A script that prints when it runs, when it gets a signal, and when it has saved, which takes a large part of the grace
/// period.
const SAVES: &str = "cat > /tmp/saves <<'END'
trap 'echo $1 got HUP' HUP
trap 'echo $1 got TERM; sleep 20; echo $1 saved; exit 0' TERM
echo $1 runs; while :; do sleep 0.1; done
END";

/// Runs `container`, deletes it when `all` of its processes run, with a minute to end, and checks that each of them got
/// SIGTERM and saved.
async fn deleted_while_it_runs(
    trial: &Trial,
    name: &str,
    image: &str,
    container: &str,
    all: &[&str],
) -> Result<()> {
    let container = format!("image: '{image}', commands: {{pre: {SAVES:?}}}, {container}");
    let spec = format!("{{size: 1, flux: {{drainSeconds: 60}}, containers: [{{{container}}}]}}");
    let run = trial.start(name, &spec).await?;
    for process in all {
        run.printed(0, &format!("{process} runs")).await?;
    }
    let mut log = Vec::new();
    let followed = follow_lead(trial, name, DEADLINE, |line| log.push(line.to_owned()));
    let deleted = async { run.kubectl(&["delete", "minicluster", name, "--wait=false"]) };
    // The log ends with the pod, perhaps in the middle of a line.
    let both = Box::pin(async { tokio::join!(followed, deleted).1 });
    let ended = tokio::time::timeout(DEADLINE, both).await;
    ended.with_context(|| format!("following the log of {name} to its end"))??;
    for line in all.iter().flat_map(|it| ["got TERM", "saved"].map(|end| format!("{it} {end}"))) {
        ensure!(log.contains(&line), "no {line:?} in the log of {name}: {log:#?}");
    }
    let harmed = log.iter().any(|line| line.contains("got HUP") || line.contains("killing it"));
    ensure!(!harmed, "log of {name}: {log:#?}");
    Ok(())
}

#[test]
#[ignore = "needs a cluster"]
fn a_deleted_command_and_its_children_have_time_to_save() {
    trial("saves", async |trial| {
        let launcher =
            "launcher: true, command: 'sh /tmp/saves child & set -- parent; . /tmp/saves'";
        let shell = "launcher: true, command: 'sh /tmp/saves child; echo b'";
        let job = "command: 'sh /tmp/saves task; echo b'";
        tokio::try_join!(
            deleted_while_it_runs(trial, "launcher", UBUNTU, launcher, &["child", "parent"]),
            deleted_while_it_runs(trial, "shell", UBUNTU, shell, &["child"]),
            deleted_while_it_runs(trial, "job", UBUNTU, job, &["task"]),
        )?;
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn an_image_with_another_stop_signal_is_stopped_in_order() {
    trial("stop-signal", async |trial| {
        let launcher = "launcher: true, command: 'set -- parent; . /tmp/saves'";
        let image = STOPPED_BY_SIGWINCH;
        deleted_while_it_runs(trial, "stop-signal", image, launcher, &["parent"]).await
    });
}

#[test]
#[ignore = "needs a cluster"]
fn a_namespace_goes_with_the_minicluster_that_runs_in_it() {
    trial("around", async |trial| {
        let inside = trial.another("inside").await?;
        inside.run("inside", "size: 2, interactive: true", "").await?.ready().await?;
        inside.kubectl(&["delete", "namespace", inside.namespace(), "--timeout=3m"]).map(drop)
    });
}
