//! `flux-agent view install`: what the view image's init container does.

use crate::commands::failure::failed;
use crate::system::output::complain;
use crate::view::{InstallRequest, Progress, install_view};
use flux_contract::Exit;

/// Copies the view and says how far that is.
pub(crate) fn run(request: &InstallRequest) -> u8 {
    let mut report = |progress: Progress| complain(&progress.to_string());
    match install_view(request, &mut report) {
        Ok(_) => 0,
        Err(error) => failed(Exit::View, &error),
    }
}
