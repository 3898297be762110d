//! `doctor`: runs the checks of the agents in all ranks.

use crate::error::line;
use crate::exec;
use crate::exit::FAILED;
use crate::minicluster::{is_running, layout};
use crate::output::{paint, table};
use crate::prelude::*;
use crate::rank_pod::over_ranks;
use anstyle::AnsiColor;
use serde::{Deserialize, Serialize};

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    #[command(flatten)]
    name: NameArgument,
    /// Also print the checks that passed
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    format: FormatArgument,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Rank {
    rank: u32,
    checks: Vec<Check>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Check {
    name: String,
    finding: Finding,
    seen: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

impl Check {
    fn failed(name: &str, seen: String, remedy: &str) -> Self {
        let (name, remedy) = (name.to_owned(), Some(remedy.to_owned()));
        Self { name, finding: Finding::Failed, seen, remedy }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Finding {
    Ok,
    Warning,
    Failed,
    Skipped,
}

impl Finding {
    fn painted(self) -> String {
        match self {
            Self::Ok => paint(AnsiColor::Green, "ok"),
            Self::Warning => paint(AnsiColor::Yellow, "warning"),
            Self::Failed => paint(AnsiColor::Red, "FAILED"),
            Self::Skipped => "skipped".to_owned(),
        }
    }
}

impl Doctor {
    pub(crate) async fn execute(&self, connection: Connection) -> Result<ExitCode> {
        let target = self.name.target(connection);
        let (cluster, pods) = tokio::try_join!(target.get(), target.pods())?;
        if pods.is_empty() {
            bail!("{}", super::status::summary(&cluster));
        }
        let agent = layout(&cluster).agent();
        let ranks = over_ranks(pods, async |rank, pod| {
            let checks = checks(&target, &agent, &pod).await;
            let remedy = "see `kubectl describe pod`";
            let failed = |error| vec![Check::failed("agent", line(&error), remedy)];
            Rank { rank, checks: checks.unwrap_or_else(failed) }
        });
        let ranks = ranks.await;
        if !self.format.print(&ranks, ranks.iter().map(|rank| rank.rank.to_string()))? {
            print(&text(&ranks, self.all));
        }
        let mut checks = ranks.iter().flat_map(|rank| &rank.checks);
        let has_failed = checks.any(|check| check.finding == Finding::Failed);
        Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

async fn checks(target: &MiniClusterRef, agent: &str, pod: &Pod) -> Result<Vec<Check>> {
    if !is_running(pod, &target.name) {
        let remedy = format!("see `kubectl flux explain {}`", target.name);
        let seen = format!("{} is not running", pod.name_any());
        return Ok(vec![Check::failed("pod", seen, &remedy)]);
    }
    let argv = [agent, "doctor", "--output", "json"];
    let output = exec::capture(target, &pod.name_any(), &argv).await?;
    // The agent ends with 1 if a check failed.
    if output.code > FAILED {
        bail!("{}", output.failure());
    }
    serde_json::from_slice(&output.stdout).context("read the checks of the agent")
}

fn text(ranks: &[Rank], all: bool) -> String {
    let (mut rows, none) = (Vec::new(), String::new);
    for Rank { rank, checks } in ranks {
        for check in checks
            .iter()
            .filter(|check| all || matches!(check.finding, Finding::Failed | Finding::Warning))
        {
            let result = check.finding.painted();
            rows.push(vec![rank.to_string(), check.name.clone(), result, check.seen.clone()]);
            let remedy = check.remedy.iter().map(|remedy| format!("remedy: {remedy}"));
            rows.extend(remedy.map(|remedy| vec![none(), none(), none(), remedy]));
        }
    }
    if rows.is_empty() {
        let count = ranks.len();
        let ranks = if count == 1 { "rank" } else { "ranks" };
        return format!("no failed checks in {count} {ranks}");
    }
    table(&["RANK", "CHECK", "RESULT", "CAUSE"], rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_checks_have_remedies_and_passed_ones_are_optional() {
        let checks = r#"[{"name": "view", "finding": "ok", "seen": "/mnt/flux/view"},
            {"name": "lead", "finding": "failed", "seen": "connection refused",
             "remedy": "see the log of pod index 0"},
            {"name": "memory", "finding": "skipped", "seen": "no cgroup v2"}]"#;
        let ranks = [Rank { rank: 3, checks: serde_json::from_str(checks).unwrap() }];
        let plain = |all| anstream::adapter::strip_str(&text(&ranks, all)).to_string();
        insta::assert_snapshot!(plain(false), @r"
        RANK  CHECK  RESULT  CAUSE
        3     lead   FAILED  connection refused
                             remedy: see the log of pod index 0
        ");
        assert_eq!(plain(true).lines().count(), 5, "{}", plain(true));
        let well = [Rank { rank: 0, checks: ranks[0].checks[..1].to_vec() }];
        assert_eq!(text(&well, false), "no failed checks in 1 rank");
    }
}
