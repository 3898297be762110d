//! The condition `Autoscaling`: whether the size goes by what the queue needs.

use super::conditions::{Conditions, kind};
use super::facts::Facts;
use super::phase::Phase;
use crate::controller::decide::autoscale::Scaling;
use crate::controller::observe::demand::Answer;

/// Sets the condition where a size by demand is asked for, while the run goes on.
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
