//! The input of the status.

use crate::controller::decide::Plan;
use crate::controller::error::Error;
use crate::controller::observe::LiveObjects;

pub(crate) struct Facts<'facts> {
    pub(crate) live: &'facts LiveObjects,
    pub(crate) plan: &'facts Plan,
    /// The error that stopped the writes of the plan.
    pub(crate) error: Option<&'facts Error>,
}
