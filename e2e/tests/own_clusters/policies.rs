//! Network policies that are enforced: the operator's own, and the one of the pages for MiniClusters. On a cluster of its
//! own, because a program decides about every connection between pods. Needs root.

use crate::prelude::*;
use e2e::cache::Cache;
use e2e::kubernetes::go_programs;
use flux_contract::OVERLAY_PORT;

const OPERATOR: &str =
    include_str!("../../../deploy/components/network-policy/network-policy.yaml");
const PAGE: &str = include_str!("../../../docs/how-to/restricted-clusters.md");
/// Namespace and ports of the operator.
const NAMESPACE: &str = "flux-operator-system";
const METRICS: u16 = 8080;
const HEALTH: u16 = 8081;

fn apply(trial: &Trial, policy: &str, namespace: &str) -> Result<()> {
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), policy)?;
    let file = file.path().display().to_string();
    trial.kubectl(&["apply", "-f", &file, "--namespace", namespace]).map(drop)
}

async fn reaches(from: &Instance<'_>, address: &str, port: u16) -> bool {
    let connect = format!("exec 3<>/dev/tcp/{address}/{port}");
    from.exec(0, &["timeout", "2", "bash", "-c", &connect]).await.is_ok()
}

async fn until_reaches(
    from: &Instance<'_>,
    address: &str,
    port: u16,
    expected: bool,
) -> Result<()> {
    let what = format!("{address}:{port} to be in reach: {expected}");
    until_true(&what, async || Ok(reaches(from, address, port).await == expected)).await
}

/// Pods reach the operator's metrics and nothing else of it. MiniClusters run under the policy of the page, and others do
/// not reach their brokers.
async fn policies_hold(trial: &Trial) -> Result<()> {
    let other = trial.run("other", "size: 1, interactive: true", "").await?;
    other.ready().await?;
    let address = "-ojsonpath={.items[0].status.podIP}";
    let operator = trial.kubectl(&["get", "pods", "--namespace", NAMESPACE, address])?;
    until_reaches(&other, &operator, HEALTH, true).await?;
    apply(trial, OPERATOR, NAMESPACE)?;
    until_reaches(&other, &operator, HEALTH, false).await?;
    ensure!(reaches(&other, &operator, METRICS).await, "the metrics are out of reach");

    let inside = trial.another("inside").await?;
    let policy = PAGE.split("```").find(|it| it.contains("kind: NetworkPolicy\n"));
    let policy = policy.and_then(|it| it.strip_prefix("yaml\n")).context("there is no policy")?;
    apply(&inside, policy, inside.namespace())?;
    let run = inside.run("run", "size: 2, interactive: true", "").await?;
    run.ready_with(2).await?;
    run.flux(&["run", "-N2", "hostname"]).await?;
    let lead = run.pod(0).await?.status.and_then(|it| it.pod_ip).context("it has no address")?;
    until_reaches(&other, &lead, OVERLAY_PORT, false).await?;
    inside.kubectl(&["delete", "networkpolicy", "--all"])?;
    until_reaches(&other, &lead, OVERLAY_PORT, true).await
}

#[test]
#[ignore = "needs root"]
fn policies_let_through_what_is_needed_and_nothing_else() {
    on_a_cluster(&options("policy", Network::default()), |environment| {
        let program = go_programs("network-policies", &Cache::locate()?)?.join("network-policies");
        let mut enforcer = environment.cluster.program(&program).spawn()?;
        let held = case(environment, "policy", policies_hold);
        enforcer.kill()?;
        enforcer.wait()?;
        held
    });
}
