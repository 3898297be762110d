//! What is asked of Flux itself: the state of this pod's broker, by its socket; the resources that it takes the pod to have; and that the pod's rank is drained, or no longer. Whatever knows Flux's protocols is here.

pub(crate) mod broker_socket;
pub(crate) mod broker_watch;
pub(crate) mod client;
pub(crate) mod leaving;
pub(crate) mod refusal;
pub(crate) mod resources;

pub use broker_socket::BrokerAddress;
pub use broker_watch::{Event, Watch};
