//! `flux-agent run`: the first process of a pod, from its configuration to its exit code.

use crate::commands::arguments::PodArguments;
use crate::execute::session::{Context, Session};
use crate::execute::steps::{await_lead, execute, execute_all};
use crate::failure::Failure;
use crate::lead::watch::LeadWatch;
use crate::pid1::outcome::{self, Next};
use crate::pid1::supervise::run_broker;
use crate::pid1::{archive, runner_lock, sidecar};
use crate::plan::config::read_config;
use crate::plan::decide;
use crate::plan::facts::Facts;
use crate::plan::grace_period::Budget;
use crate::plan::step::{Plan, WorkerRun};
use crate::process::children::Children;
use crate::process::exit_status::end_text;
use crate::process::signals::Signals;
use crate::process::{deadline, panic_hook};
use crate::status::progress::Progress;
use crate::status::readiness::ReadinessServer;
use crate::status::server::StatusServer;
use crate::status::timing::fluxtime_line;
use crate::system::environment::Report;
use crate::system::files;
use crate::system::output::{self, Log, chain};
use crate::system::root::Root;
use crate::system::words::shown;
use crate::view::{ViewError, link_agent, link_view};
use flux_contract::{AgentConfig, Exit, Install, TerminationMessage, phase};
use nix::sys::prctl;
use std::fs::{self, File};
use std::time::Duration;
use std::{io, mem};
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};

/// Where the kubelet looks for the termination message unless the container says otherwise.
const TERMINATION_LOG: &str = "/dev/termination-log";

/// How long a probe that has its answer may take to go.
const PROBE_END: Duration = Duration::from_secs(2);

/// Runs the pod and returns the code to end with. Whatever happens, it is said, and written to the
/// termination message. The kubelet asks at `probe_port` whether the pod is ready.
pub(crate) async fn run(
    pod: PodArguments,
    container: Option<String>,
    probe_port: Option<u16>,
) -> u8 {
    // First of all: signals to PID 1 without a handler are lost, and so is a probe while no port is open.
    let signals = Signals::register();
    let readiness = probe_port.map(ReadinessServer::bind);
    output::log_on_a_thread();
    let root = pod.root.clone();
    panic_hook::end_at_panic(Some(root.at(TERMINATION_LOG)));
    // The thread for system calls that block, before others have all processes that the pod may have.
    let _ = spawn_blocking(|| ()).await;
    try_run(pod, container, signals, readiness).await.unwrap_or_else(|failure| {
        Log::new(false, false).error(&failure.to_string());
        leave(&root, &failure.into())
    })
}

async fn try_run(
    pod: PodArguments,
    container: Option<String>,
    signals: io::Result<Signals>,
    readiness: Option<anyhow::Result<ReadinessServer>>,
) -> Result<u8, Failure> {
    let began = Instant::now();
    let root = pod.root.clone();
    let (mut context, _held_to_the_end) = start(pod, container.is_some(), signals).await?;
    if let Some(name) = container {
        let ended = sidecar::run(&mut context, &name).await?;
        return Ok(leave(&root, &ended));
    }
    let plan = decide::plan(&context.config, &context.facts)?;
    context.progress.planned(&plan);
    if let Some(seconds) = plan.deadline_seconds {
        context.signals.keep(deadline::passed(began, seconds, context.config_path.clone()));
    }
    let probes = serve(&context, readiness);
    in_case_of_a_kill(&root, &mut context);
    let ended = prepare_and_supervise(&mut context, &plan).await.unwrap_or_else(Into::into);
    let ended = finish(&mut context, &plan, ended).await;
    let phases = context.progress.finish();
    let well = ended.exit_code == 0;
    let message = TerminationMessage {
        restarts: context.progress.restarts(),
        unfinished_jobs: mem::take(&mut context.unfinished_jobs),
        phases,
        ..ended
    };
    let code = leave(&root, &message);
    context.progress.over(well);
    if let Some(mut open) = probes {
        // Those that wait have their answer now. None is waited for: one that comes between this end and
        // the moment in which the kubelet notices it is a Warning Event, and harms nobody.
        let _ = timeout(PROBE_END, open.wait_for(|open| *open == 0)).await;
    }
    Ok(code)
}

/// Leaves the termination message and gives the code to end with.
fn leave(root: &Root, message: &TerminationMessage) -> u8 {
    if let Err(error) = fs::write(root.at(TERMINATION_LOG), message.to_json()) {
        Log::new(false, false).warn(&format!("could not write {TERMINATION_LOG}: {error}"));
    }
    u8::try_from(message.exit_code).unwrap_or(u8::MAX)
}

/// Has a message written as soon as the pod is stopped. It is the last one only if the kubelet kills this before the end,
/// as it does on a node that is too busy for the pod's grace period.
fn in_case_of_a_kill(root: &Root, context: &mut Context) {
    let (path, reports) = (root.at(TERMINATION_LOG), context.progress.subscribe());
    context.signals.when_stopped(move |stop| {
        let text = format!("{stop}, and killed before the end: the grace period was too short");
        let message = TerminationMessage {
            exit_code: stop.exit().code().into(),
            restarts: reports.borrow().restarts,
            last_error: Some(text),
            phases: reports.borrow().phases_until(Instant::now()),
            ..TerminationMessage::default()
        };
        // What cannot be written now is said when the last one cannot be.
        let _ = fs::write(&path, message.to_json());
    });
}

/// Configuration and facts. Nothing is changed yet but the shared volume: what is in a view is among the
/// facts, so the runner puts a mounted one in its place, and a sidecar waits for that.
async fn start(
    pod: PodArguments,
    is_sidecar: bool,
    signals: io::Result<Signals>,
) -> Result<(Context, Option<File>), Failure> {
    let PodArguments { config, root, hostname } = pod;
    let internal = |doing| move |error: io::Error| Failure::because(Exit::Internal, doing, &error);
    let mut signals = signals.map_err(internal("take signals"))?;
    let progress = Progress::new();
    let config_path = root.at(config);
    let config = read_config(&config_path)?;
    let log = Log::new(config.logging.quiet, config.logging.debug);
    let lock = if is_sidecar {
        sidecar::await_view(&config, &root, &mut signals).await?;
        None
    } else {
        prepare_volume(&config, &root, log)
            .map_err(|error| Failure::new(Exit::View, chain(&error)))?
    };
    let facts = Facts::gather(&config, &root, hostname)?;
    let start = Report::of_this_process()
        .map_err(|error| Failure::because(Exit::Prepare, "enter the working directory", &error))?;
    if std::process::id() != 1 {
        // The pod's containers share their processes: another one is PID 1, to whom orphans would go.
        prctl::set_child_subreaper(true).map_err(|errno| internal("take orphans")(errno.into()))?;
    }
    let context = Context {
        report_file: config.layout.private_directory().join("hook-environment"),
        budget: Budget::of_runner(&config),
        children: Children::reaped().map_err(internal("take signals"))?,
        session: Session::new(start),
        config,
        config_path,
        facts,
        root,
        log,
        signals,
        progress,
        exit_code: 0,
        unfinished_jobs: Vec::new(),
    };
    Ok((context, lock))
}

/// Answers who asks how the run stands, and the kubelet, which gives the number of its open questions. Without the
/// socket nobody can ask, and without the port the pod never becomes ready, but it runs.
fn serve(
    context: &Context,
    readiness: Option<anyhow::Result<ReadinessServer>>,
) -> Option<watch::Receiver<u32>> {
    match StatusServer::bind(&context.root.at(context.config.layout.agent_socket())) {
        Ok(server) => drop(tokio::spawn(server.serve(context.progress.subscribe()))),
        Err(error) => context.log.warn(&format!("{error:#}")),
    }
    let server = readiness?.inspect_err(|error| context.log.warn(&format!("{error:#}"))).ok()?;
    let open = server.open();
    tokio::spawn(server.serve(context.progress.subscribe()));
    Some(open)
}

/// Makes the shared volume what other containers, and users, may see: puts agent and view in their places
/// where their images are mounted.
fn prepare_volume(config: &AgentConfig, root: &Root, log: Log) -> Result<Option<File>, ViewError> {
    let (layout, volume) = (&config.layout, root.at(config.layout.mount()));
    if let Err(error) = files::make_sticky(&volume) {
        log.warn(&format!("keep users from renaming in {}: {error}", volume.display()));
    }
    // Held before anything can fail that sidecars wait for. Without it they do not notice when this is killed.
    let path = root.at(layout.runner_lock());
    let lock = runner_lock::hold(&path)
        .inspect_err(|error| log.warn(&format!("lock {}: {error}", path.display())))
        .ok();
    if config.install == Install::Image {
        link_agent(root, layout)?;
        if config.view.enabled {
            let source = link_view(root.directory(), layout)?;
            log.debug(&format!("linked the view: {}", source.view.display()));
        }
    }
    Ok(lock)
}

async fn prepare_and_supervise(
    context: &mut Context,
    plan: &Plan,
) -> Result<TerminationMessage, Failure> {
    execute_all(context, &plan.steps).await?;
    match &plan.broker.worker {
        Some(worker) => of_worker(context, plan, worker).await,
        None => of_lead(context, plan).await,
    }
}

async fn of_lead(context: &mut Context, first: &Plan) -> Result<TerminationMessage, Failure> {
    let mut plan = first.clone();
    let (end, command) = loop {
        let (end, command) = run_broker(context, &plan).await?;
        if !end.quorum_is_smaller || end.stop.is_some() {
            break (end, command);
        }
        // Also the command's own size is as the configuration has it now.
        plan.broker = decide::plan(&read_config(&context.config_path)?, &context.facts)?.broker;
    };
    if !end.ran && end.stop.is_none() && end.code != 0 {
        check_broker_program(context, &plan.broker.flux).await?;
    }
    if plan.broker.timed {
        output::print_stderr(&fluxtime_line("fluxstart", end.duration));
    }
    if let Some(archive) = &plan.broker.archive {
        archive::keep(context, archive, end).await;
    }
    Ok(if plan.broker.lead_command.is_some() {
        outcome::of_lead(command, end)
    } else {
        outcome::of_interactive_lead(end)
    })
}

/// Fails with the loader's words where Flux's broker cannot be used at all, as where a library of the image is too old.
/// It is asked only when it has failed: the question takes longer than a start can wait.
async fn check_broker_program(context: &mut Context, flux: &str) -> Result<(), Failure> {
    let words = [flux, "broker", "--help"].map(str::to_owned);
    let mut command = context.session.broker_command(&words);
    let output = context.children.output(&mut command, None);
    let output = context.signals.unless_stopped(output).await?;
    let output = output.map_err(|error| {
        Failure::because(Exit::View, format!("start {:?}", shown(&words[..1])), &error)
    })?;
    if output.status.success() {
        return Ok(());
    }
    let (command, end) = (shown(&words), end_text(output.status));
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(Failure::new(Exit::View, format!("{command:?} {end}: {}", errors.trim())))
}

async fn of_worker(
    context: &mut Context,
    plan: &Plan,
    worker: &WorkerRun,
) -> Result<TerminationMessage, Failure> {
    let mut pause = None;
    loop {
        await_lead(context, &worker.lead).await?;
        let (mut end, _) = run_broker(context, plan).await?;
        let patience = outcome::patience_with_lead(worker, end);
        if !patience.is_zero() {
            context.log.info("the broker ended well: looking whether the lead goes, too");
            let closed = timeout(patience, LeadWatch::SHORT.lost(&worker.lead));
            if context.signals.unless_stopped(closed).await?.is_ok() {
                end.lead_ends = Some(true);
            }
        }
        let may_return = worker.lead_may_return_seconds.is_some();
        let why = match outcome::of_worker(worker.policy, may_return, end) {
            Next::Leave(ended) => return Ok(ended),
            Next::Restart(why) => why,
        };
        let time = outcome::next_pause(pause, end.duration);
        pause = Some(time);
        let seconds = time.as_secs_f64();
        context.log.info(&format!("{why}; starting it again in {seconds:.1} s"));
        context.progress.failed(&why);
        context.progress.restarted();
        context.signals.unless_stopped(tokio::time::sleep(time)).await?;
    }
}

/// What is done at the end in any case. A failure here is said; the code stays what it was.
async fn finish(
    context: &mut Context,
    plan: &Plan,
    ended: TerminationMessage,
) -> TerminationMessage {
    if let Some(error) = &ended.last_error {
        context.failed(error);
    }
    context.exit_code = ended.exit_code;
    for step in &plan.finish {
        context.progress.enter(phase::POST);
        if let Err(error) = execute(context, step).await {
            context.failed(&error.to_string());
        }
    }
    let last_error = ended.last_error.or_else(|| context.progress.last_error());
    TerminationMessage { last_error, ..ended }
}
