//! How Flux comes to an application's pod: as a *view*, an installation prefix in an image of its own.
//!
//! Where that image is mounted, the agent links into it. Elsewhere an init container,
//! `flux-agent view install`, copies the view to the volume that the pod's containers share. The view
//! image needs no shell and no other program.
//!
//! `flux-agent view pack` makes such an image from an installed Flux, and `flux-agent view check` says
//! whether one runs in an application's image. Both read the headers of programs; neither starts one.

mod check;
mod compiled;
mod copy;
mod elf;
mod error;
mod find;
mod install;
mod libraries;
mod link;
mod links;
mod pack;
mod places;
mod rewrite;
mod room;

pub(crate) use check::{CheckRequest, check_view};
pub use copy::UnresolvedLink;
pub use error::ViewError;
pub use find::{Source, SourceLayout, find};
pub use install::{InstallReport, InstallRequest, Progress, install_view};
pub(crate) use link::link_agent;
pub use link::link_view;
pub(crate) use pack::{Fault, PackError, PackReport, PackRequest, pack};
