//! This pod's broker: its state, `flux` as its client, what a job of it has done, how many pods its jobs need, and whether
//! its rank is drained; and what this pod has for it. What Flux writes and answers is in `flux_protocol`.

pub(crate) mod broker_watch;
pub(crate) mod client;
pub(crate) mod demand;
pub(crate) mod drain;
mod eventlog;
pub(crate) mod failed_task;
pub(crate) mod processors;
pub(crate) mod refusal;
pub(crate) mod resources;

pub use broker_watch::{Event, Watch};
