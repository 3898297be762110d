//! Whatever knows Flux's protocols: the state of this pod's broker, what its instance has and does, what its jobs print, its resources, and whether its rank is drained.

pub(crate) mod broker_socket;
pub(crate) mod broker_watch;
pub(crate) mod client;
pub(crate) mod demand;
mod eventlog;
pub(crate) mod failed_task;
pub(crate) mod instance;
pub(crate) mod jobs;
pub(crate) mod leaving;
pub(crate) mod modules;
pub(crate) mod output;
pub(crate) mod processors;
pub(crate) mod queues;
pub(crate) mod refusal;
pub(crate) mod resources;

pub use broker_socket::BrokerAddress;
pub use broker_watch::{Event, Watch};
pub use modules::scheduler_comes;
