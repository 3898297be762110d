//! The conditions of what only some specifications ask for.

use super::conditions::{Conditions, kind};
use super::facts::Facts;
use super::phase::Phase;
use crate::controller::decide::autoscale::Scaling;
use crate::controller::decide::instance_api::Reached;
use crate::controller::observe::demand::Answer;
use flux_api::crd::State;
use flux_contract::REST_SECRET_KEY;

/// Sets `Autoscaling`, whether the size goes by what the queue needs, where a size by demand is asked for, while the run goes on.
pub(super) fn autoscaling(conditions: &mut Conditions, facts: &Facts<'_>, phase: &Phase) {
    let Some(Scaling { bounds, size, answer }) = &facts.plan.scaling else { return };
    if phase.end.is_some() {
        return;
    }
    let stays = format!("the size stays {size}");
    match answer {
        Answer::Demand(demand) => {
            let (wanted, least, most) = (demand.wanted, bounds.min_size, bounds.max_size);
            let message =
                format!("jobs need {wanted} pods: of {least} to {most} there are to be {size}");
            conditions.yes(kind::AUTOSCALING, "DemandKnown", message);
        }
        Answer::None => {
            let message = format!("{stays} until the lead has said what its queue needs");
            conditions.no(kind::AUTOSCALING, "LeadNotAsked", message);
        }
        Answer::Failed(why) => {
            let message = format!("{stays}: the lead does not say what its queue needs: {why}");
            conditions.no(kind::AUTOSCALING, "LeadNotAnswering", message);
        }
    }
}

/// Sets `RestReady` where an API is asked for: whether it is served, where, and which Secret has its token. The Service leads to a lead that is ready, and to no other.
pub(super) fn rest(conditions: &mut Conditions, facts: &Facts<'_>, phase: &Phase) {
    let Some(Reached { url, secret }) = &facts.plan.rest else { return };
    let token = format!("the token is in the Secret {secret}, key {REST_SECRET_KEY}");
    if phase.end.is_some() {
        conditions.no(kind::REST_READY, "Finished", "the lead has ended".to_owned());
    } else if phase.state == State::Running {
        let message = format!("the lead serves {url}; {token}");
        conditions.yes(kind::REST_READY, "Serving", message);
    } else {
        let message = format!("the lead serves {url} once it is ready; {token}");
        conditions.no(kind::REST_READY, "LeadNotReady", message);
    }
}
