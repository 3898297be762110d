//! Watches the broker from outside: its state, and whether it has lost its lead.

use crate::flux::broker_socket::{BrokerSocket, SocketError};
use crate::process::children::Children;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::process::Command;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// First pause between two looks: a small cluster is up within a second.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// Each pause is so much longer than the one before.
const GROWTH: f64 = 1.5;
/// Longest pause while the broker is on its way.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Longest pause once it has arrived: only its end is still to come, and that is noticed at once.
const LONGEST_PAUSE_ONLINE: Duration = Duration::from_secs(10);
/// How long the broker may take to answer on its socket, which it does from memory.
const SOCKET_PATIENCE: Duration = Duration::from_secs(1);
/// How long the lead may take to answer, perhaps over several brokers.
const LEAD_PATIENCE: Duration = Duration::from_secs(5);
/// How long `flux uptime` may take.
const UPTIME_PATIENCE: Duration = Duration::from_secs(5);

/// Something changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The broker reports another state.
    State(String),
    /// A worker's broker waits for the quorum of a lead that does not know it.
    LeadGone,
}

/// What is watched, and how.
#[derive(Debug)]
pub struct Watch {
    /// The broker's local socket.
    pub socket: PathBuf,
    /// `flux uptime` as the broker's user: asked where the socket does not answer us, as when the
    /// user's own configuration lets nobody in but the owner.
    pub uptime: Command,
    /// Where the process for that is started.
    pub children: Children,
    /// The broker is a worker's.
    pub has_lead: bool,
}

impl Watch {
    /// Reports every change to `events` until nobody listens any more.
    pub async fn run(mut self, events: mpsc::UnboundedSender<Event>) {
        let mut way = Way::Socket(None);
        let mut seen: Vec<Event> = Vec::new();
        let mut pause = FIRST_PAUSE;
        let wake = Arc::new(Notify::new());
        let mut monitor = JoinSet::new();
        let mut is_monitored = false;
        while !events.is_closed() {
            let state = self.state(&mut way).await.map(Event::State);
            let waits = state == Some(Event::State("quorum".to_owned())) && self.has_lead;
            let gone = (waits && lead_is_gone(&mut way).await).then_some(Event::LeadGone);
            let now: Vec<Event> = [state, gone].into_iter().flatten().collect();
            let mut changed = false;
            for event in now.iter().filter(|event| !seen.contains(event)) {
                changed = true;
                // Nobody listening is noticed above.
                let _ = events.send(event.clone());
            }
            seen = now;
            let online = seen.contains(&Event::State("run".to_owned()));
            let longest = if online { LONGEST_PAUSE_ONLINE } else { LONGEST_PAUSE };
            pause = if changed { FIRST_PAUSE } else { pause.mul_f64(GROWTH).min(longest) };
            // An older Flux, and one that lets only its owner in, is looked at from time to time.
            if !is_monitored && matches!(way, Way::Socket(Some(_))) {
                is_monitored = true;
                monitor.spawn(notify_of_changes(self.socket.clone(), Arc::clone(&wake)));
            }
            tokio::select! {
                () = sleep(pause) => {}
                () = wake.notified() => {}
            }
        }
    }

    /// The broker's own word for its state; `None` while it does not answer. A socket that answers,
    /// but not with a state, is not asked again once `flux uptime` knows one. A broker that is too
    /// busy to answer is asked the same way later: it would answer `flux uptime` no sooner.
    async fn state(&mut self, way: &mut Way) -> Option<String> {
        if let Way::Socket(connection) = way {
            match timeout(SOCKET_PATIENCE, ask(&self.socket, connection)).await {
                Ok(Ok(state)) => return Some(state),
                Err(_) | Ok(Err(SocketError::Connect { .. })) => {
                    *connection = None;
                    return None;
                }
                Ok(Err(_)) => *connection = None,
            }
        }
        // One that takes longer is killed.
        let state = timeout(UPTIME_PATIENCE, self.uptime()).await.ok().flatten();
        if state.is_some() {
            *way = Way::Uptime;
        }
        state
    }

    async fn uptime(&mut self) -> Option<String> {
        self.uptime.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut running = self.children.spawn(&mut self.uptime).ok()?;
        let mut stdout = running.stdout()?;
        let mut text = String::new();
        let (read, status) = tokio::join!(stdout.read_to_string(&mut text), running.wait());
        (read.is_ok() && status.is_ok_and(|status| status.success())).then_some(())?;
        state_of_uptime(&text)
    }
}

/// Notifies of every change of the broker's state, until the connection ends.
async fn notify_of_changes(socket: PathBuf, changed: Arc<Notify>) -> Result<(), SocketError> {
    let mut connection = BrokerSocket::connect(&socket).await?;
    connection.monitor_state().await?;
    loop {
        connection.state_change().await?;
        changed.notify_one();
    }
}

/// Whether the broker has nobody to pass a question for the lead on to. In state `run` a broker that another lead
/// sends away ends by itself; while it waits for the quorum, it stays for ever (Flux 0.88,
/// `monitor_parent_continuation` of the broker's state machine). Where no answer comes, nothing is known.
async fn lead_is_gone(way: &mut Way) -> bool {
    let Way::Socket(Some(connection)) = way else { return false };
    let Ok(answer) = timeout(LEAD_PATIENCE, connection.state_of_lead()).await else {
        // The answer may come yet, and must not be taken for another one's.
        *way = Way::Socket(None);
        return false;
    };
    answer.is_err_and(|error| error.is_unreachable())
}

/// How the broker is asked.
enum Way {
    /// Over its own socket, the cheap way.
    Socket(Option<BrokerSocket>),
    /// With `flux uptime`.
    Uptime,
}

async fn ask(
    socket: &std::path::Path,
    connection: &mut Option<BrokerSocket>,
) -> Result<String, SocketError> {
    match connection {
        Some(connection) => connection.state().await,
        None => connection.insert(BrokerSocket::connect(socket).await?).state().await,
    }
}

/// The state in ` 12:34:56 run 1.2m,  owner flux,  depth 0,  size 4` (flux-uptime(1)).
fn state_of_uptime(text: &str) -> Option<String> {
    let state = text.lines().next()?.split_whitespace().nth(1)?;
    state.chars().all(|c| c.is_ascii_lowercase() || c == '-').then(|| state.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_the_second_word_of_uptime() {
        let line = " 17:00:58 join 0.8s,  owner root,  depth 0,  size 4\n  submit disabled\n";
        assert_eq!(state_of_uptime(line).as_deref(), Some("join"));
        assert_eq!(state_of_uptime("17:00:58 config-sync 1s").as_deref(), Some("config-sync"));
        assert_eq!(state_of_uptime("flux: Error 5"), None);
        assert_eq!(state_of_uptime(""), None);
    }
}
