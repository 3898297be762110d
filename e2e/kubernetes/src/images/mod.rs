//! Container images made from files, without a registry and without a container engine.
//!
//! An image is the same bytes whenever its files are: no time, no name of this machine and no order of a
//! directory listing goes into it. So a cluster that holds it already can tell.

pub mod debian;
pub mod image;
pub mod layer;
pub mod libraries;
