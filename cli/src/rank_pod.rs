//! The pods of ranks, and the programs that this plugin starts in them.

use crate::connection::Connection;
use crate::exec::{self, Output};
use crate::minicluster::{MiniClusterRef, NameArgument, layout};
use anyhow::{Context as _, Result, bail, ensure};
use flux_contract::Exit;
use flux_contract::instance::InstanceReport;
use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde_json::Value;
use std::collections::BTreeMap;

const AT_ONCE: usize = 64;

/// The running pod of a rank, and the paths of the agent and of `flux` in it.
pub(crate) struct RankPod {
    pub target: MiniClusterRef,
    pub name: String,
    pub agent: String,
    pub flux: String,
}

impl RankPod {
    /// Finds the pod of `rank`; fails unless its runner runs.
    pub(crate) async fn find(target: MiniClusterRef, rank: u32) -> Result<Self> {
        let (cluster, pod) = tokio::try_join!(target.get(), target.running_pod(rank))?;
        let (agent, flux) = (layout(&cluster).agent(), layout(&cluster).client());
        Ok(Self { target, name: pod.name_any(), agent, flux })
    }

    pub(crate) async fn lead(target: MiniClusterRef) -> Result<Self> {
        Self::find(target, 0).await
    }

    /// Asks the agent for the ranks and jobs of the instance: `all` jobs or only active ones, and the last output of
    /// the job `output_of`.
    pub(crate) async fn report(
        &self,
        all: bool,
        output_of: Option<&str>,
    ) -> Result<InstanceReport> {
        let mut argv = vec![self.agent.as_str(), "instance"];
        argv.extend(all.then_some("--all"));
        argv.extend(output_of.into_iter().flat_map(|id| ["--output-of", id]));
        let output = exec::capture(&self.target, &self.name, &argv).await?;
        let name = &self.target.name;
        let report = report_of(&output).with_context(|| format!("ask the instance of {name}"))?;
        serde_json::from_slice(report).with_context(|| {
            format!(
                "read the report of {name}: its agent and this plugin are of different releases"
            )
        })
    }

    /// Runs `flux` in the pod and returns its output; fails unless it succeeds.
    pub(crate) async fn flux(&self, argv: &[&str]) -> Result<String> {
        let argv = [&[self.flux.as_str()], argv].concat();
        let output = exec::capture(&self.target, &self.name, &argv).await?;
        if output.code != 0 {
            bail!("{}", output.failure());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    pub(crate) fn as_user<'argv>(&'argv self, argv: &[&'argv str]) -> Vec<&'argv str> {
        [&[self.agent.as_str(), "connect", "--"], argv].concat()
    }
}

impl NameArgument {
    pub(crate) async fn lead(&self, connection: Connection) -> Result<RankPod> {
        RankPod::lead(self.target(connection)).await
    }
}

/// Acts on the pods of all ranks, on some of them at a time, and returns the results in the order of the ranks.
pub(crate) async fn over_ranks<T>(
    pods: BTreeMap<u32, Pod>,
    act: impl AsyncFn(u32, Pod) -> T,
) -> Vec<T> {
    let act = &act;
    let acts = stream::iter(pods).map(async |(rank, pod)| (rank, act(rank, pod).await));
    // With `buffered`, ranks that have ended would wait for those before them, in the place of others.
    let results: BTreeMap<u32, T> = acts.buffer_unordered(AT_ONCE).collect().await;
    results.into_values().collect()
}

/// What the agent in this pod reports about itself.
pub(crate) async fn agent_report(target: &MiniClusterRef, pod: &str, agent: &str) -> Result<Value> {
    let output = exec::capture(target, pod, &[agent, "status", "--output", "json"]).await?;
    ensure!(output.code == 0, "{agent} status in {pod}: {}", output.failure());
    let reading = || format!("read the output of {agent} status in {pod}");
    serde_json::from_slice(&output.stdout).with_context(reading)
}

fn report_of(output: &Output) -> Result<&[u8]> {
    match output.code {
        0 => Ok(&output.stdout),
        code if code == Exit::Usage.code() => bail!(
            "the agent in the pods is older than this plugin and has no such report: install the operator of this \
             release, and create the MiniCluster again ({})",
            output.failure().lines().next().unwrap_or_default()
        ),
        _ => bail!("{}", output.failure()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_agents_and_failed_agents_have_different_errors() {
        let output = |code, stdout: &str, stderr: &str| Output {
            code,
            stdout: stdout.into(),
            stderr: stderr.to_owned(),
        };
        assert_eq!(report_of(&output(0, "{}", "")).unwrap(), b"{}");
        let error = |code, stderr| report_of(&output(code, "", stderr)).unwrap_err().to_string();
        let old = error(64, "error: unrecognized subcommand 'instance'\n\nUsage: x");
        assert!(old.contains("older than this plugin") && !old.contains("Usage"), "{old}");
        assert_eq!(error(76, "flux-agent: it is not up\n"), "flux-agent: it is not up");
        assert_eq!(error(3, " \n"), "it ended with code 3");
    }
}
