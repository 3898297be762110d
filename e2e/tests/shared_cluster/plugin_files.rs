//! Objects that `kubectl flux` makes of files and of command lines: the cluster accepts them.

use crate::prelude::*;
use std::{fs, os::unix};

/// An example of the Go operator, as its users have it.
const OF_GO: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../cli/src/commands/migrate/tests/old.yaml");
const MPI: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/mpi/minicluster.yaml");

/// The kinds of the objects in `manifest`, if the API server accepts them.
fn taken(trial: &Trial, directory: &Path, manifest: &str) -> Result<Vec<String>> {
    let file = directory.join("manifest.yaml");
    fs::write(&file, manifest)?;
    let file = file.to_str().context("not UTF-8")?;
    let words = ["apply", "--dry-run=server", "--validate=strict", "--output=name", "-f", file];
    let names = trial.kubectl(&words)?;
    let kinds = names.lines().map(|name| name.split(['/', '.']).next().unwrap_or(name).to_owned());
    Ok(kinds.collect())
}

#[test]
#[ignore = "needs a cluster"]
fn the_cluster_accepts_rendered_and_migrated_objects() {
    trial("plugin-files", async |trial| {
        let directory = tempfile::tempdir()?;
        let rendered = trial.plugin_prints(&["render", MPI])?;
        let kinds = taken(trial, directory.path(), &rendered)?;
        for kind in ["job", "configmap", "secret", "service"] {
            ensure!(kinds.iter().any(|it| it == kind), "no {kind} in {kinds:?} of {rendered}");
        }
        let migrated = trial.plugin_prints(&["migrate", OF_GO])?;
        let kinds = taken(trial, directory.path(), &migrated)?;
        ensure!(kinds.contains(&"minicluster".to_owned()), "{kinds:?} of {migrated}");
        let wrong = directory.path().join("wrong.yaml");
        fs::write(&wrong, migrated.replacen("size:", "siez:", 1))?;
        let words = ["validate", wrong.to_str().context("not UTF-8")?];
        let refused = trial.plugin_ends(1, &words)?;
        ensure!(refused.err.contains("spec.siez"), "{refused:?}");
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn faults_are_named_before_anything_is_created() {
    trial("plugin-server", async |trial| {
        let directory = tempfile::tempdir()?;
        let file = directory.path().join("file.yaml");
        let path = file.to_str().context("not UTF-8")?.to_owned();
        let validate = |code, container: &str| -> Result<String> {
            let spec = specification(&["size: 1"], container);
            fs::write(&file, e2e::trial::minicluster("file", &spec))?;
            let printed = trial.plugin_ends(code, &["validate", "--dry-run=server", &path])?;
            Ok(printed.out + &printed.err)
        };
        validate(0, "command: hostname")?;
        let text = validate(1, "command: hostname, securityContext: {runAsUser: -1}")?;
        let named = "spec.containers[0].securityContext.runAsUser: the API server refuses Job";
        ensure!(text.contains(named), "{text}");
        let left = trial.kubectl(&["get", "minicluster,job,service", "--output=name"])?;
        ensure!(left.trim().is_empty(), "{left}");
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn names_of_miniclusters_are_completed() {
    trial("plugin-names", async |trial| {
        let spec = specification(&["size: 1", "suspend: true"], "command: 'true'");
        trial.start("first", &spec).await?;
        trial.start("second", &spec).await?;
        let directory = tempfile::tempdir()?;
        // kubectl calls the plugin by this name for completion.
        let link = directory.path().join("kubectl_complete-flux");
        let plugin = trial.plugin(&[])?;
        let mut words = [plugin.get_program()].into_iter().chain(plugin.get_args());
        let program = words.find(|word| Path::new(word).ends_with("kubectl-flux"));
        unix::fs::symlink(program.context("no plugin")?, &link)?;
        let words = ["--namespace", trial.namespace(), "status", "f"];
        let output = programs::run(trial.program(&link).args(words))?;
        ensure!(output.stdout == b"first\n:4\n", "{output:?}");
        let script = trial.plugin_prints(&["completion", "bash"])?;
        ensure!(script.contains("kubectl-flux"), "{script}");
        Ok(())
    });
}
