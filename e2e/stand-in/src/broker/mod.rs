//! The broker: one event loop that owns all state.

pub(crate) mod attributes;
mod builtins;
pub(crate) mod content;
mod core;
mod deadlines;
mod directories;
mod family;
mod local;
pub(crate) mod log;
mod message;
mod notify;
mod phases;
pub(crate) mod program;
mod rc;
mod running;
mod services;
mod startup;
pub(crate) mod state;
mod status;
mod work;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{Receiver, UnboundedReceiver, UnboundedSender, unbounded_channel};

use self::core::{Broker, Channels};
use self::state::State;
use crate::failure::Failure;
use crate::front::Environment;

/// Runs a broker to its end and returns its exit code.
pub(crate) fn run(words: &[String], environment: Environment) -> Result<u8, Failure> {
    let startup = startup::prepare(words, environment)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(format!("broker: creating the event loop: {error}")))?;
    let code = runtime.block_on(serve(startup));
    // Lookups in flight and links that linger are of no interest any more.
    runtime.shutdown_background();
    code
}

async fn serve(startup: startup::Startup) -> Result<u8, Failure> {
    let (channels, mut receivers) = Channels::new();
    let (signals, mut caught) = unbounded_channel();
    catch_signals(&signals)
        .map_err(|error| Failure::new(format!("Error installing signal handlers: {error}")))?;
    let mut broker = Broker::new(startup, channels);
    broker.begin().await?;
    while broker.state() != State::Exit {
        let due = broker.next_deadline();
        tokio::select! {
            Some(number) = caught.recv() => broker.signalled(number),
            Some(event) = receivers.parent.recv() => broker.parent_event(event),
            Some((link, news)) = receivers.children.recv() => broker.link_news(link, news),
            Some(news) = receivers.clients.recv() => broker.client_news(news),
            Some(report) = receivers.reports.recv() => broker.task_report(report),
            Some(status) = receivers.program.recv() => broker.program_ended(status),
            () = tokio::time::sleep_until(due) => broker.deadline(),
        }
        broker.settle();
    }
    let (code, directories) = broker.end();
    // What was said last has to be delivered; a peer that does not listen is not waited for.
    drop(tokio::time::timeout(DELIVERY_LIMIT, receivers.alive.recv()).await);
    drop(directories);
    Ok(code)
}

/// How long a broker that is done waits for its peers to take what it said.
const DELIVERY_LIMIT: std::time::Duration = std::time::Duration::from_secs(2);

/// All signals a broker reacts to.
fn catch_signals(sender: &UnboundedSender<i32>) -> std::io::Result<()> {
    let kinds = [
        SignalKind::hangup(),
        SignalKind::interrupt(),
        SignalKind::quit(),
        SignalKind::terminate(),
        SignalKind::alarm(),
        SignalKind::user_defined1(),
        SignalKind::user_defined2(),
    ];
    for kind in kinds {
        let mut stream = signal(kind)?;
        let sender = sender.clone();
        tokio::spawn(async move {
            while stream.recv().await.is_some() {
                if sender.send(kind.as_raw_value()).is_err() {
                    return;
                }
            }
        });
    }
    Ok(())
}

/// The receiving ends of what happens around a broker.
struct Receivers {
    parent: UnboundedReceiver<crate::overlay::link::LinkEvent>,
    children: UnboundedReceiver<(u64, crate::overlay::listen::LinkNews)>,
    clients: UnboundedReceiver<local::ClientNews>,
    reports: UnboundedReceiver<crate::jobs::task::Report>,
    program: UnboundedReceiver<std::process::ExitStatus>,
    /// Ends when all that was said has been delivered.
    alive: Receiver<()>,
}
