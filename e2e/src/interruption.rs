//! An interrupted program leaves nothing behind.
//!
//! Clusters run in sessions of their own, so neither Ctrl-C nor a signal to this process reaches them; and a process
//! that a signal ends runs no destructor.

use crate::cache::Cache;
use crate::kubernetes::{self, Kubernetes, Options};
use crate::progress;
use anyhow::{Context as _, Result};
use std::process::exit;
use std::sync::{Mutex, PoisonError};

/// The clusters that an interruption ends.
static OWN: Mutex<Vec<Options>> = Mutex::new(Vec::new());

/// What a shell reports for a program that Ctrl-C has ended.
const INTERRUPTED: i32 = 130;

/// An interruption locks this and never unlocks it.
static AT_WORK: Mutex<()> = Mutex::new(());

/// Which clusters an interruption ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Those to be used.
    Used,
    /// Besides, all those of this checkout.
    Checkout,
}

/// From now on SIGINT, SIGTERM and SIGHUP end the child processes, then `own` and the clusters of `scope`, then this
/// process. A cluster that `--kubeconfig` names stays. A later call adds clusters, and keeps the first scope.
pub fn guard(own: impl IntoIterator<Item = Options>, scope: Scope) -> Result<()> {
    OWN.lock().unwrap_or_else(PoisonError::into_inner).extend(own);
    let cache = Cache::locate()?;
    let interrupted = move || {
        let _at_work = AT_WORK.lock();
        progress::print_error("interrupted: ending what was started");
        kubernetes::end_descendants();
        let mut beside = Kubernetes::all(&cache);
        beside.retain(|it| scope == Scope::Checkout && it.id.is_of_this_checkout());
        let own = OWN.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for options in own.iter().chain(&beside) {
            if let Err(error) = Kubernetes::down(options) {
                let id = options.id.as_str();
                progress::print_error(&format!("ending the cluster {id} failed: {error:#}"));
            }
        }
        #[expect(clippy::exit, reason = "the main thread waits for what was just ended")]
        exit(INTERRUPTED);
    };
    match ctrlc::set_handler(interrupted) {
        Err(ctrlc::Error::MultipleHandlers) => Ok(()),
        set => set.context("preparing for an interruption"),
    }
}

/// Blocks for good once an interruption has begun, which ends the process: failures after that are consequences of the
/// interruption, and must not be reported.
pub(crate) fn await_end() {
    drop(AT_WORK.lock().unwrap_or_else(PoisonError::into_inner));
}
