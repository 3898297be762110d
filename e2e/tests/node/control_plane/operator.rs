//! Operators that are processes of the test: they can be killed and started at any moment, without the pauses that
//! the kubelet makes. They act by the rights of the operator's account.

use std::{
    fs::File,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use e2e::{
    product::install::{NAME, NAMESPACE},
    programs,
    trial::Trial,
};
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Container, EnvVar},
};
use kube::{Api, api::DeleteParams};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::{Plane, until};

/// How operators are started.
pub(super) struct Operators<'run> {
    plane: &'run Plane<'run>,
    /// The operator's container in the Deployment: its arguments and its variables are its options.
    container: Container,
    /// Has the kubeconfig and the logs.
    directory: tempfile::TempDir,
    leases: Api<Lease>,
}

/// An operator that runs.
pub(super) struct Operator {
    child: Child,
    log: PathBuf,
    metrics: u16,
}

impl<'run> Operators<'run> {
    /// Operators with the options of the Deployment; none runs before the first is started.
    pub(super) async fn prepare(plane: &'run Plane<'run>, trial: &Trial) -> Result<Self> {
        let path = "-ojsonpath={.spec.template.spec.containers[0]}";
        let container = plane.kubectl(&["-n", NAMESPACE, "get", "deployment", NAME, path])?;
        let operators = Self {
            plane,
            container: serde_json::from_str(&container).context("reading the container")?,
            directory: tempfile::tempdir()?,
            leases: Api::namespaced(trial.client().clone(), NAMESPACE),
        };
        operators.write_kubeconfig()?;
        operators.forget_holder().await?;
        Ok(operators)
    }

    fn kubeconfig(&self) -> PathBuf {
        self.directory.path().join("kubeconfig")
    }

    /// The administrator's, with a token of the operator's account.
    fn write_kubeconfig(&self) -> Result<()> {
        let cluster = self.plane.cluster;
        std::fs::copy(cluster.kubeconfig(), self.kubeconfig()).context("copying a kubeconfig")?;
        let token = ["create", "token", NAME, "-n", NAMESPACE, "--duration=3h"];
        let token = format!("--token={}", self.plane.kubectl(&token)?.trim());
        let space = format!("--namespace={NAMESPACE}");
        let user = format!("--user={NAME}");
        for words in
            [&["set-credentials", NAME, &token][..], &["set-context", "--current", &user, &space]]
        {
            let mut kubectl = cluster.kubectl(["config"]);
            programs::run(kubectl.args(words).arg("--kubeconfig").arg(self.kubeconfig()))?;
        }
        Ok(())
    }

    /// Starts an operator of this name, which serves its metrics at port `metrics` and its health at the next.
    pub(super) fn start(&self, name: &str, metrics: u16) -> Result<Operator> {
        self.start_with(name, metrics, |_| {})
    }

    /// The same, with more in its environment.
    pub(super) fn start_with(
        &self,
        name: &str,
        metrics: u16,
        environment: impl FnOnce(&mut Command),
    ) -> Result<Operator> {
        let program = self.plane.environment.operator().context("the operator was not built")?;
        let log = self.directory.path().join(format!("{name}.log"));
        let output = File::options().create(true).append(true).open(&log)?;
        let mut command = self.plane.cluster.program(program);
        command
            .args(self.container.args.iter().flatten())
            .envs(self.container.env.iter().flatten().filter_map(literal))
            .arg(format!("--identity={name}"))
            .arg(format!("--metrics-bind=127.0.0.1:{metrics}"))
            .arg(format!("--health-bind=127.0.0.1:{}", metrics + 1))
            .env("KUBECONFIG", self.kubeconfig())
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        environment(&mut command);
        let child = command.spawn().context("starting an operator")?;
        Ok(Operator { child, log, metrics })
    }

    /// Who holds the Lease.
    pub(super) async fn holder(&self) -> Result<Option<String>> {
        let lease = self.leases.get_opt(NAME).await.context("reading the Lease")?;
        Ok(lease.and_then(|lease| lease.spec?.holder_identity))
    }

    /// Deletes the Lease of an operator that was killed, so that the next need not wait for its end.
    pub(super) async fn forget_holder(&self) -> Result<()> {
        match self.leases.delete(NAME, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            deleted => deleted.map(drop).context("deleting the Lease"),
        }
    }
}

/// A variable whose value is in the Deployment itself.
fn literal(variable: &EnvVar) -> Option<(&String, &String)> {
    Some((&variable.name, variable.value.as_ref()?))
}

impl Operator {
    /// Kills it, as the kernel does when memory is short.
    pub(super) fn kill(mut self) -> Result<()> {
        self.ensure_alive()?;
        self.child.kill().context("killing an operator")?;
        self.child.wait().context("waiting for an operator").map(drop)
    }

    /// Fails if it has ended by itself.
    pub(super) fn ensure_alive(&mut self) -> Result<()> {
        let ended = self.child.try_wait().context("looking for an operator")?;
        ensure!(ended.is_none(), "an operator ended: {ended:?}:\n{}", self.tail());
        Ok(())
    }

    /// The end of what it has logged.
    pub(super) fn tail(&self) -> String {
        programs::tail(&self.log, 30)
    }

    /// The value of a metric.
    async fn metric(&self, name: &str) -> Result<Option<String>> {
        let mut connection = TcpStream::connect(("127.0.0.1", self.metrics)).await?;
        connection.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").await?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await?;
        let value = |line: &str| Some(line.strip_prefix(name)?.strip_prefix(' ')?.to_owned());
        Ok(answer.lines().find_map(value))
    }

    /// Whether it acts, and how often it has reconciled.
    pub(super) async fn acts(&self) -> Result<(bool, bool)> {
        let leads = self.metric("flux_operator_is_leader").await?;
        let runs = self.metric("flux_operator_reconcile_runs_total").await?;
        let leads = leads.context("no metric says whether it leads")?;
        let runs = runs.context("no metric says how often it has reconciled")?;
        Ok((leads == "1", runs != "0"))
    }

    /// Waits until it acts.
    pub(super) async fn await_acting(&self) -> Result<()> {
        until("an operator to act", async || {
            let acts = self.acts().await.unwrap_or_default();
            Ok(acts.0.then_some(()))
        })
        .await
    }
}

impl Drop for Operator {
    /// A test that fails leaves none.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
