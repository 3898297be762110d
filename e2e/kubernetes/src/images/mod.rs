//! Container images made from files, without a registry and without a container engine.
//!
//! The same files make the same bytes: an image has no time, no name of this machine and no order of a directory
//! listing. So a cluster recognises an image that it has already.

pub mod debian;
pub mod image;
pub mod layer;
pub mod libraries;
