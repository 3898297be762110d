//! What a status is made from.

use crate::controller::error::Error;
use crate::controller::observe::Live;
use crate::controller::plan::Plan;

/// What a status is made from.
pub(super) struct Facts<'facts> {
    /// What there is.
    pub(super) live: &'facts Live,
    /// What was decided.
    pub(super) plan: &'facts Plan,
    /// What kept the plan from being carried out.
    pub(super) error: Option<&'facts Error>,
}
