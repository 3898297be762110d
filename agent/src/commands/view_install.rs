//! `flux-agent view install`: what the view image's init container does.

use crate::commands::failure::{Done, failed};
use crate::system::output::complain;
use crate::view::{InstallRequest, Progress, install_view};
use flux_contract::Exit;

/// Copies the view and says how far that is.
pub(crate) fn run(request: &InstallRequest) -> Done {
    let mut report = |progress: Progress| complain(&progress.to_string());
    let installed = install_view(request, &mut report);
    installed.map(drop).map_err(|error| failed(Exit::View, &error))
}
