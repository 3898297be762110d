//! `flux-agent view install`: what the view image's init container does.

use crate::commands::failure::{Done, failed};
use crate::commands::install;
use crate::system::output::complain;
use crate::view::{InstallRequest, install_view};
use flux_contract::{Exit, Layout};

/// Copies the view and says what that was; before it the agent, if `agent` says so.
pub(crate) fn run(request: &InstallRequest, agent: bool) -> Done {
    if agent {
        install::run(&Layout::new(&request.destination).bin_dir())?;
    }
    let report =
        install_view(request, &mut complain).map_err(|error| failed(Exit::View, &error))?;
    complain(&report.to_string());
    Ok(())
}
