//! Writes a log on a thread of its own.

use parking_lot::Mutex;
use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::time::Duration;
use std::{iter, thread};

/// How many lines may wait for a reader.
const QUEUE: usize = 512;

pub(super) struct LogWriter {
    lines: Mutex<Option<SyncSender<String>>>,
    /// Lines dropped since the log last said how many are missing.
    dropped: Arc<AtomicU64>,
    /// Closed when the thread has ended.
    ended: Mutex<Receiver<()>>,
}

impl LogWriter {
    /// Starts the thread, which gives each line to `output`.
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

    /// Queues `line`, or drops it where the queue is full: never waits.
    pub(super) fn take(&self, line: String) {
        if self.lines.lock().as_ref().is_some_and(|lines| lines.try_send(line).is_err()) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes no more lines, and waits until all are written, for `timeout` at most. What was not written by then
    /// is lost.
    pub(super) fn finish(&self, timeout: Duration) {
        drop(self.lines.lock().take());
        let _ = self.ended.lock().recv_timeout(timeout);
    }
}

/// Gives all `lines` to `output`. How many were dropped is said when the queue is empty, which is where they are missing.
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

/// `line` on stderr, in one piece. Where that fails, there is nowhere else to say so.
pub(super) fn write_line(line: &str) {
    let _ = io::stderr().lock().write_all(format!("{line}\n").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(20);

    #[test]
    fn what_nobody_reads_is_bounded_and_counted() {
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
