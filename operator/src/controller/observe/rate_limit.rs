//! A rate limiter for requests that many MiniClusters may want to send at once and that are not urgent.

use super::mini_cluster_cache::NamespacedName;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;

const SLOT_INTERVAL: Duration = Duration::from_millis(250);
/// Time after which an unused slot is forgotten.
const UNUSED_SLOT_LIFETIME: Duration = Duration::from_mins(1);

#[derive(Default)]
pub(crate) struct RateLimit(Mutex<Slots>);

#[derive(Default)]
struct Slots {
    given: HashMap<NamespacedName, Instant>,
    /// Time of the next free slot.
    free: Option<Instant>,
}

impl RateLimit {
    /// Time until the slot of `mini_cluster`, which gets one if it has none; `None` when its time has come.
    pub(crate) fn remaining(&self, mini_cluster: &NamespacedName) -> Option<Duration> {
        let (mut slots, now) = (self.0.lock(), Instant::now());
        let slot = if let Some(slot) = slots.given.get(mini_cluster) {
            *slot
        } else {
            slots.given.retain(|_, slot| *slot + UNUSED_SLOT_LIFETIME > now);
            let slot = slots.free.map_or(now, |free| free.max(now));
            slots.free = Some(slot + SLOT_INTERVAL);
            slots.given.insert(mini_cluster.clone(), slot);
            slot
        };
        let remaining = slot.checked_duration_since(now).filter(|remaining| !remaining.is_zero());
        if remaining.is_none() {
            slots.given.remove(mini_cluster);
        }
        remaining
    }
}
