//! The API of the instance beside the lead's broker (`flux.rest`): `flux-agent serve`, which becomes `flux-rest`, as Flux's
//! user.

use crate::execute::run::Run;
use crate::pid1::outcome::next_pause;
use crate::process::exit_status::exit_code;
use crate::system::output::Log;
use crate::system::subcommand::{SERVE, call};
use crate::system::words::shown;
use std::process::Stdio;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

/// Keeps the server running until the returned value is dropped.
pub(super) fn serve(run: &Run) -> JoinSet<()> {
    let argv = arguments(run);
    let (session, children, log) = (run.session.clone(), run.children.clone(), run.log);
    let shown = shown(&argv);
    let start = move || {
        let (children, mut command) = (children.clone(), session.broker_command(&argv));
        // The address that the server prints is of no use here.
        command.stdin(Stdio::null()).stdout(Stdio::null());
        async move {
            match children.spawn(&mut command) {
                Ok(mut running) => {
                    format!("ended with exit code {}", exit_code(running.wait().await))
                }
                Err(error) => format!("could not be started: {error}"),
            }
        }
    };
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { keep_running(log, &shown, start).await });
    tasks
}

fn arguments(run: &Run) -> Vec<String> {
    let config = run.config_path.display().to_string();
    let options = ["--config", &config, "--as-configured"];
    [call(&run.facts.agent, SERVE), options.map(str::to_owned).into()].concat()
}

/// Runs the server again whenever it has ended: its port was taken, or its broker was not there yet. `run` gives the reason
/// of the end.
async fn keep_running<Run>(log: Log, shown: &str, run: impl Fn() -> Run)
where
    Run: Future<Output = String>,
{
    let mut pause = None;
    loop {
        let started = Instant::now();
        let ended = run().await;
        let time = next_pause(pause, started.elapsed());
        pause = Some(time);
        let seconds = time.as_secs_f64();
        log.warn(&format!("{shown} {ended}; starting it again in {seconds:.1} s"));
        sleep(time).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::future::ready;
    use std::time::Duration;
    use tokio::time::timeout;

    #[tokio::test(start_paused = true)]
    async fn a_server_that_ends_is_started_again() {
        let starts = Cell::new(0);
        let run = || {
            starts.set(starts.get() + 1);
            ready("ended".to_owned())
        };
        let endless = keep_running(Log::new(true, false), "serve", run);
        assert!(timeout(Duration::from_secs(20), endless).await.is_err());
        assert_eq!(starts.get(), 6, "after 0.5, 1, 2, 4 and 8 s more");
    }
}
