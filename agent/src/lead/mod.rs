//! A worker's route to the lead broker: finding its address, probing its port with CURVE, waiting until it lets this pod in,
//! and detecting that it is gone.

mod dns;
pub(crate) mod probe;
pub(crate) mod resolver;
pub(crate) mod wait;
pub(crate) mod watch;

pub use probe::{Outcome, Stage, probe};
pub use wait::wait_for_lead;
