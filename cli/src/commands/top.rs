//! `top`: shows ranks, queue and jobs on a terminal, updated every second.

mod draw;
mod state;

use super::jobs::cancel;
use crate::error::line;
use crate::prelude::*;
use crate::rank_pod::RankPod;
use crossterm::event::{Event, EventStream};
use flux_contract::instance::InstanceReport;
use futures::StreamExt as _;
use ratatui::DefaultTerminal;
use state::{Action, State};
use std::future::{Future, pending};
use std::io::IsTerminal as _;
use std::pin::Pin;
use tokio::time::{MissedTickBehavior, interval, timeout};

const INTERVAL: Duration = Duration::from_secs(1);
/// How long to wait for a report: a connection may be broken without a sign of it.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) async fn top(connection: Connection, name: &NameArgument) -> Result<()> {
    ensure!(
        std::io::stdout().is_terminal(),
        "`top` needs a terminal: use `kubectl flux jobs` and `kubectl flux resources` instead"
    );
    let lead = name.lead(connection).await?;
    let mut state = State::new(&lead.target.name);
    // If the first report fails, print the error instead of a screen.
    state.update(Ok(lead.report(false, None).await?));
    let mut terminal = ratatui::try_init().context("initialize the terminal")?;
    let shown = show(&lead, &mut state, &mut terminal).await;
    ratatui::try_restore().context("restore the terminal")?;
    shown
}

type Answer<'lead, T> = Pin<Box<dyn Future<Output = Result<T>> + 'lead>>;

async fn show(lead: &RankPod, state: &mut State, terminal: &mut DefaultTerminal) -> Result<()> {
    let mut events = EventStream::new();
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut report: Option<Answer<'_, InstanceReport>> = None;
    let mut cancelled: Option<Answer<'_, String>> = None;
    loop {
        terminal.draw(|frame| draw::draw(state, frame)).context("draw")?;
        tokio::select! {
            event = events.next() => {
                let event = event.context("the terminal is closed")?.context("read the terminal")?;
                let Event::Key(key) = event else { continue };
                match state.press(key) {
                    Action::None => {}
                    Action::Update => report = Some(ask(lead, state)),
                    Action::Cancel(id) => {
                        cancelled = Some(Box::pin(async move {
                            cancel(lead, std::slice::from_ref(&id)).await?;
                            Ok(format!("cancelled {id}"))
                        }));
                    }
                    Action::Quit => return Ok(()),
                }
            }
            _ = ticks.tick(), if report.is_none() => report = Some(ask(lead, state)),
            answer = answered(&mut report) => state.update(answer),
            result = answered(&mut cancelled) => {
                state.message = Some(result.unwrap_or_else(|error| line(&error)));
            }
        }
    }
}

fn ask<'lead>(lead: &'lead RankPod, state: &State) -> Answer<'lead, InstanceReport> {
    let output_of = state.followed();
    limited(ANSWER_TIMEOUT, async move { lead.report(false, output_of.as_deref()).await })
}

fn limited<'lead, T: 'lead>(
    limit: Duration,
    answer: impl Future<Output = Result<T>> + 'lead,
) -> Answer<'lead, T> {
    Box::pin(async move {
        timeout(limit, answer).await.context("the lead does not answer: asking again")?
    })
}

/// Waits for the answer, after which another may be asked for. Without a request it never returns.
async fn answered<T>(request: &mut Option<Answer<'_, T>>) -> Result<T> {
    let Some(answer) = request else { return pending().await };
    let answer = answer.await;
    *request = None;
    answer
}

#[cfg(test)]
#[tokio::test]
async fn a_silent_lead_is_asked_again() {
    let mut report: Option<Answer<'_, ()>> = Some(limited(Duration::from_millis(1), pending()));
    let error = answered(&mut report).await.unwrap_err();
    assert!(line(&error).contains("the lead does not answer: asking again"));
    // The next tick asks.
    assert!(report.is_none());
}
