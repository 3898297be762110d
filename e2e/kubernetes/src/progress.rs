//! Shows the progress of long work: one line for each step, with the seconds since the start. Nothing else in this
//! library prints.

use anyhow::Result;
use std::io::Write as _;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// How often a long step prints that it goes on.
const REMINDER: Duration = Duration::from_secs(15);

/// Prints what is being done, each line with the seconds since this value was made.
#[derive(Debug, Clone)]
pub struct Progress {
    started: Instant,
    quiet: bool,
}

impl Progress {
    /// Starts the clock; lines go to standard error.
    #[expect(clippy::new_without_default, reason = "there is a quiet one, too")]
    pub fn new() -> Self {
        Self { started: Instant::now(), quiet: false }
    }

    /// Prints nothing.
    pub fn quiet() -> Self {
        Self { quiet: true, ..Self::new() }
    }

    /// Prints one line with the seconds since the start.
    pub fn log(&self, text: &str) {
        if !self.quiet {
            print_error(&render(self.started.elapsed(), text));
        }
    }

    /// Does `work`; prints a line now and then, and one at the end.
    pub fn step<T>(&self, what: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let begun = Instant::now();
        let (finished, wait) = mpsc::channel::<()>();
        let done = thread::scope(|scope| {
            scope.spawn(move || {
                while wait.recv_timeout(REMINDER) == Err(RecvTimeoutError::Timeout) {
                    self.log(&format!("{what}: at work for {}", seconds(begun.elapsed())));
                }
            });
            let done = work();
            drop(finished);
            done
        })?;
        self.log(&format!("{what}: {}", seconds(begun.elapsed())));
        Ok(done)
    }

    /// Like [`Progress::step`]; also prints at once what begins and how long it usually takes.
    pub fn long_step<T>(
        &self,
        what: &str,
        usually: &str,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        self.log(&format!("{what} (usually {usually}) ..."));
        self.step(what, work)
    }
}

/// Prints a result on standard output.
pub fn print(text: &str) {
    // If standard output is closed nobody can read an error.
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// Prints on standard error.
pub fn print_error(text: &str) {
    // If standard error is closed nobody can read an error.
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn render(elapsed: Duration, text: &str) -> String {
    format!("[{:>6.1} s] {text}", elapsed.as_secs_f64())
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}
