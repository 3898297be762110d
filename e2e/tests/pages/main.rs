//! The pages for people: what they link to is there, what they say to type exists, what they show is
//! accepted, what they say is tested is, and each of them is in the book.
#![expect(clippy::unwrap_used, clippy::panic, reason = "these are tests, helpers included")]

mod commands;
mod links;
mod manifests;
mod page;
mod versions;
mod workflows;

use e2e::product::checkout;
use std::path::PathBuf;

fn repository() -> PathBuf {
    checkout().unwrap().canonicalize().unwrap()
}
