//! Programs of cargo's that check something. Each takes minutes to build: once built, the cache has it.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;

use crate::{
    cache::{Cache, Key},
    product::{binaries, cargo, checkout},
    programs,
    progress::Progress,
};

/// Checks licences, bans and sources of the crates of every platform. Advisories need a database from the network: the
/// workflow `advisories.yaml` checks them.
pub(super) fn deny(program: &Path, progress: &Progress) -> Result<()> {
    fetch_every_platform(progress)?;
    programs::show(
        Command::new(program)
            .args(["--offline", "check", "--hide-inclusion-graph", "bans", "licenses", "sources"])
            .current_dir(checkout()?),
    )
}

/// Downloads the crates of every platform: a build downloads those of its own only, and
/// `cargo deny --offline` reads them all.
fn fetch_every_platform(progress: &Progress) -> Result<()> {
    progress.step("the crates of every platform are downloaded", || {
        programs::show(&mut cargo(&["fetch", "--locked", "--quiet"])?)
    })
}

/// Fails where a crate names a dependency that it does not use. What it does not use of itself the
/// compiler finds: little is public.
pub(super) fn unused_dependencies(program: &Path) -> Result<()> {
    programs::show(Command::new(program).arg("--skip-target-dir").current_dir(checkout()?))
}

/// Builds the book where `book.toml` says; fails where a page of its table of contents is missing.
pub(super) fn build_book(program: &Path) -> Result<()> {
    programs::show(Command::new(program).arg("build").current_dir(checkout()?))
}

/// A program that `cargo install` builds.
pub(super) struct Tool {
    name: &'static str,
    version: &'static str,
    options: &'static [&'static str],
}

/// The release of cargo-deny that checks the dependencies, here and in workflows.
pub const CARGO_DENY_VERSION: &str = "0.20.2";
pub(super) const CARGO_DENY: Tool =
    Tool { name: "cargo-deny", version: CARGO_DENY_VERSION, options: &["--no-default-features"] };
pub(super) const CARGO_MACHETE: Tool =
    Tool { name: "cargo-machete", version: "0.9.2", options: &[] };
/// Without the parts that watch and serve a book, which are most of it.
pub(super) const MDBOOK: Tool = Tool {
    name: "mdbook",
    version: "0.5.4",
    options: &["--no-default-features", "--features=search"],
};

impl Tool {
    /// Its path in the cache, if it was built there.
    pub(super) fn built(&self) -> Result<Option<PathBuf>> {
        let found = Cache::locate()?.find(&Key::new(self.name, self.version, &[]));
        Ok(found.map(|directory| self.program_in(&directory)))
    }

    /// Its path in the cache; it is built there if need be.
    pub(super) fn program(&self, progress: &Progress) -> Result<PathBuf> {
        let cache = Cache::locate()?;
        let key = Key::new(self.name, self.version, &[]);
        let directory = match cache.find(&key) {
            Some(found) => found,
            None => progress.long_step(&format!("building {}", self.name), "4 min", || {
                cache.artefact(&key, |directory| self.install(directory))
            })?,
        };
        Ok(self.program_in(&directory))
    }

    fn program_in(&self, directory: &Path) -> PathBuf {
        directory.join("bin").join(self.name)
    }

    /// Unoptimised, and below the checkout's `target`: so the crates that the tests have as well are not built
    /// a second time, and a run takes seconds all the same.
    fn install(&self, directory: &Path) -> Result<()> {
        let mut command = cargo(&["install", "--quiet", "--locked", "--debug", self.name])?;
        command.env("CARGO_PROFILE_DEV_DEBUG", "0").arg("--target-dir").arg(binaries::target()?);
        command.args(["--version", self.version]).args(self.options).arg("--root").arg(directory);
        programs::show(&mut command)
    }
}
