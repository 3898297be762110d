//! What a status is made from.

use crate::controller::decide::Plan;
use crate::controller::error::Error;
use crate::controller::observe::Live;

/// What a status is made from.
pub(in crate::controller) struct Facts<'facts> {
    /// What there is.
    pub(in crate::controller) live: &'facts Live,
    /// What was decided.
    pub(in crate::controller) plan: &'facts Plan,
    /// What kept the plan from being carried out.
    pub(in crate::controller) error: Option<&'facts Error>,
}
