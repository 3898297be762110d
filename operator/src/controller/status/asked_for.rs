//! The conditions of optional features: autoscaling and the API.

use super::conditions::{Conditions, kind};
use super::facts::Facts;
use crate::controller::decide::autoscale::AutoscaleDecision;
use crate::controller::decide::instance_api::ApiEndpoint;
use crate::controller::observe::demand::Answer;
use crate::controller::observe::lifecycle::Lifecycle;
use flux_api::crd::Reason;
use flux_contract::{REST_READ_ONLY_KEY, REST_SECRET_KEY};

/// Sets `Autoscaling` for a MiniCluster with `autoscale` until its run ends: whether the size follows the demand.
pub(super) fn autoscaling(conditions: &mut Conditions, facts: &Facts<'_>) {
    let Some(AutoscaleDecision { bounds, size, answer }) = &facts.plan.autoscale else { return };
    if facts.end().is_some() {
        return;
    }
    let stays = format!("the size stays {size}");
    match answer {
        Answer::Demand(demand) => {
            let (wanted, least, most) = (demand.wanted, bounds.min_size, bounds.max_size);
            let message = format!(
                "jobs need {wanted} pods; the size is set to {size} (from {least} to {most})"
            );
            conditions.yes(kind::AUTOSCALING, Reason::DemandKnown, message);
        }
        Answer::None => {
            let message = format!("{stays} until the lead has reported what its queue needs");
            conditions.no(kind::AUTOSCALING, Reason::LeadNotAsked, message);
        }
        Answer::Failed(why) => {
            let message = format!("{stays}: the lead does not report what its queue needs: {why}");
            conditions.no(kind::AUTOSCALING, Reason::LeadNotAnswering, message);
        }
    }
}

/// Sets `RestReady` for an instance with an API: whether the lead serves it, its address, and the Secret with its tokens.
/// The Service of the API has only a ready lead behind it.
pub(super) fn instance_api(conditions: &mut Conditions, facts: &Facts<'_>) {
    let Some(ApiEndpoint { url, secret, has_read_only_token }) = &facts.plan.api else { return };
    let token = if *has_read_only_token {
        format!(
            "the tokens are in the Secret {secret}, keys {REST_SECRET_KEY} and {REST_READ_ONLY_KEY}"
        )
    } else {
        format!("the token is in the Secret {secret}, key {REST_SECRET_KEY}")
    };
    if facts.end().is_some() {
        conditions.no(kind::REST_READY, Reason::Finished, "the lead has ended".to_owned());
    } else if facts.live.lifecycle == Lifecycle::Running {
        let message = format!("the lead serves {url}; {token}");
        conditions.yes(kind::REST_READY, Reason::Serving, message);
    } else {
        let message = format!("the lead serves {url} once it is ready; {token}");
        conditions.no(kind::REST_READY, Reason::LeadNotReady, message);
    }
}
