//! The API of the instance beside the lead's broker (`flux.rest`): a process of its own, as Flux's user, so that no
//! request takes memory or time of PID 1.

use crate::execute::context::Context;
use crate::pid1::ending::next_pause;
use crate::process::children::Children;
use crate::process::exit_status::exit_code;
use crate::system::output::Log;
use crate::system::subcommand::{SERVE, call};
use crate::system::words::shown;
use flux_contract::Rest;
use std::net::{Ipv6Addr, SocketAddr};
use std::process::Stdio;
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

/// Keeps the server running until what this gives is dropped.
pub(super) fn serve(context: &Context, rest: &Rest) -> JoinSet<()> {
    let words = words(context, rest);
    let (session, children, log) = (context.session.clone(), context.children.clone(), context.log);
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let command = || session.broker_command(&words);
        keep_running(&children, log, &shown(&words), command).await;
    });
    tasks
}

fn words(context: &Context, rest: &Rest) -> Vec<String> {
    let config = context.config_path.display().to_string();
    let listen = SocketAddr::from((Ipv6Addr::UNSPECIFIED, rest.port)).to_string();
    let token = rest.token_sha256.as_str();
    let options = ["--config", &config, "--listen", &listen, "--token-sha256", token];
    [call(&context.facts.agent, SERVE), options.map(str::to_owned).into()].concat()
}

/// Starts `command` again whenever it has ended: somebody else may have had its port, or its broker was not there yet.
async fn keep_running(children: &Children, log: Log, shown: &str, command: impl Fn() -> Command) {
    let mut pause = None;
    loop {
        let started = Instant::now();
        let mut command = command();
        // It prints its address.
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let ended = match children.spawn(&mut command) {
            Ok(mut running) => format!("ended with exit code {}", exit_code(running.wait().await)),
            Err(error) => format!("could not be started: {error}"),
        };
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
    use std::fs;
    use std::time::Duration;
    use tokio::time::timeout;

    #[tokio::test]
    async fn a_server_that_ends_is_started_again() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let children = Children::reaped().unwrap();
        let path = file.path().to_owned();
        let command = || {
            let mut command = Command::new("sh");
            command.args(["-c", "echo started >> \"$0\"; exit 3"]).arg(&path);
            command
        };
        let log = Log::new(true, false);
        let again = async {
            while fs::read_to_string(&path).unwrap().lines().count() < 2 {
                sleep(Duration::from_millis(10)).await;
            }
        };
        let patience = Duration::from_mins(1);
        tokio::select! {
            () = keep_running(&children, log, "serve", command) => {}
            seen = timeout(patience, again) => seen.unwrap(),
        }
    }
}
