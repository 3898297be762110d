//! How much may be copied to a volume in memory.
//!
//! What is written there counts for the memory limit of whoever writes it, and the kernel kills whoever exceeds
//! that, without a word. So the copy ends before.

use super::error::ViewError;
use rustix::fs::{FsWord, statfs};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// `f_type` of a file system in memory (statfs(2)).
const IN_MEMORY: FsWord = 0x0102_1994;
/// What the copy itself needs.
const OWN: u64 = 4 << 20;
/// What is written takes whole pages.
const PAGE: u64 = 4096;

#[derive(Debug)]
pub(super) struct MemoryBudget {
    limit: u64,
    taken: AtomicU64,
}

impl MemoryBudget {
    /// The budget of a process with the memory limit `limit` that writes to `destination`; none where that is a
    /// disk.
    pub(super) fn for_copy_to(destination: &Path, limit: Option<u64>) -> Option<Self> {
        let kind = statfs(destination).ok()?.f_type;
        let limit = limit.filter(|_| kind == IN_MEMORY)?;
        Some(Self { limit, taken: AtomicU64::new(OWN) })
    }

    /// Accounts for a file of `bytes`; an error if it does not fit.
    pub(super) fn take(&self, bytes: u64) -> Result<(), ViewError> {
        let bytes = bytes.next_multiple_of(PAGE);
        let before = self.taken.fetch_add(bytes, Ordering::Relaxed);
        if before + bytes > self.limit {
            return Err(ViewError::MemoryLimit { limit: self.limit >> 20 });
        }
        Ok(())
    }
}
