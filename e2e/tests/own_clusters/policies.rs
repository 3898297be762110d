//! NetworkPolicies that are enforced: the operator's own, and the one of the pages for MiniClusters. On a cluster of its
//! own, because a program beside the kubelet decides about every connection between pods. Needs root.

use crate::prelude::*;
use e2e::cache::Cache;
use e2e::kubernetes::go_programs;
use flux_contract::OVERLAY_PORT;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

const OPERATORS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../deploy/components/network-policy/network-policy.yaml"
);
const PAGE: &str = include_str!("../../../docs/how-to/restricted-clusters.md");
/// The ports of the operator.
const METRICS: u16 = 8080;
const HEALTH: u16 = 8081;

/// What enforces the policies; ended when this is dropped.
struct Enforcer(Child);

impl Enforcer {
    fn start(environment: &Environment) -> Result<Self> {
        let program = go_programs("network-policies", &Cache::locate()?)?.join("network-policies");
        let mut command = environment.cluster.program(&program);
        let started = command.stdout(Stdio::piped()).spawn();
        let mut enforcer = Self(started.context("starting what enforces policies")?);
        let mut line = String::new();
        let printed = enforcer.0.stdout.as_mut().context("it has no output")?;
        BufReader::new(printed).read_line(&mut line).context("reading whether it is ready")?;
        ensure!(line == "ready\n", "policies are not enforced: it has printed {line:?}");
        Ok(enforcer)
    }
}

impl Drop for Enforcer {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A pod that connects to others.
struct Probe<'run>(Instance<'run>);

impl Probe<'_> {
    async fn reaches(&self, address: &str, port: u16) -> bool {
        let connect = format!("exec 3<>/dev/tcp/{address}/{port}");
        self.0.exec(0, &["timeout", "2", "bash", "-c", &connect]).await.is_ok()
    }

    async fn await_refusal(&self, address: &str, port: u16) -> Result<()> {
        let what = format!("{address}:{port} to be out of reach");
        until_true(&what, async || Ok(!self.reaches(address, port).await)).await
    }
}

/// Pods reach the operator's metrics, and nothing else of it.
async fn only_the_metrics(trial: &Trial) -> Result<()> {
    let probe = Probe(trial.run("probe", "size: 1, interactive: true", "").await?);
    probe.0.ready().await?;
    let pods = ["get", "pods", "--namespace=flux-operator-system", "-ojsonpath={.items[0].status.podIP}"];
    let address = trial.kubectl(&pods)?;
    for port in [METRICS, HEALTH] {
        ensure!(probe.reaches(&address, port).await, "without a policy, {port} is out of reach");
    }
    trial.kubectl(&["apply", "-f", OPERATORS])?;
    probe.await_refusal(&address, HEALTH).await?;
    ensure!(probe.reaches(&address, METRICS).await, "the metrics are out of reach");
    Ok(())
}

/// MiniClusters run under the policy of the page, and others do not reach their brokers.
async fn miniclusters_among_themselves(trial: &Trial) -> Result<()> {
    let others = trial.another("others").await?;
    let probe = Probe(others.run("probe", "size: 1, interactive: true", "").await?);
    probe.0.ready().await?;
    let blocks = PAGE.split("```yaml\n").skip(1).filter_map(|it| it.split("```").next());
    let mut blocks = blocks.filter(|block| block.contains("kind: NetworkPolicy\n"));
    let policy = blocks.next().context("the page has no policy")?;
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), policy)?;
    trial.kubectl(&["apply", "-f", &file.path().display().to_string()])?;
    let run = trial.run("inside", "size: 2, interactive: true", "").await?;
    run.ready_with(2).await?;
    run.flux(&["run", "-N2", "hostname"]).await?;
    let lead = run.pod(0).await?.status.and_then(|it| it.pod_ip).context("it has no address")?;
    probe.await_refusal(&lead, OVERLAY_PORT).await?;
    trial.kubectl(&["delete", "networkpolicy", "--all"])?;
    let reaches = async || Ok(probe.reaches(&lead, OVERLAY_PORT).await);
    until_true("the lead broker to be in reach without the policy", reaches).await
}

#[test]
#[ignore = "needs root"]
fn policies_let_through_what_is_needed_and_nothing_else() {
    on_a_cluster(&options("policies", Network::default()), |environment| {
        let _enforcer = Enforcer::start(environment)?;
        case(environment, "metrics", only_the_metrics)?;
        case(environment, "brokers", miniclusters_among_themselves)
    });
}
