//! `explain`: why a MiniCluster does not run or has failed: one cause, one remedy, and the evidence.

mod evidence;

use crate::commands::status::state_condition;
use crate::output::{bold, coloured};
use crate::prelude::*;
use evidence::Evidence;
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
    evidence: Evidence,
}

impl Explain {
    pub(crate) async fn execute(&self, connection: Connection) -> Result<()> {
        let target = self.name.target(connection);
        let explanation = explanation(&target).await?;
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
    /// of the first rank that is not online is added.
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
            let remedy = Some(remedy.to_owned());
            return Self { name, state, reason: None, cause, remedy, evidence };
        };
        let code = status.and_then(|status| status.exit_code);
        let Condition { reason, message, .. } = condition;
        let mut cause = message.clone();
        let mut remedy = remedies::of_reason(reason, message, code);
        let is_starting = matches!(state, Some(State::Starting | State::Degraded));
        let messages = evidence.ranks.iter().filter(|_| is_starting);
        let mut messages = messages.filter_map(|rank| Some((rank, rank.message.as_deref()?)));
        if let Some((rank, message)) = messages.next() {
            cause = format!("{cause}. Rank {} ({}): {message}", rank.number, rank.pod);
            remedy = remedies::of_log(message).or(remedy);
        }
        if let Some(queue) = &evidence.queue {
            cause = format!("{cause} ({} before it in {})", queue.position, queue.queue);
        }
        let remedy = remedy.map(str::to_owned);
        Self { name, state, reason: Some(reason.clone()), cause, remedy, evidence }
    }

    pub(crate) fn text(&self) -> String {
        let reason = self.reason.as_ref().map(|reason| format!(", {reason}")).unwrap_or_default();
        let mut lines = vec![format!("{} {}{reason}", bold(&self.name), coloured(self.state))];
        lines.push(format!("{} {}", bold("cause: "), self.cause));
        lines.extend(self.remedy.iter().map(|remedy| format!("{} {remedy}", bold("remedy:"))));
        let Evidence { conditions, ranks, events, added, output, unread, .. } = &self.evidence;
        let ranks = ranks.iter().map(|it| {
            let message = it.message.as_ref().map(|text| format!(": {text}")).unwrap_or_default();
            format!("{} ({}) {}{message}", it.number, it.pod, it.state)
        });
        let sections = [
            ("conditions", conditions.clone()),
            ("ranks that failed or are not online", ranks.collect()),
            ("warnings", events.clone()),
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
