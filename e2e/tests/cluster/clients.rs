//! People and programs that were written for the Go operator: they come into the lead as root and call
//! `flux`.

use crate::{apply, exec, ready_lead, trial};
use anyhow::{Result, ensure};
use e2e::{
    cache::{Cache, Key},
    environment::Environment,
    programs,
    progress::Progress,
};
use std::{path::PathBuf, process::Command};

/// The Python SDK as it is published, and what it stands on.
const PYTHON_PACKAGES: [&str; 7] = [
    "fluxoperator==0.2.0",
    "kubernetes==29.0.0",
    "python-dateutil==2.9.0.post0",
    "requests==2.32.3",
    "six==1.17.0",
    "urllib3==2.2.3",
    "websocket-client==1.8.0",
];

/// A directory with these packages, for `PYTHONPATH`. They come from the network, once.
fn python_packages() -> Result<PathBuf> {
    let wanted = PYTHON_PACKAGES.join("\n");
    let key = Key::new("python-sdk", "0.2.0", &[("packages", wanted.as_bytes())]);
    Cache::locate()?.artefact(&key, |directory| {
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--no-compile", "--target"]).arg(directory);
        programs::run(pip.args(PYTHON_PACKAGES)).map(|_| ())
    })
}

#[test]
#[ignore = "needs a cluster"]
fn the_python_sdk_creates_submits_runs_and_follows() {
    // Before the trial: in the cluster's network there is no way to the packages.
    let packages = python_packages().unwrap();
    trial("python", &[], async |trial| {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cluster/python_sdk.py");
        let environment = Environment::shared(&Progress::new())?;
        let mut python = Command::new("python3");
        python.args([script, trial.namespace()]).env("PYTHONPATH", &packages);
        programs::run(python.env("KUBECONFIG", environment.kubeconfig()))?;
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn root_submits_from_any_directory_with_and_without_the_helper() {
    trial("root", &[], async |trial| {
        let spec = "{size: 2, interactive: true, containers: [{image: 'ubuntu:24.04', runFlux: true}, {image: 'ubuntu:24.04', name: beside, runFlux: false, command: sleep 600}]}";
        let name = apply(trial, "root", spec).await?;
        let lead = ready_lead(trial, &name).await?;
        let flux = "/mnt/flux/bin/flux";
        let hosts = |text: &str| {
            let mut hosts: Vec<String> = text.lines().map(str::to_owned).collect();
            hosts.sort_unstable();
            hosts
        };
        for container in [&*name, "beside"] {
            let ran = exec(trial, &lead, container, &[flux, "run", "-N2", "hostname"])?;
            ensure!(hosts(&ran) == ["root-0", "root-1"], "{container}: {ran}");
            let user = exec(trial, &lead, container, &[flux, "run", "id", "-un"])?;
            ensure!(user == "flux\n", "{container}: {user}");
            // As the tutorials have it.
            let tutorial =
                ". /mnt/flux/flux-view.sh && flux proxy $fluxsocket flux submit hostname";
            let id = exec(trial, &lead, container, &["/bin/sh", "-c", tutorial])?;
            ensure!(id.lines().count() == 1, "{container}: no id of a job: {id}");
        }
        for container in [&*name, "beside"] {
            let jobs = exec(trial, &lead, container, &[flux, "jobs", "-a"])?;
            ensure!(jobs.matches(" hostname ").count() == 4, "{container}: {jobs}");
        }
        // An exec starts in the root directory, which Flux's user cannot write.
        let batch = "printf '#!/bin/sh\\nhostname\\n' > /tmp/script.sh; chmod 755 /tmp/script.sh
            job=$(/mnt/flux/bin/flux batch -N1 /tmp/script.sh) && /mnt/flux/bin/flux job status $job && cat ~flux/flux-*.out";
        let output = exec(trial, &lead, &name, &["sh", "-c", batch])?;
        ensure!(output.contains("root-"), "{output}");
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn flux_schedules_on_as_many_cores_as_the_limit_has_whole_ones() {
    trial("cores", &[], async |trial| {
        let spec = "{size: 2, interactive: true, containers: [{image: 'ubuntu:24.04', resources: {limits: {cpu: '1', memory: 512Mi}, requests: {cpu: 100m}}}]}";
        let name = apply(trial, "cores", spec).await?;
        let lead = ready_lead(trial, &name).await?;
        let flux = "/mnt/flux/bin/flux";
        // Free: Flux lists a node that it has drained as down.
        let list =
            ["resource", "list", "--no-header", "--states=free", "--format={nnodes} {ncores}"];
        let counted = exec(trial, &lead, &name, &[&[flux][..], &list].concat())?;
        ensure!(counted == "2 2\n", "nodes and cores: {counted}");
        let doctor = exec(trial, &lead, &name, &["/mnt/flux/bin/flux-agent", "resources"])?;
        ensure!(!doctor.contains("note:"), "{doctor}");
        Ok(())
    });
}
