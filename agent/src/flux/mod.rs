//! This pod's broker: its state and rank, `flux` as its client, the end and the numbers of its jobs, the number of pods that its jobs need,
//! its use, and the resources of the pod. The formats and services of Flux are in `flux_protocol`.

pub(crate) mod broker_watch;
pub(crate) mod client;
pub(crate) mod demand;
pub(crate) mod drain;
pub(crate) mod failed_task;
pub(crate) mod idle;
pub(crate) mod job_numbers;
pub(crate) mod processors;
pub(crate) mod refusal;
pub(crate) mod resources;

pub use broker_watch::{Event, Watch};
