//! `flux-view` makes a view image from an installed Flux (`pack`), and checks whether a view runs in an application's
//! image (`check`). Both read the headers of programs; neither starts one.
//!
//! Both find the view of an image with the function of the agent ([`flux_agent::view::find`]), so that they find the
//! same view as a pod.

mod check;
mod cli;
mod compiled;
mod pack;
mod rewrite;

pub use cli::{command_line, main};
