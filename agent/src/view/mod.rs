//! Brings Flux into an application's pod as a *view*, an installation prefix in an image of its own.
//!
//! If that image is mounted, the agent makes links into it. Otherwise an init container, `flux-agent view install`, copies
//! the view to the volume that the pod's containers share. The view image needs no shell and no other program. The program
//! `flux-view` makes such images.

mod copy;
mod error;
mod find;
mod install;
mod link;
mod links;

pub use copy::Copied;
pub use error::{ViewError, failed};
pub use find::{Source, SourceLayout, find, follow};
pub use install::{InstallReport, InstallRequest, install_view};
pub(crate) use link::link_agent;
pub use link::link_view;
