//! A process of the plugin: its output while it runs, signals, and its end.

use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// A test fails when what it waits for does not happen within this time.
const DEADLINE: Duration = Duration::from_mins(1);

struct Output {
    text: Arc<watch::Sender<String>>,
    end: JoinHandle<()>,
}

impl Output {
    fn read(mut from: impl AsyncRead + Unpin + Send + 'static) -> Self {
        let text = Arc::new(watch::Sender::new(String::new()));
        let written = Arc::clone(&text);
        let end = tokio::spawn(async move {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = from.read(&mut buffer).await {
                let new = String::from_utf8_lossy(&buffer[..read]).into_owned();
                written.send_modify(|text| text.push_str(&new));
            }
        });
        Self { text, end }
    }

    async fn wait_for(&self, part: &str) {
        let mut text = self.text.subscribe();
        let found = timeout(DEADLINE, text.wait_for(|text| text.contains(part))).await;
        assert!(found.is_ok(), "{part:?} is not in {:?}", *self.text.borrow());
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    /// The exit code, or 128 and the signal that ended it.
    pub code: i32,
    pub out: String,
    pub err: String,
}

pub(crate) struct Process {
    child: Child,
    out: Output,
    err: Output,
}

impl Process {
    pub(crate) fn start(mut command: Command) -> Self {
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn().unwrap();
        let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        Self { child, out: Output::read(out), err: Output::read(err) }
    }

    pub(crate) async fn prints(&self, part: &str) {
        self.out.wait_for(part).await;
    }

    pub(crate) async fn reports(&self, part: &str) {
        self.err.wait_for(part).await;
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id().unwrap()).unwrap();
        signal::kill(Pid::from_raw(pid), signal).unwrap();
    }

    pub(crate) fn close_output(&self) {
        self.out.end.abort();
    }

    pub(crate) async fn end(mut self) -> Ended {
        let status = timeout(DEADLINE, self.child.wait()).await;
        let written = || (self.out.text.borrow().clone(), self.err.text.borrow().clone());
        let Ok(status) = status else { panic!("it runs on: {:?}", written()) };
        let status = status.unwrap();
        // A closed output has been read as far as the test needs.
        drop(self.out.end.await);
        self.err.end.await.unwrap();
        let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap();
        Ended { code, out: self.out.text.borrow().clone(), err: self.err.text.borrow().clone() }
    }
}
