//! The image in which the images of the project are built, in the place of Docker's `rust`: a Debian with a Rust and
//! C compilers for every architecture.

use anyhow::Result;

use crate::{
    architecture::Architecture,
    cache::Cache,
    images::{
        debian::{Recipe, Release},
        image::Image,
    },
    progress::Progress,
};

/// What compiles and links for this machine's architecture.
const NATIVE: [&str; 4] = ["cargo", "gcc", "libc6-dev", "rustc"];

/// The image. Rust is Debian's of whatever version the backports have: a certain one is in the archive only until the
/// next is uploaded. Crates come from this machine: cargo asks nobody.
pub(super) fn image(cache: &Cache, progress: &Progress) -> Result<Image> {
    let packages = packages();
    let recipe = Recipe { release: Release::TrixieBackports, packages: &packages, program: None };
    let image = recipe.image(cache, progress)?;
    Ok(image.with_variables(&["CARGO_HOME=/usr/local/cargo", "CARGO_NET_OFFLINE=true"]))
}

fn packages() -> Vec<&'static str> {
    let others =
        Architecture::ALL.into_iter().filter(|it| Some(*it) != Architecture::of_this_machine());
    NATIVE.into_iter().chain(others.flat_map(Architecture::cross_packages)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_package_is_of_a_certain_version() {
        let packages = packages();
        assert!(packages.len() > NATIVE.len() && packages.contains(&"rustc"), "{packages:?}");
        assert!(!packages.iter().any(|package| package.contains('=')), "{packages:?}");
    }
}
