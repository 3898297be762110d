//! Whatever knows Flux's protocols: the state of this pod's broker, its resources, and whether its rank is drained.

pub(crate) mod broker_socket;
pub(crate) mod broker_watch;
pub(crate) mod client;
mod jobs;
pub(crate) mod leaving;
pub(crate) mod refusal;
pub(crate) mod resources;

pub use broker_socket::BrokerAddress;
pub use broker_watch::{Event, Watch};
