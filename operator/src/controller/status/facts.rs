//! What a status follows from.

use crate::controller::decide::Plan;
use crate::controller::error::Error;
use crate::controller::observe::Live;

pub(crate) struct Facts<'facts> {
    pub(crate) live: &'facts Live,
    pub(crate) plan: &'facts Plan,
    /// What kept the plan from being carried out.
    pub(crate) error: Option<&'facts Error>,
}
