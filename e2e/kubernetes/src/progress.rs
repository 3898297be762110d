//! Shows the progress of long work: one line for each step, with the seconds since this process printed or began the
//! first. Nothing else in this library prints.

use anyhow::Result;
use std::io::Write as _;
use std::sync::LazyLock;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// How often a long step prints that it goes on.
const REMINDER: Duration = Duration::from_secs(15);

static STARTED: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Prints one line with the seconds since the start.
pub fn log(text: &str) {
    print_error(&format!("[{:>6.1} s] {text}", STARTED.elapsed().as_secs_f64()));
}

/// Does `work`; prints a line now and then, and one at the end.
pub fn step<T>(what: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    LazyLock::force(&STARTED);
    let begun = Instant::now();
    let taken = || format!("{:.1} s", begun.elapsed().as_secs_f64());
    let (finished, wait) = mpsc::channel::<()>();
    let done = thread::scope(|scope| {
        scope.spawn(move || {
            while wait.recv_timeout(REMINDER) == Err(RecvTimeoutError::Timeout) {
                log(&format!("{what}: at work for {}", taken()));
            }
        });
        let done = work();
        drop(finished);
        done
    })?;
    log(&format!("{what}: {}", taken()));
    Ok(done)
}

/// Like [`step`]; also prints at once what begins and how long it usually takes.
pub fn long_step<T>(what: &str, usually: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    log(&format!("{what} (usually {usually}) ..."));
    step(what, work)
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
