//! `explain`: why a MiniCluster does not run or has failed: one cause, one remedy, and the evidence.

mod evidence;

use crate::commands::status::{state_condition, without_log_command};
use crate::output::{bold, coloured};
use crate::prelude::*;
use evidence::{Evidence, Line, Rank};
use flux_api::crd::Reason;
use flux_api::remedies;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::Serialize;

#[derive(Debug, Args)]
pub(crate) struct Explain {
    #[command(flatten)]
    name: NameArgument,
    #[command(flatten)]
    format: FormatArgument,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Explanation {
    name: String,
    state: Option<State>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    cause: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
    #[serde(skip)]
    changes_specification: bool,
    evidence: Evidence,
}

impl Explain {
    pub(crate) async fn execute(&self, connection: Connection) -> Result<()> {
        let target = self.name.target(connection);
        let explanation = explanation(&target).await?.with_commands();
        if !self.format.print(&explanation, [target.full_name()])? {
            print(&explanation.text());
        }
        Ok(())
    }
}

pub(crate) async fn explanation(target: &MiniClusterRef) -> Result<Explanation> {
    let cluster = target.get().await?;
    let evidence = evidence::gather(target, &cluster, Timestamp::now()).await;
    Ok(Explanation::new(&cluster, evidence))
}

impl Explanation {
    /// The cause is the message of the condition that `status.reason` comes from. While brokers are missing, the message
    /// of a rank that is not online is added.
    fn new(cluster: &MiniCluster, evidence: Evidence) -> Self {
        let name = cluster.metadata.name.clone().unwrap_or_default();
        let status = cluster.status.as_ref();
        let state = cluster.state();
        let refused = status.and_then(|status| {
            let conditions = status.conditions.iter();
            let is_refusal = |reason: &str| ["ChangeRefused", "NotRunAgain"].contains(&reason);
            conditions.into_iter().find(|condition| is_refusal(&condition.reason))
        });
        let Some(condition) = refused.or_else(|| state_condition(cluster)) else {
            let cause = "the operator has not processed it yet".to_owned();
            let remedy = "check that the operator runs (`kubectl get pods -A -l \
                          app.kubernetes.io/name=flux-operator,app.kubernetes.io/component=operator`) and serves this namespace";
            let (reason, remedy) = (None, Some(remedy.to_owned()));
            let changes_specification = false;
            return Self { name, state, reason, cause, remedy, changes_specification, evidence };
        };
        let code = status.and_then(|status| status.exit_code);
        let Condition { reason, message, .. } = condition;
        let mut cause = message.clone();
        let mut remedy = remedies::of_reason(reason, message, code);
        if let Some((rank, message)) = missing_rank(state, &evidence.ranks) {
            if !cause.contains(message) {
                cause = format!("{cause}. Rank {} ({}): {message}", rank.number, rank.pod);
            }
            remedy = if !rank.waits {
                remedies::of_log(message).or(remedy)
            } else if reason == Reason::Starting.as_str() {
                // The operator gives a start more time before its reason is another one.
                remedies::of_reason(Reason::Waiting.as_str(), message, None)
            } else {
                remedy.or_else(|| remedies::of_reason(Reason::Waiting.as_str(), message, None))
            };
        }
        if let Some(queue) = &evidence.queue {
            cause = format!("{cause} ({} before it in {})", queue.position, queue.queue);
        }
        let changes_specification = remedy.is_some_and(|remedy| remedy.changes_specification);
        let remedy = remedy.map(|remedy| remedy.advice.to_owned());
        let reason = Some(reason.clone());
        Self { name, state, reason, cause, remedy, changes_specification, evidence }
    }

    /// Adds to a remedy that changes the specification how a MiniCluster that exists takes that.
    fn with_commands(mut self) -> Self {
        let name = &self.name;
        let is_over = matches!(self.state, Some(State::Complete | State::Failed));
        let how = if is_over {
            "It has ended: to run it changed, change `spec.runId`, too, and `kubectl apply -f FILE`"
                .to_owned()
        } else {
            format!("To change it: `kubectl flux delete {name}`, then `kubectl apply -f FILE`")
        };
        if let Some(remedy) = self.remedy.as_mut().filter(|_| self.changes_specification) {
            *remedy = format!("{remedy}. {how}");
        }
        self
    }

    /// Without commands that read the log of a pod: `run` deletes the pods.
    pub(crate) fn without_pods(mut self) -> Self {
        if let Some(remedy) = self.remedy.as_mut().filter(|remedy| remedy.contains("kubectl logs"))
        {
            *remedy = format!("run it again with `--keep`, then {remedy}");
        }
        let Evidence { conditions, ranks, events, .. } = &mut self.evidence;
        let lines = conditions.iter_mut().chain(events).map(|line| &mut line.message);
        let of_ranks = ranks.iter_mut().filter_map(|rank| rank.message.as_mut());
        for text in lines.chain(of_ranks).chain([&mut self.cause]) {
            *text = without_log_command(text, &self.name);
        }
        self
    }

    pub(crate) fn cause(&self) -> &str {
        &self.cause
    }

    pub(crate) fn remedy(&self) -> Option<&str> {
        self.remedy.as_deref()
    }

    pub(crate) fn text(&self) -> String {
        let reason = self.reason.as_ref().map(|reason| format!(", {reason}")).unwrap_or_default();
        let mut lines = vec![format!("{} {}{reason}", bold(&self.name), coloured(self.state))];
        lines.push(format!("{} {}", bold("cause: "), self.cause));
        lines.extend(self.remedy.iter().map(|remedy| format!("{} {remedy}", bold("remedy:"))));
        let Evidence { conditions, ranks, events, added, output, unread, .. } = &self.evidence;
        let ranks = ranks.iter().map(|it| Line {
            about: format!("{} ({}) {}", it.number, it.pod, it.state),
            message: it.message.clone().unwrap_or_default(),
        });
        let mut shown = vec![self.cause.clone()];
        let mut once = |lines: Vec<Line>| -> Vec<String> {
            lines.into_iter().map(|line| line.once(&mut shown)).collect()
        };
        let sections = [
            ("conditions", once(conditions.clone())),
            ("ranks that failed or are not online", once(ranks.collect())),
            ("warnings", once(events.clone())),
            ("set by a LimitRange", added.clone()),
            ("last output of the lead", output.clone()),
            ("not read", unread.iter().cloned().collect()),
        ];
        for (title, all) in sections.into_iter().filter(|(_, all)| !all.is_empty()) {
            lines.push(format!("\n{}", bold(title)));
            lines.extend(all.iter().map(|line| format!("  {line}")));
        }
        lines.join("\n")
    }
}

/// The first rank that shows why brokers are missing, and its message. Before the lead has started, and beside a ready lead,
/// only a pod that cannot start shows that: agents of others wait.
fn missing_rank(state: Option<State>, ranks: &[Rank]) -> Option<(&Rank, &str)> {
    let shows = |rank: &&Rank| match state {
        Some(State::Starting | State::Degraded) => true,
        Some(State::Pending | State::Running) => rank.waits,
        _ => false,
    };
    ranks.iter().filter(shows).find_map(|rank| Some((rank, rank.message.as_deref()?)))
}
