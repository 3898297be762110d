//! `flux-agent plan`: what `run` would do in this pod.

use crate::commands::arguments::{Format, PodArguments};
use crate::commands::failure::failed;
use crate::commands::pod::Pod;
use crate::plan::decide;
use crate::system::output::{answer_json, answer_text};

/// Prints the plan.
pub(crate) fn run(arguments: &PodArguments, format: Format) -> u8 {
    let Pod { config, facts, .. } = match Pod::read(arguments) {
        Ok(pod) => pod,
        Err(code) => return code,
    };
    match (decide::plan(&config, &facts), format) {
        (Ok(plan), Format::Text) => answer_text(&format!("{plan:#}")),
        (Ok(plan), Format::Json) => answer_json(&plan),
        (Err(error), _) => return failed(error.exit(), &error),
    }
    0
}
