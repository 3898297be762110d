//! `kubectl flux` on a terminal.

use crate::prelude::*;
use std::io::{Read as _, Write as _};
use std::process::Stdio;

/// Seconds after which coreutils' timeout(1) ends the plugin.
const LIMIT: &str = "180";

/// Runs the plugin on a terminal. Each of `steps` is a text to wait for on the screen, and a text to type
/// then. Returns the exit code and everything that was on the screen.
fn on_terminal(
    trial: &Trial,
    words: &[&str],
    mut steps: &[(&str, &str)],
) -> Result<(Option<i32>, String)> {
    let terminal = trial.plugin_on_terminal(words)?;
    let mut limited = trial.program(Path::new("timeout"));
    limited.arg(LIMIT).arg(terminal.get_program()).args(terminal.get_args());
    let mut script = limited.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut keyboard = script.stdin.take().context("no input")?;
    let mut output = script.stdout.take().context("no output")?;
    let (mut screen, mut seen, mut buffer) = (String::new(), 0, [0; 4096]);
    loop {
        let length = output.read(&mut buffer).context("reading the screen")?;
        if length == 0 {
            return Ok((script.wait()?.code(), screen));
        }
        screen.push_str(&String::from_utf8_lossy(&buffer[..length]));
        if let [(awaited, typed), rest @ ..] = steps
            && screen[seen..].contains(awaited)
        {
            keyboard.write_all(typed.as_bytes()).context("typing")?;
            (seen, steps) = (screen.len(), rest);
        }
    }
}

#[test]
#[ignore = "needs a cluster"]
fn an_instance_is_watched() {
    trial("plugin-terminal", async |trial| {
        let spec = specification(&["size: 2", "interactive: true"], "command: 'true'");
        trial.start("watched", &spec).await?.running(2).await?;
        let (code, screen) = on_terminal(trial, &["top", "watched"], &[("quit", "q")])?;
        ensure!(code == Some(0), "{code:?}: {screen}");
        for text in ["watched", "ranks", "jobs", "quit"] {
            ensure!(screen.contains(text), "no {text:?} on the screen: {screen}");
        }
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn an_interactive_instance_runs_jobs_and_ends_with_its_shell() {
    trial("plugin-interactive", async |trial| {
        let words = ["run", "ubuntu:24.04", "--interactive", "--size=2", "--name=mine"];
        // What is typed while a job runs is for the job, and a shell may print its prompt twice.
        let steps = [("$ ", "flux run -N2 hostname; echo o''ver\n"), ("over", "exit 3\n")];
        let (code, screen) = on_terminal(trial, &words, &steps)?;
        ensure!(code == Some(3), "{code:?}: {screen}");
        ensure!(screen.contains("mine-1"), "{screen}");
        let left = trial.api::<MiniCluster>().get_opt("mine").await?;
        ensure!(left.is_none(), "{left:?}");
        Ok(())
    });
}
