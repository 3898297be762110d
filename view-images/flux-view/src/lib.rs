//! `flux-view` makes a view image of an installed Flux (`pack`), and says whether a view runs in an
//! application's image (`check`). Both read the headers of programs; neither starts one.
//!
//! Where an image has its view is looked up as the agent does it ([`flux_agent::view::find`]), so a check
//! cannot find another view than a pod.

mod check;
mod cli;
mod compiled;
mod pack;
mod rewrite;

pub use cli::{command_line, main};
