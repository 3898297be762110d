//! The reasons that metrics have as a label. Kubernetes has words of its own, and a container runtime may say anything:
//! they are all [`OTHER`], so that no label grows with what happens in a cluster.

pub(super) const OTHER: &str = "Other";

/// Of a run that is complete.
pub(super) const COMPLETE: &str = "CommandSucceeded ShutDown";

/// Of a run that has failed.
pub(super) const FAILED: &str = "AgentConfig AgentFailed AgentInternal AgentUsage BrokerFailed CommandFailed \
    ContainerFailed DeadlineExceeded EndNotSeen Evicted FluxRefused HookFailed LeadLost LeadUnreachable NodeAffinity \
    OOMKilled OutOfcpu OutOfmemory PreparationFailed StartDeadlineExceeded StartError Stopped UnexpectedAdmissionError \
    ViewUnusable";

/// Of a MiniCluster that has not ended.
pub(super) const UNDER_WAY: &str = "ApplyFailed BuildFailed CertificateFailed ChangeRefused Conflict Degraded \
    DeleteFailed Ending Internal Invalid LeadReplaced NameTaken NoPodGroups PodsRefused ReadFailed Running \
    StartedByAnotherOperator Starting StatusWriteFailed Suspended Suspending TimedOut Waiting WaitingForDeletion";

fn all() -> impl Iterator<Item = &'static str> {
    [COMPLETE, FAILED, UNDER_WAY].into_iter().flat_map(str::split_whitespace)
}

/// The label of `reason`.
pub(super) fn label(reason: &str) -> &'static str {
    all().find(|it| *it == reason).unwrap_or(OTHER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Reasons of one that has ended, or of `Progressing` that the status of one that has ended does not show.
    const NOT_SHOWN: [&str; 2] = ["Finished", "NotRunAgain"];

    /// The reasons of the page's table of conditions that `status.reason` may be, by the condition.
    fn reasons_on_the_page() -> BTreeSet<&'static str> {
        let page = include_str!("../../../docs/troubleshooting.md");
        let (mut reasons, mut is_shown) = (BTreeSet::new(), false);
        for row in page.lines().filter(|line| line.starts_with('|')) {
            let cells: Vec<_> = row.split('|').map(str::trim).collect();
            let [_, condition, reason, _, _, _] = cells[..] else { continue };
            if !condition.is_empty() {
                let shown = ["Accepted=False", "Progressing=", "Complete=", "Failed="];
                is_shown = shown.iter().any(|it| condition.trim_matches('`').starts_with(it));
            }
            let words = reason.split('`').skip(1).step_by(2).filter(|_| is_shown);
            reasons.extend(words.filter(|word| !NOT_SHOWN.contains(word)));
        }
        reasons
    }

    #[test]
    fn labels_are_the_reasons_of_the_troubleshooting_page() {
        assert_eq!(all().collect::<BTreeSet<_>>(), reasons_on_the_page());
        assert_eq!(label("Waiting"), "Waiting");
        assert_eq!(label("BackoffLimitExceeded"), OTHER);
    }
}
