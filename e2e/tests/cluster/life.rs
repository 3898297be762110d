//! An instance that stays up, and one that goes with its namespace.

use anyhow::{Context as _, ensure};
use e2e::trial::Trial;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, ResourceExt as _,
    runtime::wait::{await_condition, conditions},
};

use crate::{DEADLINE, run, trial};

#[test]
#[ignore = "needs a cluster"]
fn a_namespace_goes_with_the_minicluster_that_runs_in_it() {
    trial("around", &[], async |trial| {
        let inside = Trial::begin(trial.client(), "inside", &[]).await?;
        run(&inside, "inside", "size: 2, interactive: true", "").await?.ready().await?;
        let namespaces: Api<Namespace> = Api::all(trial.client().clone());
        let namespace = inside.namespace().to_owned();
        let uid = namespaces.get(&namespace).await?.uid().unwrap_or_default();
        inside.clean().await?;
        let gone = await_condition(namespaces, &namespace, conditions::is_deleted(&uid));
        tokio::time::timeout(DEADLINE, gone).await.context("waiting for the namespace to go")??;
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn diagnostics_say_how_the_instance_stands_and_keep_it_up() {
    trial("diagnostics", &[], async |trial| {
        let run = run(trial, "diagnostics", "size: 2", "diagnostics: true").await?;
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
