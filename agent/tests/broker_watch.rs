//! Watching a broker from outside: what is asked, and what is left behind. Tests take turns, for each of
//! them waits for all children of this process.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod pod;

use flux_agent::flux::{Event, Watch};
use flux_agent::process::Children;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixListener;
use tokio::process::Command;
use tokio::sync::{Mutex, mpsc};
use tokio::time::timeout;

static TURN: Mutex<()> = Mutex::const_new(());
const PATIENCE: Duration = Duration::from_secs(20);

/// A watch of the broker at `local` in `directory`, with the shell text `uptime` for `flux uptime`.
fn watch(directory: &TempDir, uptime: &str) -> Watch {
    let mut command = Command::new("sh");
    command.args(["-c", uptime]).current_dir(directory.path());
    Watch {
        socket: directory.path().join("local"),
        uptime: command,
        children: Children::reaped().unwrap(),
        has_lead: false,
    }
}

/// Lines that the stand-in for `flux uptime` wrote into `calls`.
fn calls(directory: &Path) -> usize {
    fs::read_to_string(directory.join("calls")).map_or(0, |text| text.lines().count())
}

#[tokio::test]
async fn a_broker_that_lets_nobody_in_is_asked_with_flux_uptime() {
    let _turn = TURN.lock().await;
    let directory = TempDir::new().unwrap();
    let listener = UnixListener::bind(directory.path().join("local")).unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            counted.fetch_add(1, Ordering::SeqCst);
            // Who has waited for too long has gone, and asks again.
            let _ = stream.write_all(&[1]).await;
        }
    });
    let uptime = "echo >> calls; echo \" 12:34:56 run 1.2m,  owner flux,  depth 0,  size 4\"";
    let (events, mut changes) = mpsc::unbounded_channel();
    let watching = tokio::spawn(watch(&directory, uptime).run(events));
    let change = timeout(PATIENCE, changes.recv()).await.unwrap();
    assert_eq!(change, Some(Event::State("run".to_owned())));
    let of_socket = asked.load(Ordering::SeqCst);
    let asked_again = async {
        while calls(directory.path()) < 3 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, asked_again).await.unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), of_socket, "the socket is not asked any more");
    watching.abort();
}

/// What a watch of a worker's broker in state `quorum` reports whose question to the lead fails with `errno`.
async fn reports_with_the_lead_answering(errno: u8) -> Vec<Event> {
    let _turn = TURN.lock().await;
    let directory = TempDir::new().unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    pod::broker::broker_that(&directory.path().join("local"), move |topic, _| {
        if topic == "state-machine.monitor" {
            return Err(38);
        }
        // Its own state and the lead's are asked in turn.
        let question = counted.fetch_add(1, Ordering::SeqCst);
        if question.is_multiple_of(2) {
            Ok("{\"state\":\"quorum\"}".to_owned())
        } else {
            Err(errno)
        }
    });
    let (events, mut changes) = mpsc::unbounded_channel();
    let watch = Watch { has_lead: true, ..watch(&directory, "exit 1") };
    let watching = tokio::spawn(watch.run(events));
    let twice = async {
        while asked.load(Ordering::SeqCst) < 5 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, twice).await.unwrap();
    watching.abort();
    let mut seen = Vec::new();
    while let Ok(event) = changes.try_recv() {
        seen.push(event);
    }
    seen
}

#[tokio::test]
async fn a_worker_whose_broker_has_no_way_to_the_lead_before_the_quorum_has_lost_it() {
    let state = Event::State("quorum".to_owned());
    let seen = reports_with_the_lead_answering(113).await;
    assert_eq!(seen, [state.clone(), Event::LeadGone]);
    // Whatever else the lead says, it is there.
    assert_eq!(reports_with_the_lead_answering(1).await, [state]);
}

#[tokio::test]
async fn a_broker_that_is_slow_once_is_asked_over_its_socket_again() {
    let _turn = TURN.lock().await;
    let directory = TempDir::new().unwrap();
    let listener = std::os::unix::net::UnixListener::bind(directory.path().join("local")).unwrap();
    std::thread::spawn(move || {
        let _silent = listener.accept().unwrap();
        pod::broker::answer(listener.accept().unwrap().0, "run")
    });
    let (events, mut changes) = mpsc::unbounded_channel();
    let watching = tokio::spawn(watch(&directory, "echo >> calls; echo 1:00 run 1s,").run(events));
    let change = timeout(PATIENCE, changes.recv()).await.unwrap();
    assert_eq!(change, Some(Event::State("run".to_owned())));
    assert_eq!(calls(directory.path()), 0);
    watching.abort();
}

/// Processes of this machine, zombies apart, whose command line holds `word`.
fn running(word: &str) -> usize {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(word)).count()
}

#[tokio::test(start_paused = true)]
async fn nothing_piles_up_while_a_broker_stalls() {
    let _turn = TURN.lock().await;
    let directory = TempDir::new().unwrap();
    let listener = UnixListener::bind(directory.path().join("local")).unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(&[1]).await.unwrap();
        }
    });
    // No other process waits for just this long.
    let seconds = format!("6{}.5", std::process::id());
    let (events, _changes) = mpsc::unbounded_channel();
    let watched = watch(&directory, &format!("exec sleep {seconds}")).run(events);
    // Some ten looks, each given up after its time, by a clock that does not wait.
    assert!(timeout(Duration::from_mins(1), watched).await.is_err());
    tokio::time::resume();
    let gone = async {
        while running(&seconds) > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, gone).await.unwrap();
}
