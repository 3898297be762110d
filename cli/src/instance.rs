//! The instance of Flux in a MiniCluster that runs: what its agents and Flux itself say of it.

use crate::exec::{self, Ended};
use crate::target::{Target, agent, client};
use anyhow::{Context as _, Result, bail};
use flux_contract::Exit;
use flux_contract::instance::InstanceReport;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

/// A rank that runs, and how programs are started there.
pub(crate) struct Place {
    pub target: Target,
    pub pod: Pod,
    pub agent: String,
    pub flux: String,
}

impl Place {
    /// The runner of this rank, which has to run.
    pub(crate) async fn of(target: Target, rank: u32) -> Result<Self> {
        let (cluster, pod) = tokio::try_join!(target.get(), target.running_pod(rank))?;
        let (agent, flux) = (agent(&cluster), client(&cluster));
        Ok(Self { target, pod, agent, flux })
    }

    /// The lead, whom everything is asked that is of the whole instance.
    pub(crate) async fn lead(target: Target) -> Result<Self> {
        Self::of(target, 0).await
    }

    pub(crate) fn pod_name(&self) -> String {
        self.pod.name_any()
    }

    /// What the instance has and does; `all` jobs or those that have not ended; also what the job `output_of` has
    /// printed last.
    pub(crate) async fn report(
        &self,
        all: bool,
        output_of: Option<&str>,
    ) -> Result<InstanceReport> {
        let mut words = vec![self.agent.as_str(), "instance"];
        words.extend(all.then_some("--all"));
        words.extend(output_of.into_iter().flat_map(|id| ["--output-of", id]));
        let ended = exec::capture(&self.target, &self.pod_name(), &words).await?;
        let name = &self.target.name;
        let answer = answer(&ended).with_context(|| format!("ask the instance of {name}"))?;
        serde_json::from_slice(&answer).with_context(|| {
            format!(
                "read what the agent of {name} says: it and this plugin are of different releases"
            )
        })
    }

    /// What `flux` prints there, which has to succeed.
    pub(crate) async fn flux(&self, words: &[&str]) -> Result<String> {
        let words = [&[self.flux.as_str()], words].concat();
        let ended = exec::capture(&self.target, &self.pod_name(), &words).await?;
        if ended.code != 0 {
            bail!("{}", said(&ended));
        }
        Ok(String::from_utf8_lossy(&ended.stdout).into_owned())
    }

    /// The words that run `words` as Flux's user.
    pub(crate) fn as_user<'words>(&'words self, words: &[&'words str]) -> Vec<&'words str> {
        [&[self.agent.as_str(), "connect", "--"], words].concat()
    }
}

fn answer(ended: &Ended) -> Result<Vec<u8>> {
    match ended.code {
        0 => Ok(ended.stdout.clone()),
        code if code == Exit::Usage.code() => bail!(
            "the agent in its pods is older than this plugin and does not know the question: install the operator of \
             this release, and create the MiniCluster again ({})",
            said(ended).lines().next().unwrap_or_default()
        ),
        _ => bail!("{}", said(ended)),
    }
}

/// What a program that has failed says of that.
pub(crate) fn said(ended: &Ended) -> String {
    match ended.stderr.trim() {
        "" => format!("it ended with code {}", ended.code),
        text => text.to_owned(),
    }
}

/// A time as people say it.
pub(crate) fn duration(seconds: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "whole seconds are what is shown")]
    let whole = seconds as i64;
    match whole {
        0..60 => format!("{seconds:.1}s"),
        60..3600 => format!("{}m{:02}s", whole / 60, whole % 60),
        _ => format!("{}h{:02}m", whole / 3600, whole / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(code: u8, stdout: &str, stderr: &str) -> Ended {
        Ended { code, stdout: stdout.into(), stderr: stderr.to_owned() }
    }

    #[test]
    fn an_agent_that_does_not_know_the_question_is_told_from_one_that_has_no_answer() {
        assert_eq!(answer(&ended(0, "{}", "")).unwrap(), b"{}");
        let old = answer(&ended(64, "", "error: unrecognized subcommand 'instance'\n\nUsage: x"));
        let old = old.unwrap_err().to_string();
        assert!(old.contains("older than this plugin") && !old.contains("Usage"), "{old}");
        let down = answer(&ended(76, "", "flux-agent: it is not up\n")).unwrap_err().to_string();
        assert_eq!(down, "flux-agent: it is not up");
        assert_eq!(said(&ended(3, "", " \n")), "it ended with code 3");
    }

    #[test]
    fn times_are_short() {
        let times = [0.04, 59.94, 60.0, 3599.0, 3600.0, 90_061.0].map(duration);
        assert_eq!(times, ["0.0s", "59.9s", "1m00s", "59m59s", "1h00m", "25h01m"]);
    }
}
