//! Finds why an interactive instance got a new lead.

use super::facts::Facts;
use crate::controller::observe::pod_view::PodView;
use crate::controller::pod_ext::replaced_before;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// Why the lead was or will be replaced; `None` for a first lead, and for a command's lead, which is never replaced.
pub(super) fn replaced(
    facts: &Facts<'_>,
    runner: &str,
    lead: Option<&PodView<'_>>,
    now: &Time,
) -> Option<String> {
    let lead = lead.filter(|_| facts.plan.interactive)?;
    let earlier = facts.live.pods.earlier_lead.as_ref();
    let earlier = earlier.map(|pod| PodView::new(pod, runner, now));
    // A pod without started containers had no jobs.
    let ended = [Some(lead), earlier.as_ref()].into_iter().flatten().find(|it| it.ended.is_some());
    let outcome = ended.and_then(PodView::failure).or_else(|| lead.earlier_end());
    let gone = || {
        let why = "its earlier pod is gone: it was deleted, or its node was lost";
        (replaced_before(lead.pod) > 0).then(|| why.to_owned())
    };
    let cause = outcome.map(|it| it.message).or_else(gone)?;
    Some(format!("the lead was replaced, and jobs that are in no archive are lost: {cause}"))
}
