//! Writes a log on a thread of its own.

use std::collections::VecDeque;
use std::io::{self, Write as _};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// How many bytes may wait for a reader: as many as a pipe holds (pipe(7)).
const LIMIT: usize = 64 * 1024;

/// The thread's end that takes lines.
pub(super) struct LogWriter {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    lines: VecDeque<String>,
    /// Bytes in `lines`.
    bytes: usize,
    /// Lines dropped since the last that was taken.
    dropped: u64,
    /// Lines taken by the thread are being written.
    writing: bool,
}

impl State {
    /// Adds `line` while there is room.
    fn take(&mut self, line: String) {
        if !self.lines.is_empty() && self.bytes + line.len() > LIMIT {
            self.dropped += 1;
            return;
        }
        self.bytes += line.len();
        self.lines.push_back(line);
    }

    /// What is to be written next.
    fn give(&mut self) -> VecDeque<String> {
        let mut lines = std::mem::take(&mut self.lines);
        self.bytes = 0;
        if self.dropped > 0 {
            let dropped = std::mem::take(&mut self.dropped);
            lines.push_back(format!(
                "flux-agent: warning: {dropped} lines of this log are missing: nobody read it"
            ));
        }
        lines
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> ! {
        loop {
            let idle = |state: &mut State| state.lines.is_empty();
            let mut state =
                self.changed.wait_while(self.state(), idle).unwrap_or_else(PoisonError::into_inner);
            let lines = state.give();
            state.writing = true;
            drop(state);
            for line in &lines {
                write_line(line);
            }
            self.state().writing = false;
            self.changed.notify_all();
        }
    }
}

impl LogWriter {
    /// Starts the thread. It ends with the process.
    pub(super) fn start() -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let writer = Arc::clone(&shared);
        thread::Builder::new().name("log".to_owned()).spawn(move || writer.write())?;
        Ok(Self { shared })
    }

    /// Takes `line`, and never waits.
    pub(super) fn take(&self, line: String) {
        self.shared.state().take(line);
        self.shared.changed.notify_all();
    }

    /// Waits until all is written, at most `patience`.
    pub(super) fn flush(&self, patience: Duration) {
        let busy = |state: &mut State| state.writing || !state.lines.is_empty();
        // What was not written by then is lost.
        let _ = self.shared.changed.wait_timeout_while(self.shared.state(), patience, busy);
    }
}

/// `line` on stderr, in one piece. There is nobody left to be told when that fails.
pub(super) fn write_line(line: &str) {
    let _ = io::stderr().lock().write_all(format!("{line}\n").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_reads_is_bounded_and_counted() {
        let mut state = State::default();
        let line = "x".repeat(LIMIT / 4);
        (0..7).for_each(|_| state.take(line.clone()));
        assert_eq!(state.lines.len(), 4);
        let given = state.give();
        assert_eq!(given.len(), 5);
        assert!(given[4].contains(" 3 lines of this log are missing"), "{}", given[4]);
        state.take(line);
        assert_eq!(state.give().len(), 1, "what was said once is not said again");
    }

    #[test]
    fn a_line_longer_than_the_limit_is_taken_when_nothing_waits() {
        let mut state = State::default();
        state.take("x".repeat(2 * LIMIT));
        assert_eq!(state.give().len(), 1);
    }
}
