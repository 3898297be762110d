//! The screen of `top`.

use super::state::State;
use crate::output::duration;
use flux_contract::instance::JobReport;
use flux_protocol::RankStatus;
use flux_protocol::job::JobStatus;
use ratatui::Frame;
use ratatui::layout::Constraint::{Length, Min};
use ratatui::layout::{Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize as _};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Paragraph, Row, Table, TableState};
use std::fmt::Write as _;

const BAR: u16 = 24;

pub(super) fn draw(state: &State, frame: &mut Frame<'_>) {
    let ranks = u16::try_from(state.report.ranks.len()).unwrap_or(u16::MAX).saturating_add(2);
    // The jobs get at least half of the height.
    let ranks = ranks.min((frame.area().height / 2).max(3));
    let rows = [Length(1), Length(ranks), Min(3), Length(1)];
    let [head, of_ranks, of_jobs, foot] = Layout::vertical(rows).areas(frame.area());
    frame.render_widget(summary(state), head);
    draw_ranks(state, frame, of_ranks);
    if state.shows_output {
        draw_output(state, frame, of_jobs);
    } else {
        draw_jobs(state, frame, of_jobs);
    }
    frame.render_widget(footer(state), foot);
}

fn summary(state: &State) -> Line<'_> {
    let sum = |of: fn(&RankStatus) -> usize| state.report.ranks.iter().map(of).sum::<usize>();
    let count =
        |is: fn(JobStatus) -> bool| state.report.jobs.iter().filter(|job| is(job.state)).count();
    let (cores, free) = (sum(|rank| rank.cores), sum(RankStatus::cores_free));
    let mut text = format!(
        "  {} ranks, {} of {cores} cores used, {free} free",
        state.report.ranks.len(),
        sum(|rank| rank.cores_allocated),
    );
    let gpus = sum(|rank| rank.gpus);
    if gpus > 0 {
        let _ = write!(text, ", {} of {gpus} GPUs used", sum(|rank| rank.gpus_allocated));
    }
    let _ = write!(
        text,
        "; jobs: {} running, {} waiting",
        count(|state| state.is_active() && !state.is_pending()),
        count(JobStatus::is_pending)
    );
    Line::from(vec![state.name.as_str().bold(), Span::raw(text)])
}

fn draw_ranks(state: &State, frame: &mut Frame<'_>, area: Rect) {
    let rows = state.report.ranks.iter().map(|rank| {
        let used = format!("{}/{}", rank.cores_allocated, rank.cores);
        let note = match (rank.up, &rank.drained) {
            (false, _) => "offline".red(),
            (true, Some(reason)) => format!("drained {reason}").yellow(),
            (true, None) => Span::raw(""),
        };
        let gpus = (rank.gpus > 0).then(|| format!("{}/{} GPUs", rank.gpus_allocated, rank.gpus));
        let cells = [Cell::from(format!("{:>4}", rank.rank)), Cell::from(bar(rank))];
        let others = [Cell::from(used), Cell::from(gpus.unwrap_or_default()), Cell::from(note)];
        Row::new(cells.into_iter().chain(others))
    });
    let widths = [Length(4), Length(BAR), Length(9), Length(9), Min(10)];
    let table = Table::new(rows, widths).block(Block::bordered().title(" ranks "));
    frame.render_widget(table, area);
}

fn bar(rank: &RankStatus) -> Line<'static> {
    let width = usize::from(BAR);
    let part = |cores: usize| (cores * width).div_ceil(rank.cores.max(1)).min(width);
    let used = part(rank.cores_allocated);
    let rest = if rank.is_usable() { "░" } else { "·" };
    Line::from(vec!["█".repeat(used).green(), rest.repeat(width - used).dark_gray()])
}

fn draw_jobs(state: &State, frame: &mut Frame<'_>, area: Rect) {
    let block = Block::bordered().title(" jobs ");
    if state.report.jobs.is_empty() {
        return frame.render_widget(Paragraph::new("no active jobs").block(block), area);
    }
    let header = ["JOBID", "USER", "NAME", "STATE", "TASKS", "RANKS", "TIME"];
    let rows = state.report.jobs.iter().map(row);
    let widths = [Length(13), Length(8), Min(10), Length(8), Length(6), Length(12), Length(8)];
    let table = Table::new(rows, widths)
        .header(Row::new(header).style(Style::new().add_modifier(Modifier::BOLD)))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
        .block(block);
    frame.render_stateful_widget(
        table,
        area,
        &mut TableState::default().with_selected(state.position()),
    );
}

fn row(job: &JobReport) -> Row<'_> {
    let colour = if job.state.is_pending() { Color::Yellow } else { Color::Green };
    Row::new([
        Cell::from(job.id.as_str()),
        Cell::from(job.user.as_str()),
        Cell::from(job.name.as_str()),
        Cell::from(Span::styled(job.state.to_string(), colour)),
        Cell::from(job.tasks.to_string()),
        Cell::from(job.ranks.as_deref().unwrap_or("-")),
        Cell::from(duration(job.seconds)),
    ])
}

fn draw_output(state: &State, frame: &mut Frame<'_>, area: Rect) {
    let id = state.selected.as_deref().unwrap_or_default();
    let mut title = match state.job() {
        Some(job) => format!(" output of {id} {} ", job.name),
        None => format!(" output of {id}, which has ended "),
    };
    let height = usize::from(area.height.saturating_sub(2));
    let lines: Vec<Line<'_>> = match state.report.output.as_deref() {
        None => vec![Line::from("...")],
        Some("") => vec![Line::from("no output yet")],
        Some(text) => {
            let lines: Vec<&str> = text.lines().collect();
            let from = lines.len().saturating_sub(height);
            if from > 0 || state.report.output_is_cut {
                title.insert_str(0, " end of the");
            }
            lines[from..].iter().map(|line| Line::from(plain(line))).collect()
        }
    };
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(title)), area);
}

/// The line without control characters, which would move the cursor.
fn plain(line: &str) -> String {
    let text = anstream::adapter::strip_str(line).to_string().replace('\t', "    ");
    text.chars().filter(|it| !it.is_control()).collect()
}

fn footer(state: &State) -> Line<'_> {
    if state.confirms {
        let id = state.selected.as_deref().unwrap_or_default();
        return Line::from(format!("cancel {id}? y: yes, any other key: no").yellow());
    }
    match (&state.error, &state.message) {
        (Some(error), _) => Line::from(error.as_str().red()),
        (None, Some(message)) => Line::from(message.as_str().yellow()),
        (None, None) if state.shows_output => {
            Line::from("↑↓ another job   enter, esc: back   c: cancel   q: quit".dark_gray())
        }
        (None, None) => Line::from("↑↓ select   enter: output   c: cancel   q: quit".dark_gray()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::state::tests::state;
    use super::*;
    use crate::fixtures::report;
    use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
    use flux_contract::instance::InstanceReport;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn picture(state: &State, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(state, frame)).unwrap();
        terminal.backend().to_string()
    }

    fn press(state: &mut State, code: KeyCode) {
        state.press(KeyEvent::new(code, KeyModifiers::NONE));
    }

    #[test]
    fn ranks_and_jobs() {
        insta::assert_snapshot!(picture(&state(), 80, 14));
    }

    #[test]
    fn job_output_is_its_last_lines_without_escapes() {
        let mut state = state();
        press(&mut state, KeyCode::Down);
        press(&mut state, KeyCode::Enter);
        let output = Some("one\ntwo\n\u{1b}[31mthree\u{1b}[0m\tx\u{7}\nfour\n".to_owned());
        state.update(Ok(InstanceReport { output, ..report() }));
        insta::assert_snapshot!(picture(&state, 60, 12));
    }

    #[test]
    fn a_question_an_error_and_an_instance_without_jobs() {
        let mut state = state();
        press(&mut state, KeyCode::Char('c'));
        assert!(picture(&state, 80, 14).contains("cancel ƒ3? y: yes"));
        press(&mut state, KeyCode::Char('n'));
        state.update(Err(anyhow::anyhow!("connection refused")));
        assert!(picture(&state, 80, 14).contains("connection refused"));
        state.update(Ok(InstanceReport { jobs: vec![], ..report() }));
        assert!(picture(&state, 80, 14).contains("no active jobs"));
    }

    #[test]
    fn no_size_of_a_terminal_is_too_small() {
        for (width, height) in [(1, 1), (5, 3), (20, 6), (200, 60)] {
            picture(&state(), width, height);
        }
    }
}
