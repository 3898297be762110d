//! The changes of the instance, for every client that listens. One task watches the instance for all clients, while there
//! are any.

use crate::answer::event;
use crate::context::Context;
use axum::response::sse::Event;
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
use tokio_stream::wrappers::{BroadcastStream, WatchStream};

/// How long changes of jobs are collected before one event has them.
const GATHERED: Duration = Duration::from_millis(250);
/// Entries of the journal that one event is made of.
const MOST_GATHERED: usize = 1000;
/// Events that a client may be behind by.
const MOST_BEHIND: usize = 64;
/// Pause between two looks at ranks and instance, and before the journal of jobs is opened again.
const INTERVAL: Duration = Duration::from_secs(1);
/// The pause is so many times as long as the look before it.
const REST: u32 = 10;
/// How often the task checks whether a client still listens.
const CHECK: Duration = Duration::from_secs(5);

/// The changes as server-sent events.
pub(crate) struct Feed {
    jobs: broadcast::Sender<Event>,
    /// The state of both; `None` while no task watches the instance.
    resources: watch::Sender<Option<Event>>,
    instance: watch::Sender<Option<Event>>,
    is_watched: Mutex<bool>,
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
    async fn deserted(&self) {
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

/// The state of ranks and instance, and every change from now on. The stream ends for a client that is too far behind.
pub(crate) fn listen(context: &Arc<Context>) -> impl Stream<Item = Event> + Send + use<> {
    let feed = &context.feed;
    let jobs = BroadcastStream::new(feed.jobs.subscribe()).map(|event| event.ok().map(Some));
    let [resources, instance] = [&feed.resources, &feed.instance]
        .map(|state| WatchStream::new(state.subscribe()).map(Some));
    let all = stream::select(jobs, stream::select(resources, instance));
    let mut is_watched = feed.is_watched.lock();
    if !*is_watched {
        *is_watched = true;
        tokio::spawn(watch(Arc::clone(context)));
    }
    all.take_while(|next| ready(next.is_some())).filter_map(|next| ready(next.flatten()))
}

async fn watch(context: Arc<Context>) {
    tokio::select! {
        () = follow_jobs(&context) => {}
        () = look(&context) => {}
        () = context.feed.deserted() => {}
    }
}

/// Publishes the state of ranks and instance after each change.
async fn look(context: &Context) {
    let (mut resources, mut instance) = (Value::Null, Value::Null);
    loop {
        let began = Instant::now();
        if let Ok(now) = context.resources().await
            && now != resources
        {
            context.feed.resources.send_replace(Some(event("resources", &now)));
            resources = now;
        }
        if let Ok(now) = context.instance().await
            && without_uptime(&now) != without_uptime(&instance)
        {
            context.feed.instance.send_replace(Some(event("instance", &now)));
            instance = now;
        }
        sleep(INTERVAL.max(began.elapsed() * REST)).await;
    }
}

/// The instance without its uptime, which changes all the time.
fn without_uptime(instance: &Value) -> Value {
    let mut instance = instance.clone();
    instance.as_object_mut().and_then(|fields| fields.remove("uptime"));
    instance
}

async fn follow_jobs(context: &Context) {
    loop {
        // There is no journal while the instance starts.
        let _ = journal(context).await;
        sleep(INTERVAL).await;
    }
}

/// Jobs that have changed, and the state that each has reached, if it has reached one.
type Changed = BTreeMap<u64, Option<JobState>>;

fn gather(changed: &mut Changed, entry: &JournalEntry) {
    let Some(id) = entry.job() else { return };
    let reached = changed.entry(id).or_default();
    for event in &entry.events {
        *reached = JobState::after_event(&event.name).or(*reached);
    }
}

/// Publishes the jobs that change, until the broker ends that.
async fn journal(context: &Context) -> Result<(), SocketError> {
    let mut socket = context.connect().await?;
    follow_journal(&mut socket).await?;
    let entries = stream::unfold(socket, |mut socket| async {
        let entry = next_entry(&mut socket).await.ok()??;
        Some((entry, socket))
    });
    // Behind the end of the backlog.
    let entries = entries.skip_while(|it| ready(!it.is_end_of_backlog())).skip(1);
    let mut gathered =
        pin!(tokio_stream::StreamExt::chunks_timeout(entries, MOST_GATHERED, GATHERED));
    let mut answering = context.connect().await?;
    while let Some(entries) = gathered.next().await {
        let mut changed = Changed::new();
        for entry in &entries {
            gather(&mut changed, entry);
        }
        let jobs = jobs(context, &mut answering, &changed).await?;
        // Perhaps no client listens just now.
        let _ = context.feed.jobs.send(event("jobs", &json!({ "jobs": jobs })));
    }
    Ok(())
}

async fn jobs(
    context: &Context,
    socket: &mut BrokerSocket,
    changed: &Changed,
) -> Result<Vec<Value>, SocketError> {
    let mut jobs = Vec::new();
    for (id, state) in changed {
        match find(socket, *id, *state).await {
            Ok(job) => jobs.push(context.job(&job)),
            // Flux has removed the job already.
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
    fn the_events_of_a_job_give_its_state() {
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
    fn a_longer_uptime_is_no_change() {
        let instance = |uptime: f64, up: u32| json!({ "uptime": uptime, "up": up });
        assert_eq!(without_uptime(&instance(1.0, 1)), without_uptime(&instance(2.0, 1)));
        assert_ne!(without_uptime(&instance(1.0, 1)), without_uptime(&instance(1.0, 2)));
    }
}
