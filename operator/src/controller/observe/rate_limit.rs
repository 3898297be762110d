//! A rate limit for what many MiniClusters ask for at the same time, and what is not urgent for any of them.

use super::mini_cluster_cache::Name;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;

/// Time from one slot to the next: four a second, however many wait.
const PACE: Duration = Duration::from_millis(250);
/// A slot that nobody came for is forgotten.
const FORGOTTEN: Duration = Duration::from_mins(1);

#[derive(Default)]
pub(crate) struct RateLimit(Mutex<Slots>);

#[derive(Default)]
struct Slots {
    given: HashMap<Name, Instant>,
    /// The next that nobody has.
    free: Option<Instant>,
}

impl RateLimit {
    /// How long it is until the slot of `cluster`, which gets one if it has none; `None` when that has come, and is
    /// used with this.
    pub(crate) fn rest(&self, cluster: &Name) -> Option<Duration> {
        let (mut slots, now) = (self.0.lock(), Instant::now());
        let slot = if let Some(slot) = slots.given.get(cluster) {
            *slot
        } else {
            slots.given.retain(|_, slot| *slot + FORGOTTEN > now);
            let slot = slots.free.map_or(now, |free| free.max(now));
            slots.free = Some(slot + PACE);
            slots.given.insert(cluster.clone(), slot);
            slot
        };
        let rest = slot.checked_duration_since(now).filter(|rest| !rest.is_zero());
        if rest.is_none() {
            slots.given.remove(cluster);
        }
        rest
    }
}
