//! `flux-agent resources`: what Flux takes this pod to have, and what its limits let it use.

use crate::commands::arguments::{Format, PodArguments};
use crate::commands::pod::Pod;
use crate::flux::resources::Resources;
use crate::system::output::{answer_json, answer_text};

/// Prints them.
pub(crate) fn run(arguments: &PodArguments, format: Format) -> u8 {
    let Pod { config, root, .. } = match Pod::read(arguments) {
        Ok(pod) => pod,
        Err(code) => return code,
    };
    let resources = Resources::read(&root, &config.layout);
    match format {
        Format::Text => answer_text(&resources.text()),
        Format::Json => answer_json(&resources),
    }
    0
}
