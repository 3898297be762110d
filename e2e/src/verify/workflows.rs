//! The workflows of the repository's host, which cannot run here.

use std::process::Command;

use anyhow::Result;

use crate::{cache::Cache, kubernetes, product::checkout, programs, progress::Progress};

/// Checks what can be checked of them without running them: syntax, types of expressions, and the
/// scripts in them where shellcheck is installed.
pub(super) fn check(progress: &Progress) -> Result<()> {
    let actionlint = kubernetes::actionlint(&Cache::locate()?, progress)?;
    programs::show(Command::new(actionlint).current_dir(checkout()?))
}
