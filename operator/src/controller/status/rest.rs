//! The condition `RestReady`: whether the API of the instance is served, where, and which Secret has its token.

use super::conditions::{Conditions, kind};
use super::facts::Facts;
use super::phase::Phase;
use crate::controller::decide::rest::Reached;
use crate::crd::State;
use flux_contract::REST_SECRET_KEY;

/// Sets the condition where an API is asked for. The Service leads to a lead that is ready, and to no other.
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
