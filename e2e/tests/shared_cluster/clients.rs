//! Clients that were written for the Go operator: they enter the lead as root and call `flux`, or ask for its
//! diagnostics.

use crate::prelude::*;
use e2e::product::python;

#[test]
#[ignore = "needs a cluster"]
fn the_python_sdk_creates_submits_runs_and_follows() {
    // Before the trial: the cluster's network does not reach the package index.
    let requirements =
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/shared_cluster/python_requirements.txt");
    let packages = python::packages(Path::new(requirements)).unwrap();
    trial("python", async |trial| {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/shared_cluster/python_sdk.py");
        let mut python = trial.program(Path::new("python3"));
        python.args([script, trial.namespace()]).env("PYTHONPATH", &packages);
        programs::run(&mut python).map(drop)
    });
}

/// The lead and the pod of the services also have the labels by which these clients find them.
#[test]
#[ignore = "needs a cluster"]
fn root_submits_from_any_directory_with_and_without_the_helper() {
    trial("root", async |trial| {
        let spec = "{size: 2, interactive: true, containers: [
            {image: 'ubuntu:24.04', runFlux: true,
             resources: {limits: {cpu: '1', memory: 512Mi}, requests: {cpu: 100m}}},
            {image: 'ubuntu:24.04', name: beside, runFlux: false, command: sleep 600}],
            services: [{image: 'ubuntu:24.04', name: clock, command: sleep 600}]}";
        let run = trial.start("root", spec).await?;
        let lead = run.ready().await?;
        for (label, pod) in [
            ("batch.kubernetes.io/job-completion-index=0", lead.as_str()),
            ("job-index=services", "root-services"),
        ] {
            let found = run.kubectl(&["get", "pods", "-oname", "-l", label])?;
            ensure!(found.trim() == format!("pod/{pod}"), "{label}: {found}");
        }
        // The state `free` shows that Flux has not drained the node. It has as many cores as the limit has whole ones.
        let list = ["resource", "list", "--states=free", "-no", "{nnodes} {ncores}"];
        let counted = run.flux(&list).await?;
        ensure!(counted == "2 2", "nodes and cores: {counted}");
        let doctor = run.exec(0, &["/mnt/flux/bin/flux-agent", "resources"]).await?;
        ensure!(!doctor.contains("note:"), "{doctor}");
        // Programs announce their host names to each other.
        for (index, other) in [(0, "root-1"), (1, "root-0")] {
            run.exec(index, &["getent", "hosts", other]).await?;
        }
        let flux = "/mnt/flux/bin/flux";
        for container in [run.name, "beside"] {
            let ran = run.exec_in(&lead, container, &[flux, "run", "-N2", "hostname"])?;
            ensure!(sorted(&ran) == ["root-0", "root-1"], "{container}: {ran}");
            let user = run.exec_in(&lead, container, &[flux, "run", "id", "-un"])?;
            ensure!(user == "flux\n", "{container}: {user}");
            // A command line of the tutorials.
            let tutorial =
                ". /mnt/flux/flux-view.sh && flux proxy $fluxsocket flux submit hostname";
            let id = run.exec_in(&lead, container, &["/bin/sh", "-c", tutorial])?;
            ensure!(id.lines().count() == 1, "{container}: no id of a job: {id}");
        }
        for container in [run.name, "beside"] {
            let jobs = run.exec_in(&lead, container, &[flux, "jobs", "-a"])?;
            ensure!(jobs.matches(" hostname ").count() == 4, "{container}: {jobs}");
        }
        // An exec starts in the root directory, which Flux's user cannot write.
        let batch = "printf '#!/bin/sh\\nhostname\\n' > /tmp/script.sh; chmod 755 /tmp/script.sh
            job=$(/mnt/flux/bin/flux batch -N1 /tmp/script.sh) && /mnt/flux/bin/flux job status $job && cat ~flux/flux-*.out";
        let output = run.exec(0, &["sh", "-c", batch]).await?;
        ensure!(output.contains("root-"), "{output}");
        Ok(())
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
        // The broker logs in between. The stand-in answers some of the questions only, and reports the others.
        let answers: Vec<&str> = log.lines().filter(|line| !line.starts_with('<')).collect();
        let has_failed = |lines: &[&str]| {
            lines[1].starts_with("== failed")
                && !lines[0].ends_with("not simulated by the stand-in")
        };
        ensure!(!answers.windows(2).any(has_failed), "a question failed:\n{log}");
        run.ready().await.map(drop)
    });
}
