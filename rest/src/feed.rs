//! What changes in the instance, for everybody who listens: looked at once for all of them, and while there are any.

use crate::serve::answer::event;
use crate::serve::context::Context;
use crate::serve::job::Job;
use bytes::Bytes;
use flux_protocol::client::job_list::find;
use flux_protocol::client::job_manager::{JournalEntry, follow_journal, next_entry};
use flux_protocol::client::{BrokerSocket, SocketError};
use flux_protocol::job::JobState;
use futures::future::ready;
use futures::{Stream, StreamExt as _, stream};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{broadcast, watch};
use tokio::time::{Instant, sleep};

/// Changes of jobs are gathered for so long.
const GATHERED: Duration = Duration::from_millis(250);
/// Messages that a listener may be behind by.
const MOST_BEHIND: usize = 64;
/// Pause between two looks at ranks and instance, and before jobs are followed again.
const INTERVAL: Duration = Duration::from_secs(1);
/// The pause is so many times as long as the look before it.
const REST: u32 = 10;
/// How often to see whether anybody still listens.
const CHECK: Duration = Duration::from_secs(5);

/// What has changed, as server-sent events.
pub(super) struct Feed {
    jobs: broadcast::Sender<Bytes>,
    /// As they stand; empty while nobody looks.
    resources: watch::Sender<Bytes>,
    instance: watch::Sender<Bytes>,
    is_watched: Mutex<bool>,
}

impl Feed {
    pub(super) fn new() -> Self {
        Self {
            jobs: broadcast::Sender::new(MOST_BEHIND),
            resources: watch::Sender::default(),
            instance: watch::Sender::default(),
            is_watched: Mutex::new(false),
        }
    }

    /// How ranks and instance stand, and everything that changes from now on. It ends for somebody who is too far behind.
    pub(super) fn listen(
        self: &Arc<Self>,
        context: &Arc<Context>,
    ) -> impl Stream<Item = Bytes> + Send + use<> {
        let jobs = stream::unfold(self.jobs.subscribe(), |mut jobs| async {
            Some((jobs.recv().await.ok(), jobs))
        });
        let [resources, instance] =
            [&self.resources, &self.instance].map(|state| Box::pin(states_of(state.subscribe())));
        let all = stream::select(Box::pin(jobs), stream::select(resources, instance));
        let mut is_watched = self.is_watched.lock();
        if !*is_watched {
            *is_watched = true;
            tokio::spawn(watch(Arc::clone(self), Arc::clone(context)));
        }
        all.take_while(|now| ready(now.is_some()))
            .filter_map(|now| ready(now.filter(|now| !now.is_empty())))
    }

    /// Waits until nobody listens.
    async fn deserted(&self) {
        loop {
            sleep(CHECK).await;
            let mut is_watched = self.is_watched.lock();
            if self.jobs.receiver_count() == 0 {
                *is_watched = false;
                self.resources.send_replace(Bytes::new());
                self.instance.send_replace(Bytes::new());
                return;
            }
        }
    }
}

/// What `state` is now, and whenever it is another.
fn states_of(mut state: watch::Receiver<Bytes>) -> impl Stream<Item = Option<Bytes>> + Send {
    state.mark_changed();
    stream::unfold(state, |mut state| async {
        state.changed().await.ok()?;
        let now = state.borrow_and_update().clone();
        Some((Some(now), state))
    })
}

async fn watch(feed: Arc<Feed>, context: Arc<Context>) {
    tokio::select! {
        () = follow_jobs(&feed, &context) => {}
        () = look(&feed, &context) => {}
        () = feed.deserted() => {}
    }
}

/// Publishes how ranks and instance stand whenever that is another than before.
async fn look(feed: &Feed, context: &Context) {
    let (mut resources, mut instance) = (Value::Null, Value::Null);
    loop {
        let began = Instant::now();
        if let Ok(now) = context.resources().await
            && now != resources
        {
            feed.resources.send_replace(event("resources", &now));
            resources = now;
        }
        if let Ok(now) = context.instance().await {
            let is_news = without_uptime(&now) != without_uptime(&instance);
            if is_news {
                feed.instance.send_replace(event("instance", &now));
                instance = now;
            }
        }
        sleep(INTERVAL.max(began.elapsed() * REST)).await;
    }
}

/// The instance but for what changes all the time.
fn without_uptime(instance: &Value) -> Value {
    let mut instance = instance.clone();
    instance.as_object_mut().and_then(|fields| fields.remove("uptime"));
    instance
}

async fn follow_jobs(feed: &Feed, context: &Context) {
    loop {
        // It is not there while the instance starts.
        let _ = journal(feed, context).await;
        sleep(INTERVAL).await;
    }
}

/// Jobs that have changed, and the state that each has reached by that, if it has reached one.
type Changed = BTreeMap<u64, Option<JobState>>;

fn gather(changed: &mut Changed, entry: &JournalEntry) {
    let Some(id) = entry.job() else { return };
    let reached = changed.entry(id).or_default();
    for event in &entry.events {
        *reached = JobState::after_event(&event.name).or(*reached);
    }
}

/// Publishes the jobs that change, until the broker ends that.
async fn journal(feed: &Feed, context: &Context) -> Result<(), SocketError> {
    let mut socket = context.connect().await?;
    follow_journal(&mut socket).await?;
    let entries = stream::unfold(socket, |mut socket| async {
        let entry = next_entry(&mut socket).await.ok()??;
        Some((entry, socket))
    });
    let mut entries = pin!(entries.fuse().skip_while(|it| ready(!it.is_end_of_backlog())));
    // The end of the backlog.
    entries.next().await;
    let mut answering = context.connect().await?;
    while let Some(first) = entries.next().await {
        let mut changed = Changed::new();
        gather(&mut changed, &first);
        let mut over = pin!(sleep(GATHERED));
        loop {
            tokio::select! {
                Some(entry) = entries.next() => gather(&mut changed, &entry),
                () = &mut over => break,
            }
        }
        let jobs = jobs(context, &mut answering, &changed).await?;
        // Nobody may listen just now.
        let _ = feed.jobs.send(event("jobs", &json!({ "jobs": jobs })));
    }
    Ok(())
}

async fn jobs(
    context: &Context,
    socket: &mut BrokerSocket,
    changed: &Changed,
) -> Result<Vec<Job>, SocketError> {
    let mut jobs = Vec::new();
    for (id, state) in changed {
        match find(socket, *id, *state).await {
            Ok(job) => jobs.push(context.job(job)),
            // It is forgotten already.
            Err(SocketError::Failed { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(jobs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happens_to_a_job_says_which_state_it_has_reached() {
        let mut changed = Changed::new();
        for text in [
            r#"{"id":1,"events":[{"name":"submit"}]}"#,
            r#"{"id":1,"events":[{"name":"depend"},{"name":"priority"}]}"#,
            r#"{"id":1,"events":[{"name":"annotations"}]}"#,
            r#"{"id":2,"events":[{"name":"exception"}]}"#,
            r#"{"id":-1,"events":[]}"#,
        ] {
            gather(&mut changed, &serde_json::from_str(text).unwrap());
        }
        assert_eq!(changed, [(1, Some(JobState::Sched)), (2, None)].into());
    }

    #[test]
    fn that_time_goes_by_is_no_news() {
        let instance = |uptime: f64, up: u32| json!({ "uptime": uptime, "up": up });
        assert_eq!(without_uptime(&instance(1.0, 1)), without_uptime(&instance(2.0, 1)));
        assert_ne!(without_uptime(&instance(1.0, 1)), without_uptime(&instance(1.0, 2)));
    }
}
