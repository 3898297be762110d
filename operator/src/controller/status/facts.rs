//! The input of the status.

use crate::controller::decide::Plan;
use crate::controller::error::Error;
use crate::controller::observe::Observed;

pub(crate) struct Facts<'facts> {
    pub(crate) live: &'facts Observed,
    pub(crate) plan: &'facts Plan,
    /// The error that stopped the writes of the plan.
    pub(crate) error: Option<&'facts Error>,
}
