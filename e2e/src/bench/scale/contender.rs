//! The operators that are measured: this one, and the one in Go where its binary is at hand.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use flux_contract::labels;
use serde_json::{Value, json};

use super::process::Operator;
use crate::{
    environment::Environment,
    product::install::{self, NAME, NAMESPACE},
};

/// The account of the operator in Go; it may do everything.
const PEER_ACCOUNT: (&str, &str) = ("default", "peer");

/// An operator that is measured.
pub(super) struct Contender {
    /// For people.
    pub(super) name: &'static str,
    program: PathBuf,
    arguments: &'static [&'static str],
    /// What is applied before it starts.
    manifests: Vec<String>,
    /// Namespace and name of its service account.
    account: (&'static str, &'static str),
    /// A Deployment of it that is applied as well, and must not run.
    deployed: bool,
    /// Of one Job, the pods that have to end for the Job to be complete, as label selectors.
    ending: fn(&str) -> String,
}

impl Contender {
    /// This operator, and the one in Go where its program and its definition are given.
    pub(super) fn all(ours: PathBuf, peer: Option<(&Path, &Path)>) -> Result<Vec<Self>> {
        let ours = Self::ours(ours)?;
        let peer = peer.map(|(program, definition)| Self::peer(program, definition)).transpose()?;
        Ok([ours].into_iter().chain(peer).collect())
    }

    fn ours(program: PathBuf) -> Result<Self> {
        Ok(Self {
            name: "this operator",
            program,
            arguments: &["run", "--metrics-bind=127.0.0.1:18080", "--health-bind=127.0.0.1:18081"],
            manifests: vec![install::definition()?, install::operator()?],
            account: (NAMESPACE, NAME),
            deployed: true,
            ending: |job| format!("{}={job},{}=0", labels::JOB_NAME, labels::COMPLETION_INDEX),
        })
    }

    fn peer(program: &Path, definition: &Path) -> Result<Self> {
        let reading = || format!("reading {}", definition.display());
        let definition = fs::read_to_string(definition).with_context(reading)?;
        Ok(Self {
            name: "operator in Go",
            program: program.to_owned(),
            arguments: &[
                "--metrics-bind-address=127.0.0.1:18080",
                "--health-probe-bind-address=127.0.0.1:18081",
            ],
            manifests: vec![definition, account(PEER_ACCOUNT).to_string()],
            account: PEER_ACCOUNT,
            deployed: false,
            ending: |job| format!("{}={job}", labels::JOB_NAME),
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
        if self.deployed {
            environment.kubectl(&[
                "scale",
                "deployment",
                self.account.1,
                "--replicas=0",
                "--namespace",
                self.account.0,
            ])?;
        }
        environment.await_definition()
    }

    /// Starts it with the rights of its service account; `directory` takes its kubeconfig and its log.
    pub(super) fn start(&self, environment: &Environment, directory: &Path) -> Result<Operator> {
        let (namespace, name) = self.account;
        let words = ["create", "token", name, "--namespace", namespace, "--duration=24h"];
        let token = environment.kubectl(&words)?;
        let path = environment.kubeconfig();
        let text = fs::read_to_string(path).context("reading the administrator's kubeconfig")?;
        let kubeconfig = directory.join("kubeconfig");
        fs::write(&kubeconfig, with_token(&text, token.trim())?)
            .with_context(|| format!("writing {}", kubeconfig.display()))?;
        Operator::start(&self.program, self.arguments, &kubeconfig, &directory.join("log"))
    }

    /// Whose requests are its.
    pub(super) fn user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.account.0, self.account.1)
    }

    /// The pods of `job` that have to end for it to be complete, as a label selector.
    pub(super) fn ending(&self, job: &str) -> String {
        (self.ending)(job)
    }
}

/// A service account that may do everything.
fn account((namespace, name): (&str, &str)) -> Value {
    let group = "rbac.authorization.k8s.io";
    json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}},
        {
            "apiVersion": format!("{group}/v1"),
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        },
    ]})
}

/// This kubeconfig for somebody who shows `token`.
fn with_token(kubeconfig: &str, token: &str) -> Result<String> {
    let mut kubeconfig: Value =
        serde_json::from_str(kubeconfig).context("reading the administrator's kubeconfig")?;
    let user = kubeconfig.pointer_mut("/users/0/user").context("the kubeconfig has no user")?;
    *user = json!({"token": token});
    Ok(kubeconfig.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_takes_the_place_of_the_certificate() {
        let before = r#"{"users": [{"name": "a", "user": {"client-key": "k"}}], "clusters": []}"#;
        let after: Value = serde_json::from_str(&with_token(before, "t").unwrap()).unwrap();
        assert_eq!(after["users"][0], json!({"name": "a", "user": {"token": "t"}}));
        assert!(with_token("{}", "t").is_err());
    }

    #[test]
    fn the_account_is_bound_in_its_namespace() {
        let items = &account(("here", "me"))["items"];
        assert_eq!(items[0]["metadata"], json!({"name": "me", "namespace": "here"}));
        assert_eq!(items[1]["subjects"][0]["namespace"], "here");
    }
}
