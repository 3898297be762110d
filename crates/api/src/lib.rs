//! The MiniCluster: its fields, its rules, and the objects of Kubernetes that it becomes.
//!
//! Everything here is a function of values. Nothing talks to an API server: [`crd`] has the types as users write them,
//! [`cluster`] the validated value, [`objects`] what is made of it, [`offline`] the checks of files, and [`remedies`] what
//! users can do about a reason.

pub mod cluster;
pub mod crd;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
pub mod images;
pub mod objects;
pub mod offline;
pub mod remedies;
pub mod render;
