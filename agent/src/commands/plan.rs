//! `flux-agent plan`: what `run` would do in this pod.

use crate::commands::arguments::{Format, PodArguments};
use crate::commands::failure::{Done, failed};
use crate::commands::pod::Pod;
use crate::plan::decide;

/// Prints the plan.
pub(crate) fn run(arguments: &PodArguments, format: Format) -> Done {
    let Pod { config, facts, .. } = Pod::read(arguments)?;
    let plan = decide::plan(&config, &facts).map_err(|error| failed(error.exit(), &error))?;
    format.print(&plan, || format!("{plan:#}"));
    Ok(())
}
