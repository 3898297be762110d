//! Writes the log in a separate thread.

use parking_lot::Mutex;
use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::time::Duration;
use std::{iter, thread};

/// How many lines the queue has.
const QUEUE: usize = 512;

pub(super) struct LogWriter {
    lines: Mutex<Option<SyncSender<String>>>,
    /// The number of dropped lines that the log does not mention yet.
    dropped: Arc<AtomicU64>,
    /// Closed when the thread has ended.
    ended: Mutex<Receiver<()>>,
}

impl LogWriter {
    /// Starts the thread, which calls `output` with each line.
    pub(super) fn start(output: impl FnMut(&str) + Send + 'static) -> io::Result<Self> {
        let (sender, lines) = mpsc::sync_channel(QUEUE);
        let (thread_alive, ended) = mpsc::channel();
        let dropped = Arc::<AtomicU64>::default();
        let of_thread = Arc::clone(&dropped);
        thread::Builder::new().name("log".to_owned()).spawn(move || {
            write(&lines, &of_thread, output);
            drop::<mpsc::Sender<()>>(thread_alive);
        })?;
        Ok(Self { lines: Mutex::new(Some(sender)), dropped, ended: Mutex::new(ended) })
    }

    /// Queues `line`, or drops it if the queue is full. Never waits.
    pub(super) fn take(&self, line: String) {
        if self.lines.lock().as_ref().is_some_and(|lines| lines.try_send(line).is_err()) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Closes the queue and waits for at most `timeout` until all lines are written. Then the rest is lost.
    pub(super) fn finish(&self, timeout: Duration) {
        drop(self.lines.lock().take());
        let _ = self.ended.lock().recv_timeout(timeout);
    }
}

/// Calls `output` with all `lines`, and with the number of dropped lines whenever the queue is empty, which is the place of
/// the missing lines.
fn write(lines: &Receiver<String>, dropped: &AtomicU64, mut output: impl FnMut(&str)) {
    while let Ok(first) = lines.recv() {
        for line in iter::once(first).chain(lines.try_iter()) {
            output(&line);
        }
        let missing = dropped.swap(0, Ordering::Relaxed);
        if missing > 0 {
            output(&format!(
                "flux-agent: warning: {missing} lines of this log are missing: nobody read it"
            ));
        }
    }
}

/// Writes `line` to stderr in one piece. A failure cannot be reported.
pub(super) fn write_line(line: &str) {
    let _ = io::stderr().lock().write_all(format!("{line}\n").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(20);

    #[test]
    fn lines_beyond_the_queue_are_counted() {
        let (sender, written) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let writer = LogWriter::start(move |line| {
            sender.send(line.to_owned()).unwrap();
            // The reader of the log takes nothing before this is closed.
            let _ = released.recv();
        })
        .unwrap();
        writer.take("first".to_owned());
        assert_eq!(written.recv_timeout(TIMEOUT).unwrap(), "first");
        for number in 0..QUEUE + 3 {
            writer.take(number.to_string());
        }
        drop(release);
        writer.finish(TIMEOUT);
        let lines: Vec<String> = written.iter().collect();
        assert_eq!(lines.len(), QUEUE + 1);
        assert_eq!((lines[0].as_str(), &lines[QUEUE - 1]), ("0", &(QUEUE - 1).to_string()));
        assert!(lines[QUEUE].contains(" 3 lines of this log are missing"), "{}", lines[QUEUE]);
    }
}
