//! A worker's way to the lead broker: finding its address, asking its port with CURVE whether it lets
//! this pod in, waiting for that, and noticing that it is gone.

mod dns;
pub(crate) mod probe;
pub(crate) mod resolver;
pub(crate) mod wait;
pub(crate) mod watch;

pub use probe::{Outcome, Stage, probe};
pub use wait::wait_for_lead;
