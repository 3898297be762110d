//! How many requests are answered.

use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

/// Lets requests pass: all of them, unless somebody says how many.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<(Mutex<Option<usize>>, Notify)>);

impl Gate {
    /// From now on so many pass.
    pub(crate) fn set(&self, requests: Option<usize>) {
        *self.0.0.lock().unwrap() = requests;
        self.0.1.notify_waiters();
    }

    /// Resolves when a request may pass.
    pub(crate) async fn pass(&self) {
        loop {
            let changed = self.0.1.notified();
            match self.0.0.lock().unwrap().as_mut() {
                None => return,
                Some(0) => {}
                Some(left) => {
                    *left -= 1;
                    return;
                }
            }
            changed.await;
        }
    }
}
