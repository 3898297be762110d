//! The MiniCluster: its fields, its rules, and its Kubernetes objects.
//!
//! Everything here is a function of values, without an API server: [`crd`] has the types as users write them,
//! [`cluster`] the validated value, [`objects`] its objects, [`offline`] the checks of files, [`waiting`] why a pod does
//! not start, and [`remedies`] what users can do about a reason.

pub mod cluster;
pub mod crd;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
pub mod images;
pub mod objects;
pub mod offline;
pub mod remedies;
pub mod render;
pub mod waiting;
