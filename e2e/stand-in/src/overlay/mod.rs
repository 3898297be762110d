//! The network between brokers: real endpoints, real ZMTP with CURVE, messages of our own.

pub(crate) mod connect;
pub(crate) mod endpoint;
pub(crate) mod link;
pub(crate) mod listen;
mod resolve;
pub(crate) mod wire;
