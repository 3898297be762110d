//! `top`: ranks, queue and jobs as they change, on a terminal.

mod draw;
mod state;

use super::cancel::cancel;
use crate::connection::Connection;
use crate::instance::Place;
use crate::target::{NameArgument, Target};
use anyhow::{Context as _, Result, ensure};
use crossterm::event::{Event, EventStream};
use flux_contract::instance::InstanceReport;
use futures::StreamExt as _;
use ratatui::DefaultTerminal;
use state::{Action, State};
use std::future::{Future, pending};
use std::io::IsTerminal as _;
use std::pin::Pin;
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};

/// Between two looks at the instance.
const INTERVAL: Duration = Duration::from_secs(1);

/// `top`.
pub(crate) async fn top(connection: Connection, name: &NameArgument) -> Result<ExitCode> {
    ensure!(
        std::io::stdout().is_terminal(),
        "`top` needs a terminal: `kubectl flux jobs` and `resources` print the same"
    );
    let place = Place::lead(Target::new(connection, &name.name)).await?;
    let mut state = State::new(&place.target.name);
    // What cannot be asked even once is an error, and no picture.
    state.update(Ok(place.report(false, None).await?));
    let mut terminal = ratatui::try_init().context("take over the terminal")?;
    let shown = show(&place, &mut state, &mut terminal).await;
    ratatui::try_restore().context("give the terminal back")?;
    shown.map(|()| ExitCode::SUCCESS)
}

/// What is asked for in the background.
type Answer<'place, T> = Pin<Box<dyn Future<Output = Result<T>> + 'place>>;

async fn show(place: &Place, state: &mut State, terminal: &mut DefaultTerminal) -> Result<()> {
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
                    Action::Ask => report = Some(ask(place, state)),
                    Action::Cancel(id) => {
                        cancelled = Some(Box::pin(async move {
                            cancel(place, std::slice::from_ref(&id)).await?;
                            Ok(format!("cancelled {id}"))
                        }));
                    }
                    Action::Quit => return Ok(()),
                }
            }
            _ = ticks.tick(), if report.is_none() => report = Some(ask(place, state)),
            answer = answered(&mut report) => {
                report = None;
                state.update(answer);
            }
            said = answered(&mut cancelled) => {
                cancelled = None;
                state.say(said.unwrap_or_else(|error| format!("{error:#}")));
            }
        }
    }
}

fn ask<'place>(place: &'place Place, state: &State) -> Answer<'place, InstanceReport> {
    let output_of = state.followed();
    Box::pin(async move { place.report(false, output_of.as_deref()).await })
}

/// Waits for the answer, if one is asked for.
async fn answered<T>(answer: &mut Option<Answer<'_, T>>) -> Result<T> {
    match answer {
        Some(answer) => answer.await,
        None => pending().await,
    }
}
