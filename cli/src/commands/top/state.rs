//! What `top` shows, and what keys do to it.

use anyhow::Result;
use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use flux_contract::instance::{InstanceReport, JobReport};

/// What is shown.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct State {
    pub name: String,
    pub report: InstanceReport,
    /// Id of the job that is selected; ids stay when jobs come and go.
    pub selected: Option<String>,
    /// Whether the output of the selected job is shown in the place of the jobs.
    pub shows_output: bool,
    /// Whether it was asked if the selected job is to be cancelled.
    pub asks: bool,
    /// Why the last question was not answered.
    pub error: Option<String>,
    /// What came of the last action.
    pub message: Option<String>,
}

/// What a key asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    None,
    /// To look at the instance at once.
    Ask,
    Cancel(String),
    Quit,
}

impl State {
    pub(super) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    /// Takes what the instance has said, or why it has not. What was seen before stays in that case.
    pub(super) fn update(&mut self, report: Result<InstanceReport>) {
        match report {
            Ok(mut report) => {
                // An answer to a question from before the output was opened has none.
                if report.output.is_none() && self.shows_output {
                    report.output = self.report.output.take();
                }
                self.report = report;
                self.error = None;
            }
            Err(error) => self.error = Some(format!("{error:#}")),
        }
        // The output of a job that has ended can still be read.
        if self.position().is_none() && !self.shows_output {
            self.asks = false;
            self.selected = self.report.jobs.first().map(|job| job.id.clone());
        }
    }

    pub(super) fn say(&mut self, message: String) {
        self.message = Some(message);
    }

    /// The place of the selected job in the list.
    pub(super) fn position(&self) -> Option<usize> {
        let selected = self.selected.as_ref()?;
        self.report.jobs.iter().position(|job| job.id == *selected)
    }

    pub(super) fn job(&self) -> Option<&JobReport> {
        self.report.jobs.get(self.position()?)
    }

    /// The job whose output is asked for.
    pub(super) fn followed(&self) -> Option<String> {
        self.selected.clone().filter(|_| self.shows_output)
    }

    pub(super) fn press(&mut self, key: KeyEvent) -> Action {
        if key.kind == KeyEventKind::Release {
            return Action::None;
        }
        let is_interrupt =
            key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
        if is_interrupt {
            return Action::Quit;
        }
        self.message = None;
        if self.asks {
            self.asks = false;
            let wanted = matches!(key.code, KeyCode::Char('y' | 'Y'));
            return match self.selected.clone().filter(|_| wanted) {
                Some(id) => Action::Cancel(id),
                None => Action::None,
            };
        }
        self.command(key.code)
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "most keys do nothing")]
    fn command(&mut self, key: KeyCode) -> Action {
        match key {
            KeyCode::Esc if self.shows_output => self.shows_output = false,
            KeyCode::Char('q') | KeyCode::Esc => return Action::Quit,
            KeyCode::Enter if self.selected.is_some() => {
                self.shows_output = !self.shows_output;
                self.report.output = None;
                return Action::Ask;
            }
            KeyCode::Char('c') if self.job().is_some() => self.asks = true,
            KeyCode::Up | KeyCode::Char('k') => return self.step(-1),
            KeyCode::Down | KeyCode::Char('j') => return self.step(1),
            _ => {}
        }
        Action::None
    }

    /// Selects another job, whose output is read at once where that is shown.
    fn step(&mut self, step: isize) -> Action {
        let last = self.report.jobs.len().saturating_sub(1);
        let from = self.position().unwrap_or_default();
        let to = from.saturating_add_signed(step).min(last);
        let Some(job) = self.report.jobs.get(to) else { return Action::None };
        if self.selected.as_ref() == Some(&job.id) {
            return Action::None;
        }
        self.selected = Some(job.id.clone());
        self.report.output = None;
        if self.shows_output { Action::Ask } else { Action::None }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use flux_protocol::RankStatus;
    use flux_protocol::job::JobStatus;

    fn press(state: &mut State, code: KeyCode) -> Action {
        state.press(KeyEvent::new(code, KeyModifiers::NONE))
    }

    pub(in super::super) fn report() -> InstanceReport {
        let rank = |rank, allocated, up, drained: Option<&str>| RankStatus {
            rank,
            up,
            cores: 4,
            cores_allocated: allocated,
            drained: drained.map(str::to_owned),
            ..RankStatus::default()
        };
        let job = |id: &str, name: &str, state, ranks: Option<&str>, seconds| JobReport {
            id: id.to_owned(),
            user: "flux".to_owned(),
            name: name.to_owned(),
            state,
            tasks: 4,
            nodes: ranks.map(|_| 2),
            ranks: ranks.map(str::to_owned),
            seconds,
        };
        InstanceReport {
            ranks: vec![
                rank(0, 4, true, None),
                rank(1, 2, true, None),
                rank(2, 0, true, Some("bad fan")),
                rank(3, 0, false, None),
            ],
            jobs: vec![
                job("ƒ3", "wait", JobStatus::Sched, None, 5.0),
                job("ƒ2", "lammps", JobStatus::Run, Some("0-1"), 75.0),
            ],
            ..InstanceReport::default()
        }
    }

    pub(in super::super) fn state() -> State {
        let mut state = State::new("hello");
        state.update(Ok(report()));
        state
    }

    #[test]
    fn a_selection_stays_with_its_job_and_goes_to_another_when_that_is_gone() {
        let mut state = state();
        assert_eq!(state.selected.as_deref(), Some("ƒ3"));
        for (key, selected) in [
            (KeyCode::Up, "ƒ3"),
            (KeyCode::Down, "ƒ2"),
            (KeyCode::Down, "ƒ2"),
            (KeyCode::Char('k'), "ƒ3"),
            (KeyCode::Char('j'), "ƒ2"),
        ] {
            assert_eq!(press(&mut state, key), Action::None);
            assert_eq!(state.selected.as_deref(), Some(selected), "{key:?}");
        }
        let mut later = report();
        later.jobs.remove(0);
        state.update(Ok(later.clone()));
        assert_eq!(state.selected.as_deref(), Some("ƒ2"));
        later.jobs.clear();
        state.update(Ok(later));
        assert_eq!(state.selected, None);
        for key in [KeyCode::Down, KeyCode::Enter, KeyCode::Char('c')] {
            assert_eq!(press(&mut state, key), Action::None, "there is no job");
        }
    }

    #[test]
    fn output_is_asked_for_while_it_is_shown_also_of_a_job_that_has_ended() {
        let mut state = state();
        assert_eq!(press(&mut state, KeyCode::Enter), Action::Ask);
        assert_eq!(state.followed().as_deref(), Some("ƒ3"));
        state.update(Ok(InstanceReport { jobs: vec![], output: Some("x".into()), ..report() }));
        assert_eq!(
            (state.followed().as_deref(), state.report.output.as_deref()),
            (Some("ƒ3"), Some("x"))
        );
        assert_eq!(press(&mut state, KeyCode::Esc), Action::None);
        state.update(Ok(report()));
        assert_eq!(state.followed(), None);
        assert_eq!(press(&mut state, KeyCode::Esc), Action::Quit);
    }

    #[test]
    fn a_job_is_cancelled_only_after_a_yes() {
        let mut state = state();
        press(&mut state, KeyCode::Char('c'));
        assert!(state.asks);
        assert_eq!(press(&mut state, KeyCode::Char('q')), Action::None, "that is a no");
        press(&mut state, KeyCode::Char('c'));
        assert_eq!(press(&mut state, KeyCode::Char('y')), Action::Cancel("ƒ3".to_owned()));
        assert_eq!(press(&mut state, KeyCode::Char('q')), Action::Quit);
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(state.press(interrupt), Action::Quit);
    }

    #[test]
    fn an_error_is_shown_and_what_was_seen_stays() {
        let mut state = state();
        state.update(Err(anyhow::anyhow!("connection refused").context("ask")));
        assert_eq!(state.error.as_deref(), Some("ask: connection refused"));
        assert_eq!(state.report, report());
        state.update(Ok(report()));
        assert_eq!(state.error, None);
    }
}
