//! The state of `top`, and the effect of keys on it.

use crate::error::line;
use anyhow::Result;
use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use flux_contract::instance::{InstanceReport, JobReport};

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct State {
    pub name: String,
    pub report: InstanceReport,
    pub selected: Option<String>,
    pub shows_output: bool,
    pub confirms: bool,
    pub error: Option<String>,
    pub message: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    None,
    Update,
    Cancel(String),
    Quit,
}

impl State {
    pub(super) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    /// Takes a new report. After an error the last report stays.
    pub(super) fn update(&mut self, report: Result<InstanceReport>) {
        match report {
            Ok(mut report) => {
                // A report that was requested before the output was opened has no output.
                if report.output.is_none() && self.shows_output {
                    report.output = self.report.output.take();
                }
                self.report = report;
                self.error = None;
            }
            Err(error) => self.error = Some(line(&error)),
        }
        // The output of a job that has ended can still be read.
        if self.position().is_none() && !self.shows_output {
            self.confirms = false;
            self.selected = self.report.jobs.first().map(|job| job.id.clone());
        }
    }

    pub(super) fn position(&self) -> Option<usize> {
        let selected = self.selected.as_ref()?;
        self.report.jobs.iter().position(|job| job.id == *selected)
    }

    pub(super) fn job(&self) -> Option<&JobReport> {
        self.report.jobs.get(self.position()?)
    }

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
        if self.confirms {
            self.confirms = false;
            let is_confirmed = matches!(key.code, KeyCode::Char('y' | 'Y'));
            return match self.selected.clone().filter(|_| is_confirmed) {
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
                return Action::Update;
            }
            KeyCode::Char('c') if self.job().is_some() => self.confirms = true,
            KeyCode::Up | KeyCode::Char('k') => return self.step(-1),
            KeyCode::Down | KeyCode::Char('j') => return self.step(1),
            _ => {}
        }
        Action::None
    }

    /// Selects the next or previous job. If output is shown, that of the new job is needed now.
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
        if self.shows_output { Action::Update } else { Action::None }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::fixtures::report;

    fn press(state: &mut State, code: KeyCode) -> Action {
        state.press(KeyEvent::new(code, KeyModifiers::NONE))
    }

    pub(in super::super) fn state() -> State {
        let mut state = State::new("hello");
        state.update(Ok(report()));
        state
    }

    #[test]
    fn the_selection_follows_its_job_while_that_exists() {
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
            assert_eq!(press(&mut state, key), Action::None, "no job is selected");
        }
    }

    #[test]
    fn output_is_requested_while_it_is_shown() {
        let mut state = state();
        assert_eq!(press(&mut state, KeyCode::Enter), Action::Update);
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
    fn a_job_is_cancelled_only_after_confirmation() {
        let mut state = state();
        press(&mut state, KeyCode::Char('c'));
        assert!(state.confirms);
        assert_eq!(press(&mut state, KeyCode::Char('q')), Action::None, "any other key refuses");
        press(&mut state, KeyCode::Char('c'));
        assert_eq!(press(&mut state, KeyCode::Char('y')), Action::Cancel("ƒ3".to_owned()));
        assert_eq!(press(&mut state, KeyCode::Char('q')), Action::Quit);
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(state.press(interrupt), Action::Quit);
    }

    #[test]
    fn errors_keep_the_last_report() {
        let mut state = state();
        state.update(Err(anyhow::anyhow!("connection refused").context("ask")));
        assert_eq!(state.error.as_deref(), Some("ask: connection refused"));
        assert_eq!(state.report, report());
        state.update(Ok(report()));
        assert_eq!(state.error, None);
    }
}
