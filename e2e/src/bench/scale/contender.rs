//! The operators that are measured: this one, and the one in Go where its program is at hand.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use flux_contract::labels;
use serde_json::{Value, json};

use crate::{
    bench::operator::Operator,
    environment::Environment,
    product::install::{self, NAME, NAMESPACE},
};

/// An operator that is measured.
pub(super) struct Contender {
    /// For people.
    pub(super) name: &'static str,
    program: PathBuf,
    arguments: &'static [&'static str],
    /// What is applied before it starts.
    manifests: Vec<String>,
    /// Where its service account is, whose name is [`NAME`].
    namespace: &'static str,
    /// Further labels of the pods of a Job that have to end for the Job to be complete.
    ending: String,
}

impl Contender {
    /// This operator.
    pub(super) fn ours(program: PathBuf) -> Result<Self> {
        // Its Deployment must not run beside the program that is measured.
        let operator = install::operator()?;
        let stopped = operator.replace("replicas: 1", "replicas: 0");
        anyhow::ensure!(stopped != operator, "deploy/operator.yaml has no `replicas: 1`");
        Ok(Self {
            name: "this operator",
            program,
            arguments: &["run", "--metrics-bind=127.0.0.1:18080", "--health-bind=127.0.0.1:18081"],
            manifests: vec![install::definition()?, stopped],
            namespace: NAMESPACE,
            ending: format!(",{}=0", labels::COMPLETION_INDEX),
        })
    }

    /// The operator in Go, with its CRD. All its pods have to end.
    pub(super) fn peer((program, definition): (&Path, &Path)) -> Result<Self> {
        let reading = || format!("reading {}", definition.display());
        let definition = fs::read_to_string(definition).with_context(reading)?;
        Ok(Self {
            name: "operator in Go",
            program: program.to_owned(),
            arguments: &[
                "--metrics-bind-address=127.0.0.1:18080",
                "--health-probe-bind-address=127.0.0.1:18081",
            ],
            manifests: vec![definition, include_str!("peer-account.yaml").to_owned()],
            namespace: "default",
            ending: String::new(),
        })
    }

    /// Applies what the operator needs in the cluster.
    pub(super) fn install(&self, environment: &Environment) -> Result<()> {
        for manifest in &self.manifests {
            let file = tempfile::NamedTempFile::new().context("making a file for a manifest")?;
            fs::write(file.path(), manifest).context("writing a manifest")?;
            let path = file.path().display().to_string();
            environment.kubectl(&["apply", "--server-side", "-f", &path])?;
        }
        environment.await_definition()
    }

    /// Starts it with the rights of its service account; `directory` takes its kubeconfig and its log.
    pub(super) fn start(&self, environment: &Environment, directory: &Path) -> Result<Operator> {
        let words = ["create", "token", NAME, "--namespace", self.namespace, "--duration=24h"];
        let token = environment.kubectl(&words)?;
        let reading = "reading the administrator's kubeconfig";
        let text = fs::read_to_string(environment.kubeconfig()).context(reading)?;
        let mut config: Value = serde_json::from_str(&text).context(reading)?;
        config["users"][0]["user"] = json!({"token": token.trim()});
        let kubeconfig = directory.join("kubeconfig");
        fs::write(&kubeconfig, config.to_string())
            .with_context(|| format!("writing {}", kubeconfig.display()))?;
        Operator::start(&self.program, self.arguments, &kubeconfig, &directory.join("log"))
    }

    /// The pods of `job` that have to end for it to be complete, as a label selector.
    pub(super) fn ending(&self, job: &str) -> String {
        format!("{}={job}{}", labels::JOB_NAME, self.ending)
    }
}
