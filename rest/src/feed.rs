//! The changes of the instance, for every client that listens.

use axum::response::sse::Event;
use parking_lot::Mutex;
use std::time::Duration;
use tokio::sync::{broadcast, watch};
use tokio::time::sleep;

/// Events that a client may be behind by.
const MOST_BEHIND: usize = 64;
/// How often the task checks whether a client still listens.
const CHECK: Duration = Duration::from_secs(5);

/// The changes as server-sent events.
pub(crate) struct Feed {
    pub(crate) jobs: broadcast::Sender<Event>,
    /// The state of both; `None` while no task watches the instance.
    pub(crate) resources: watch::Sender<Option<Event>>,
    pub(crate) instance: watch::Sender<Option<Event>>,
    pub(crate) is_watched: Mutex<bool>,
}

impl Feed {
    pub(crate) fn new() -> Self {
        Self {
            jobs: broadcast::Sender::new(MOST_BEHIND),
            resources: watch::Sender::default(),
            instance: watch::Sender::default(),
            is_watched: Mutex::new(false),
        }
    }

    /// Waits until no client listens.
    pub(crate) async fn deserted(&self) {
        loop {
            sleep(CHECK).await;
            let mut is_watched = self.is_watched.lock();
            if self.jobs.receiver_count() == 0 {
                *is_watched = false;
                self.resources.send_replace(None);
                self.instance.send_replace(None);
                return;
            }
        }
    }
}
