//! An instance that stays up, and one that goes with its namespace.

use anyhow::ensure;

use crate::trial;

#[test]
#[ignore = "needs a cluster"]
fn a_namespace_goes_with_the_minicluster_that_runs_in_it() {
    trial("around", async |trial| {
        let inside = trial.another("inside").await?;
        inside.run("inside", "size: 2, interactive: true", "").await?.ready().await?;
        inside.kubectl(&["delete", "namespace", inside.namespace(), "--timeout=3m"]).map(drop)
    });
}

#[test]
#[ignore = "needs a cluster"]
fn diagnostics_say_how_the_instance_stands_and_keep_it_up() {
    trial("diagnostics", async |trial| {
        let run = trial.run("diagnostics", "size: 2", "diagnostics: true").await?;
        run.printed(0, "== the instance stays up").await?;
        let log = run.log(0).await?;
        for words in
            ["== which brokers are connected: ", "== whether a job runs: ", "\ndiagnostics-[0-1]\n"]
        {
            ensure!(log.contains(words), "no {words:?} in:\n{log}");
        }
        // The broker speaks in between. The stand-in answers some of the questions only, and says so.
        let answers: Vec<&str> = log.lines().filter(|line| !line.starts_with('<')).collect();
        let has_failed = |lines: &[&str]| {
            lines[1].starts_with("== failed")
                && !lines[0].ends_with("not simulated by the stand-in")
        };
        ensure!(!answers.windows(2).any(has_failed), "a question failed:\n{log}");
        run.ready().await.map(drop)
    });
}
