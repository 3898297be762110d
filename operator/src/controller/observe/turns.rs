//! Turns, for what many MiniClusters want at the same time and none of them is in a hurry for.

use super::recent::Name;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;

/// Time from one turn to the next: four a second, however many wait.
const PACE: Duration = Duration::from_millis(250);
/// A turn that nobody came for is forgotten.
const KEPT: Duration = Duration::from_mins(1);

#[derive(Default)]
pub(crate) struct Turns(Mutex<Given>);

#[derive(Default)]
struct Given {
    turns: HashMap<Name, Instant>,
    free: Option<Instant>,
}

impl Turns {
    /// How long it is until the turn of `cluster`, which gets one if it has none; `None` when that has come, and is
    /// used with this.
    pub(crate) fn rest(&self, cluster: &Name) -> Option<Duration> {
        let (mut given, now) = (self.0.lock(), Instant::now());
        let turn = if let Some(turn) = given.turns.get(cluster) {
            *turn
        } else {
            given.turns.retain(|_, turn| *turn + KEPT > now);
            let turn = given.free.map_or(now, |free| free.max(now));
            given.free = Some(turn + PACE);
            given.turns.insert(cluster.clone(), turn);
            turn
        };
        let rest = turn.checked_duration_since(now).filter(|rest| !rest.is_zero());
        if rest.is_none() {
            given.turns.remove(cluster);
        }
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn of_many_each_has_its_turn_once_and_one_alone_does_not_wait() {
        let turns = Turns::default();
        let rest = |name: usize| turns.rest(&("apps".to_owned(), name.to_string()));
        assert_eq!((rest(0), rest(1), rest(2)), (None, Some(PACE), Some(2 * PACE)));
        assert_eq!(rest(1), Some(PACE), "it keeps its turn");
        tokio::time::advance(PACE).await;
        assert_eq!((rest(1), rest(1)), (None, Some(2 * PACE)), "the next is another");
        tokio::time::advance(2 * KEPT).await;
        assert_eq!(rest(3), None);
        assert_eq!(turns.0.lock().turns.len(), 0, "nobody came for the others");
    }
}
