//! What is tested: the project's own binaries, their images, and their installation in a cluster.

pub mod binaries;
pub mod images;
pub mod install;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// The root of this checkout.
///
/// # Errors
/// When the crate's directory has no parent.
pub fn checkout() -> Result<PathBuf> {
    let crate_directory = Path::new(env!("CARGO_MANIFEST_DIR"));
    Ok(crate_directory.parent().context("finding the checkout above the e2e crate")?.to_owned())
}
