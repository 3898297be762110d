//! An operator and its API server.
#![allow(dead_code, reason = "each test binary uses another part")]

pub(crate) mod role;
pub(crate) mod world;
