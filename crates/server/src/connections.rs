//! How many connections there are, and which of them is closed when there are too many: a client without the token keeps
//! no client out that has it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::task::{AbortHandle, JoinSet};

/// Connections at a time.
const MOST: usize = 64;

#[derive(Default)]
pub(super) struct Connections {
    tasks: JoinSet<()>,
    /// Those without an authorised request, the oldest first.
    waiting: VecDeque<(AbortHandle, Authorised)>,
}

/// Whether the server has authorised the request of a connection, which then stays open until its answer is whole.
#[derive(Debug, Clone, Default)]
pub struct Authorised(Arc<AtomicBool>);

impl Authorised {
    /// Marks the request as authorised.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it is.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Connections {
    /// Waits until there is a place, and closes the oldest connection without an authorised request for that.
    pub(super) async fn make_room(&mut self) {
        while self.tasks.try_join_next().is_some() {}
        while self.tasks.len() >= MOST {
            self.forget();
            if let Some((oldest, _)) = self.waiting.pop_front() {
                oldest.abort();
            }
            self.tasks.join_next().await;
        }
    }

    pub(super) fn add(
        &mut self,
        authorised: Authorised,
        answer: impl Future<Output = ()> + Send + 'static,
    ) {
        self.forget();
        self.waiting.push_back((self.tasks.spawn(answer), authorised));
    }

    /// Forgets the connections that wait no more.
    fn forget(&mut self) {
        self.waiting.retain(|(task, authorised)| !task.is_finished() && !authorised.is_set());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::{sleep, timeout};

    #[tokio::test(start_paused = true)]
    async fn the_oldest_unauthorised_connection_is_closed() {
        let mut connections = Connections::default();
        let all: Vec<_> = (0..MOST).map(|_| Authorised::default()).collect();
        for authorised in &all {
            connections.make_room().await;
            connections.add(authorised.clone(), sleep(Duration::from_mins(1)));
        }
        for authorised in &all[1..] {
            authorised.set();
        }
        connections.make_room().await;
        assert_eq!(connections.tasks.len(), MOST - 1);
        let last = Authorised::default();
        last.set();
        connections.add(last, sleep(Duration::from_secs(90)));
        // No connection is closed before one has its answer.
        assert!(timeout(Duration::from_secs(30), connections.make_room()).await.is_err());
        connections.make_room().await;
    }
}
