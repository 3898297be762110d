//! Broker configuration: reading it and checking it as strictly as real Flux does, table by table.

pub(crate) mod bootstrap;
pub(crate) mod load;
pub(crate) mod resource;
pub(crate) mod tables;
pub(crate) mod unpack;
