//! What somebody interrupts leaves nothing behind.
//!
//! Clusters run in sessions of their own, so neither Ctrl-C nor a signal to this process reaches them, and
//! a process that a signal ends drops nothing.

use crate::cache::Cache;
use crate::kubernetes::{self, Kubernetes, Options};
use crate::progress;
use anyhow::{Context as _, Result};
use std::process::exit;
use std::sync::{Mutex, PoisonError};

/// What a shell reports for a program that Ctrl-C has ended.
const INTERRUPTED: i32 = 130;

/// Held for good by an interruption.
static AT_WORK: Mutex<()> = Mutex::new(());

/// Which clusters an interruption ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Those to be used.
    Used,
    /// Besides, all those of this checkout.
    Checkout,
}

/// From now on SIGINT, SIGTERM and SIGHUP end what this process has started, then `own` and the clusters of
/// `scope`, then this process. A cluster of somebody else stays.
pub fn guard(own: impl IntoIterator<Item = Options>, scope: Scope) -> Result<()> {
    let own: Vec<_> = own.into_iter().collect();
    let cache = Cache::locate()?;
    let interrupted = move || {
        let _at_work = AT_WORK.lock();
        progress::print_error("interrupted: ending what was started");
        kubernetes::end_descendants();
        let mut beside = Kubernetes::all(&cache);
        beside.retain(|it| scope == Scope::Checkout && it.id.is_of_this_checkout());
        for options in own.iter().chain(&beside) {
            if let Err(error) = Kubernetes::down(options) {
                let id = options.id.as_str();
                progress::print_error(&format!("ending the cluster {id} failed: {error:#}"));
            }
        }
        #[expect(clippy::exit, reason = "the main thread waits for what was just ended")]
        exit(INTERRUPTED);
    };
    ctrlc::set_handler(interrupted).context("preparing for an interruption")
}

/// Does not return while an interruption is at work, which ends the process: what fails then fails because
/// of it.
pub(crate) fn await_end() {
    drop(AT_WORK.lock().unwrap_or_else(PoisonError::into_inner));
}
