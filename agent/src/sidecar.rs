//! `flux-agent run --container NAME`: a container beside the runner, with Flux within reach.

use crate::environment::Change;
use crate::execute::{Context, StepError, run_hook, wait_or_stop};
use crate::exit_status::exit_code;
use crate::facts::Facts;
use crate::output::chain;
use crate::plan::{Surroundings, shell, sidecar_hook, surroundings};
use flux_contract::{AgentConfig, Exit, SidecarConfig};
use nix::sys::signal::Signal;
use std::path::Path;
use std::time::Duration;
use tokio::time::sleep;

/// How often the shared volume is looked at.
const PAUSE: Duration = Duration::from_millis(200);
/// How long the sidecar's command may take to end once the runner has.
const GRACE: Duration = Duration::from_secs(5);

/// Runs sidecar `name` and returns the code to end with: its command's own, or 0 when it was ended
/// because the runner has finished. A command that ends well before the runner is waited behind:
/// a pod with an ended container is not ready, though its broker is.
pub async fn run(
    context: &mut Context,
    config: &AgentConfig,
    facts: &Facts,
    name: &str,
) -> Result<u8, (Exit, String)> {
    let sidecar = config.sidecars.get(name).ok_or_else(|| {
        let known: Vec<&str> = config.sidecars.keys().map(String::as_str).collect();
        (Exit::Config, format!("no sidecar {name:?} is configured, only {known:?}"))
    })?;
    let around = surroundings(config, facts).map_err(|error| (error.exit(), chain(&error)))?;
    // Not the runner's own directory: a sidecar may be another user.
    context.report_file =
        config.layout.mount().join(format!("agent-{name}")).join("hook-environment");
    let hook = |hook, script| sidecar_hook(config, facts, hook, script);
    let ran = async {
        if let Some(init) = hook("commands.init", sidecar.init.as_ref()) {
            run_hook(context, &init).await?;
        }
        context.session.change(&around.changes);
        // Flux's own commands refuse to run without one, be it there or not.
        let home = config.layout.home().display().to_string();
        context.session.change(&[
            Change::Set { name: "fluxsocket".to_owned(), value: around.uri.clone() },
            Change::Default { name: "HOME".to_owned(), value: home },
        ]);
        if let Some(pre) = hook("commands.servicePre", sidecar.service_pre.as_ref()) {
            run_hook(context, &pre).await?;
        }
        let code = main(context, config, facts, sidecar, &around).await;
        if let Some(post) = hook("commands.post", sidecar.post.as_ref()) {
            run_hook(context, &post).await?;
        }
        if let Ok(0) = code {
            let complete = context.root.at(config.layout.complete_marker());
            context.log.say("done: staying until the runner has finished");
            // Told to stop or finished: the sidecar's own work is done either way.
            let _ = context.signals.unless_stopped(appearance(&complete)).await;
        }
        code
    };
    ran.await.map_err(|error: StepError| (error.exit(), chain(&error)))
}

async fn main(
    context: &mut Context,
    config: &AgentConfig,
    facts: &Facts,
    sidecar: &SidecarConfig,
    around: &Surroundings,
) -> Result<u8, StepError> {
    let complete = context.root.at(config.layout.complete_marker());
    if sidecar.wait_for_socket {
        let socket = context.root.at(&around.socket);
        context.log.say(&format!("waiting for the broker's socket {}", socket.display()));
        let waited = async {
            tokio::select! {
                () = appearance(&socket) => true,
                () = appearance(&complete) => false,
            }
        };
        if !context.signals.unless_stopped(waited).await? {
            context.log.say("the runner has finished");
            return Ok(0);
        }
    }
    let Some(command) = &sidecar.command else { return Ok(0) };
    let shell = shell(config, facts).ok_or_else(|| StepError::Hook {
        hook: "command".to_owned(),
        end: "cannot run: neither the image nor the view has a shell".to_owned(),
    })?;
    let words = [shell.display().to_string(), "-c".to_owned(), command.clone()];
    let start = |source| StepError::Start { program: words[0].clone(), source };
    let mut started = context.session.command(&words);
    let mut running = context.children.spawn(&mut started).map_err(start)?;
    tokio::select! {
        ended = wait_or_stop(&mut context.signals, &mut running) => {
            let (status, _) = ended.map_err(start)?;
            return Ok(u8::try_from(exit_code(status)).unwrap_or(u8::MAX));
        }
        () = appearance(&complete) => {}
    }
    context.log.say("the runner has finished: ending the command");
    running.signal_group(Signal::SIGTERM);
    if tokio::time::timeout(GRACE, running.wait()).await.is_err() {
        running.signal_group(Signal::SIGKILL);
        running.wait().await.map_err(start)?;
    }
    Ok(0)
}

async fn appearance(path: &Path) {
    while !path.exists() {
        sleep(PAUSE).await;
    }
}
