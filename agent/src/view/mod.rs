//! `flux-agent view install`: what the view image's init container does.
//!
//! Flux comes to an application's pod as a *view*: an installation prefix in an image of its own,
//! copied to the volume that the pod's containers share. The view image needs no shell and no
//! other program.

mod copy;
mod error;
mod find;
mod install;
mod links;

pub use copy::UnresolvedLink;
pub use error::ViewError;
pub use find::{SourceLayout, find};
pub use install::{InstallReport, InstallRequest, Progress, install_view};
