//! The documentation as a book, made by mdBook.

use std::process::Command;

use anyhow::Result;

use super::Tool;
use crate::{product::checkout, programs, progress::Progress};

/// Without the parts that watch and serve a book, which are most of it.
const MDBOOK: Tool = Tool {
    name: "mdbook",
    version: "0.5.4",
    options: &["--no-default-features", "--features=search"],
};

/// Builds the book where `book.toml` says; fails where a page of its table of contents is missing.
pub(super) fn build(progress: &Progress) -> Result<()> {
    let program = MDBOOK.program(progress)?;
    programs::show(Command::new(&program).arg("build").current_dir(checkout()?))
}
