//! What a command waits for, on the standard error.

use crate::commands::status::{state_condition, summary, without_log_command};
use crate::prelude::*;
use indicatif::{ProgressBar, ProgressFinish};
use tokio::time::Instant;

const TICK: Duration = Duration::from_millis(120);
/// How long a MiniCluster that does not run may stay as it is before its cause is read.
const PATIENCE: Duration = Duration::from_secs(10);

/// The state of a MiniCluster: a changing line on a terminal, otherwise one line for each message.
pub(crate) struct Progress {
    name: String,
    /// Hidden without a terminal.
    bar: ProgressBar,
    last: String,
    /// The last change, if what has changed does not run and has not been explained.
    unexplained: Option<Instant>,
    causes: Vec<String>,
}

impl Progress {
    pub(crate) fn new(name: &str) -> Self {
        let bar = ProgressBar::new_spinner().with_finish(ProgressFinish::AndClear);
        bar.enable_steady_tick(TICK);
        Self { bar, ..Self::lines(name) }
    }

    /// Prints lines on a terminal, too: several commands can do that side by side.
    pub(crate) fn lines(name: &str) -> Self {
        let (name, bar) = (name.to_owned(), ProgressBar::hidden());
        Self { name, bar, last: String::new(), unexplained: None, causes: Vec::new() }
    }

    pub(crate) fn print_state(&mut self, cluster: &MiniCluster) {
        if let (Some(state), Some(condition)) = (cluster.state(), state_condition(cluster)) {
            let message = without_log_command(&condition.message, &self.name);
            self.print(&format!("{state}: {message}"));
            if !matches!(state, State::Pending | State::Starting | State::Suspended) {
                self.unexplained = None;
            }
        }
    }

    pub(crate) fn print_unprocessed(&mut self, cluster: &MiniCluster) {
        if cluster.state().is_none() {
            self.print_line(summary(cluster));
        }
    }

    pub(crate) fn print(&mut self, text: &str) {
        self.print_line(format!("{}: {text}", self.name));
    }

    fn print_line(&mut self, line: String) {
        if line == self.last {
            return;
        }
        if self.bar.is_hidden() || self.bar.is_finished() {
            print_stderr(&line);
        } else {
            self.bar.set_message(line.clone());
        }
        self.last = line;
        self.unexplained = Some(Instant::now());
    }

    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// True once for each change, when it is [`PATIENCE`] ago.
    pub(crate) fn is_due(&mut self) -> bool {
        self.unexplained.take_if(|since| since.elapsed() >= PATIENCE).is_some()
    }

    /// Prints cause and remedy, above a line that changes.
    pub(crate) fn print_advice(&mut self, cause: &str, remedy: Option<&str>) {
        if let Some(advice) = self.advice(cause, remedy) {
            self.bar.suspend(|| print_stderr(&advice));
        }
    }

    /// The lines about a cause, unless it was printed before, or time alone removes it.
    fn advice(&mut self, cause: &str, remedy: Option<&str>) -> Option<String> {
        let remedy = remedy.filter(|remedy| *remedy != "wait")?;
        if self.causes.iter().any(|it| it == cause) {
            return None;
        }
        self.causes.push(cause.to_owned());
        let remedy = format!("remedy: {remedy}");
        let is_shown = self.bar.is_hidden() && self.last.ends_with(cause);
        Some(if is_shown { remedy } else { format!("cause:  {cause}\n{remedy}") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::sleep;

    #[test]
    fn each_cause_is_printed_once() {
        let mut progress = Progress::lines("hello");
        progress.print("Pending: no quota");
        for (cause, remedy, expected) in [
            ("no quota", Some("wait"), None),
            ("no quota", None, None),
            ("no quota", Some("raise it"), Some("remedy: raise it")),
            ("no quota", Some("raise it"), None),
            ("no node", Some("add one"), Some("cause:  no node\nremedy: add one")),
            ("no quota", Some("raise it"), None),
        ] {
            assert_eq!(progress.advice(cause, remedy).as_deref(), expected, "{cause} {remedy:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_is_explained_when_none_has_followed_for_ten_seconds() {
        let mut progress = Progress::lines("hello");
        let mut due = Vec::new();
        for text in ["created", "created", "Pending: a", "Pending: a", "Pending: a"] {
            progress.print(text);
            sleep(Duration::from_secs(6)).await;
            due.push(progress.is_due());
        }
        assert_eq!(due, [false, true, false, true, false]);
    }
}
