//! The broker: one event loop that owns all state.

pub(crate) mod core;
mod local;
mod message;
mod peers;
mod phases;
mod services;
mod startup;
pub(crate) mod state;

use self::core::Mailbox;
use self::state::State;
use crate::client::Call;
use crate::output::{self, Failure};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{channel, unbounded_channel};

/// How long a broker that has ended waits until its peers have its last messages.
const DELIVERY_LIMIT: Duration = Duration::from_secs(2);

pub(crate) fn run(call: &Call) -> Result<u8, Failure> {
    if call.words == ["--help"] {
        output::line("Usage: flux broker [OPTIONS]... [INITIAL-PROGRAM]");
        return Ok(0);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(format!("broker: creating the event loop: {error}")))?;
    let code = runtime.block_on(serve(call));
    // Lookups and links that still run do not matter any more.
    runtime.shutdown_background();
    code
}

async fn serve(call: &Call) -> Result<u8, Failure> {
    let (news, mut received) = unbounded_channel();
    let (alive, mut alive_ends) = channel(1);
    let mut broker = startup::prepare(call, Mailbox { news, alive: alive.downgrade() })?;
    catch_signals(&broker.mailbox)
        .map_err(|error| Failure::new(format!("Error installing signal handlers: {error}")))?;
    broker.begin().await?;
    while broker.state != State::Exit {
        let Some(news) = received.recv().await else { break };
        news(&mut broker);
        broker.settle();
    }
    let (code, directories) = broker.end();
    drop(alive);
    // The last messages have to be delivered, but not to a peer that does not read them.
    drop(tokio::time::timeout(DELIVERY_LIMIT, alive_ends.recv()).await);
    drop(directories);
    Ok(code)
}

fn catch_signals(mailbox: &Mailbox) -> std::io::Result<()> {
    use nix::libc::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    for kind in [SIGHUP, SIGINT, SIGQUIT, SIGTERM].map(SignalKind::from_raw) {
        let mut stream = signal(kind)?;
        let mailbox = mailbox.clone();
        tokio::spawn(async move {
            while stream.recv().await.is_some() {
                mailbox.report(move |broker| broker.signalled(kind.as_raw_value()));
            }
        });
    }
    Ok(())
}
