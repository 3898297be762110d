//! How many connections there are, and which of them goes when there are too many: whoever has not asked anything yet
//! with the token keeps nobody out who does.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::task::{AbortHandle, JoinSet};

/// Connections at a time.
const MOST: usize = 64;

#[derive(Default)]
pub(crate) struct Connections {
    tasks: JoinSet<()>,
    /// Those that had asked nothing when this was last looked at, the oldest first.
    waiting: VecDeque<(AbortHandle, Asked)>,
}

/// Whether a connection has asked something with the token.
#[derive(Clone, Default)]
pub(crate) struct Asked(Arc<AtomicBool>);

impl Asked {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Connections {
    /// Waits until there is a place: the connection that has waited longest without a question is ended for it.
    pub(crate) async fn make_room(&mut self) {
        while self.tasks.try_join_next().is_some() {}
        while self.tasks.len() >= MOST {
            self.waiting.retain(|(task, asked)| !task.is_finished() && !asked.is_set());
            if let Some((oldest, _)) = self.waiting.pop_front() {
                oldest.abort();
            }
            self.tasks.join_next().await;
        }
    }

    pub(crate) fn add(
        &mut self,
        asked: Asked,
        conversation: impl Future<Output = ()> + Send + 'static,
    ) {
        let task = self.tasks.spawn(conversation);
        self.waiting.retain(|(task, asked)| !task.is_finished() && !asked.is_set());
        self.waiting.push_back((task, asked));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::{sleep, timeout};

    #[tokio::test(start_paused = true)]
    async fn the_oldest_that_asks_nothing_goes_and_those_that_ask_stay() {
        let mut connections = Connections::default();
        let all: Vec<_> = (0..MOST).map(|_| Asked::default()).collect();
        for asked in &all {
            connections.make_room().await;
            connections.add(asked.clone(), sleep(Duration::from_mins(1)));
        }
        for asked in &all[1..] {
            asked.set();
        }
        connections.make_room().await;
        assert_eq!(connections.tasks.len(), MOST - 1);
        let last = Asked::default();
        last.set();
        connections.add(last, sleep(Duration::from_secs(90)));
        // Nobody goes, until somebody has his answer.
        assert!(timeout(Duration::from_secs(30), connections.make_room()).await.is_err());
        connections.make_room().await;
    }
}
