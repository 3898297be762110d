//! `flux-agent resources`: what Flux takes this pod to have, and what its limits let it use.

use crate::commands::arguments::{Format, PodArguments};
use crate::commands::failure::Done;
use crate::commands::pod::Pod;
use crate::flux::resources::Resources;

/// Prints them.
pub(crate) fn run(arguments: &PodArguments, format: Format) -> Done {
    let pod = Pod::read(arguments)?;
    let resources = Resources::read(&pod.root, pod.resource_set());
    format.print(&resources, || resources.text());
    Ok(())
}
