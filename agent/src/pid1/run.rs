//! `flux-agent run`: the first process of a pod, from its configuration to its exit code.

use crate::execute::run::Run;
use crate::execute::session::Session;
use crate::execute::steps::{await_lead, execute, execute_all};
use crate::failure::{Failure, Result};
use crate::lead::watch::LeadWatch;
use crate::pid1::outcome::{self, Outcome};
use crate::pid1::supervise::run_broker;
use crate::pid1::{archive, deadline, sidecar};
use crate::plan::config::read_config;
use crate::plan::decide;
use crate::plan::facts::Facts;
use crate::plan::grace_period::GracePeriod;
use crate::plan::start::{BeforeStart, BrokerStart, broker_start};
use crate::plan::step::{BrokerRun, Plan, WorkerRun};
use crate::process::children::Children;
use crate::process::exit_status::end_text;
use crate::process::panic_hook;
use crate::process::signals::Signals;
use crate::rc;
use crate::status::file;
use crate::status::progress::Progress;
use crate::status::readiness::ReadinessServer;
use crate::status::runner_lock;
use crate::status::timing::fluxtime_line;
use crate::system::environment::{Environment, Report};
use crate::system::files;
use crate::system::output::{self, Log, chain};
use crate::system::root::Root;
use crate::system::words::shown;
use crate::view::{ViewError, link_agent, link_view};
use flux_contract::{AgentConfig, Exit, Install, TerminationMessage, phase};
use nix::sys::prctl;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};

/// Where the kubelet looks for the termination message unless the container's specification names another file.
const TERMINATION_LOG: &str = "/dev/termination-log";

/// How long a probe that has its answer may take to end.
const PROBE_END: Duration = Duration::from_secs(2);

/// What `run` is started with.
#[derive(Debug)]
pub(crate) struct RunRequest {
    /// The file of the configuration.
    pub config: PathBuf,
    pub root: Root,
    /// In place of the pod's own host name.
    pub hostname: Option<String>,
    /// Run this sidecar in place of the broker.
    pub container: Option<String>,
    /// The kubelet asks at this port whether the pod is ready.
    pub probe_port: Option<u16>,
}

/// Runs the pod and returns the code to end with. Whatever happens, it is in the log and in the termination message.
pub(crate) async fn run(request: RunRequest) -> u8 {
    // First of all: signals to PID 1 without a handler are lost, and so is a probe while no port is open.
    let signals = Signals::register();
    let readiness = request.probe_port.map(ReadinessServer::bind);
    output::log_on_a_thread();
    let root = request.root.clone();
    panic_hook::end_at_panic(Some(root.at(TERMINATION_LOG)));
    // The thread for system calls that block, before others have all processes that the pod may have.
    let _ = spawn_blocking(|| ()).await;
    try_run(request, signals, readiness).await.unwrap_or_else(|failure| {
        Log::new(false, false).error(&failure.to_string());
        write_termination_message(&root, &failure.into())
    })
}

async fn try_run(
    request: RunRequest,
    signals: io::Result<Signals>,
    readiness: Option<anyhow::Result<ReadinessServer>>,
) -> Result<u8> {
    let began = Instant::now();
    let (root, container) = (request.root.clone(), request.container.clone());
    let (mut run, _held_to_the_end) = prepare_run(request, signals).await?;
    if let Some(name) = container {
        let ended = sidecar::run(&mut run, &name).await?;
        return Ok(write_termination_message(&root, &ended));
    }
    let plan = decide::plan(&run.config, &run.facts)?;
    run.progress.planned(&plan);
    if let Some(seconds) = plan.deadline_seconds {
        run.signals.set_deadline(deadline::passed(began, seconds, run.config_path.clone()));
    }
    let probes = serve(&run, readiness);
    write_provisional_message_on_stop(&root, &mut run);
    let ended = prepare_and_supervise(&mut run, &plan).await.unwrap_or_else(Into::into);
    let ended = finish(&mut run, &plan, ended).await;
    let succeeded = ended.exit_code == 0;
    let (restarts, phases) = (run.progress.restarts(), run.progress.finish());
    let message = TerminationMessage { restarts, phases, ..ended };
    let code = write_termination_message(&root, &message);
    run.progress.over(succeeded);
    if let Some(mut open) = probes {
        // Those that wait have their answer now. None is waited for: one that comes between this end and the moment in
        // which the kubelet notices it is a Warning Event and does no harm.
        let _ = timeout(PROBE_END, open.wait_for(|open| *open == 0)).await;
    }
    Ok(code)
}

/// Writes the termination message; the result is the code to end with.
fn write_termination_message(root: &Root, message: &TerminationMessage) -> u8 {
    if let Err(error) = fs::write(root.at(TERMINATION_LOG), message.to_json()) {
        Log::new(false, false).warn(&format!("could not write {TERMINATION_LOG}: {error}"));
    }
    u8::try_from(message.exit_code).unwrap_or(u8::MAX)
}

/// Has a message written as soon as the pod is stopped. It is the last one only if the kubelet kills this process before
/// its end, as it does on a node that is too busy for the pod's grace period.
fn write_provisional_message_on_stop(root: &Root, run: &mut Run) {
    let (path, reports) = (root.at(TERMINATION_LOG), run.progress.subscribe());
    run.signals.on_stop(move |stop| {
        let text = format!("{stop}, and killed before the end: the grace period was too short");
        let message = TerminationMessage {
            exit_code: stop.exit().code().into(),
            restarts: reports.borrow().restarts,
            last_error: Some(text),
            phases: reports.borrow().phases_until(Instant::now()),
            ..TerminationMessage::default()
        };
        // If it cannot be written now, the log has that at the last one.
        let _ = fs::write(&path, message.to_json());
    });
}

/// Reads configuration and facts. Only the shared volume is changed before: what is in a view is among the facts, so the
/// runner puts a mounted one in its place, and a sidecar waits for that.
async fn prepare_run(
    request: RunRequest,
    signals: io::Result<Signals>,
) -> Result<(Run, Option<File>)> {
    let RunRequest { config, root, hostname, container, probe_port: _ } = request;
    let internal = |doing| move |error: io::Error| Failure::because(Exit::Internal, doing, &error);
    let mut signals = signals.map_err(internal("handle signals"))?;
    let progress = Progress::new();
    let config_path = root.at(config);
    let config = read_config(&config_path)?;
    let log = Log::new(config.logging.quiet, config.logging.debug);
    if container.is_some() {
        sidecar::await_view(&config, &root, &mut signals).await?;
    }
    let (owned, at) = (config.clone(), root.clone());
    let read = spawn_blocking(move || read_pod(&owned, &at, hostname, container.is_some(), log));
    let read = signals.unless_stopped(read).await?;
    let (facts, start, lock) = read.map_err(|error| internal("read the pod")(error.into()))??;
    if std::process::id() != 1 {
        // The pod's containers share their processes: another one is PID 1, to which orphans would go.
        prctl::set_child_subreaper(true)
            .map_err(|errno| internal("become a subreaper")(errno.into()))?;
    }
    let run = Run {
        report_file: PathBuf::from(config.layout.private_directory()).join("hook-environment"),
        grace: GracePeriod::of_runner(&config),
        children: Children::reaped().map_err(internal("handle signals"))?,
        session: Session::new(start),
        config,
        config_path,
        facts,
        root,
        log,
        signals,
        progress,
        exit_code: 0,
    };
    Ok((run, lock))
}

/// Facts and environment, and the runner's lock.
fn read_pod(
    config: &AgentConfig,
    root: &Root,
    hostname: Option<String>,
    is_sidecar: bool,
    log: Log,
) -> Result<(Facts, Report, Option<File>)> {
    let lock = if is_sidecar {
        None
    } else {
        prepare_volume(config, root, log)
            .map_err(|error| Failure::new(Exit::View, chain(&error)))?
    };
    let facts = Facts::gather(config, root, hostname)?;
    let start = Report::of_this_process()
        .map_err(|error| Failure::because(Exit::Prepare, "enter the working directory", &error))?;
    Ok((facts, start, lock))
}

/// Writes the status, and serves the kubelet's readiness probe; the result is the number of its open requests. Without the
/// port the pod never becomes ready, but it runs.
fn serve(
    run: &Run,
    readiness: Option<anyhow::Result<ReadinessServer>>,
) -> Option<watch::Receiver<u32>> {
    let status = run.root.at(run.config.layout.agent_status());
    tokio::spawn(file::publish(status, run.progress.subscribe(), run.log));
    let server = readiness?.inspect_err(|error| run.log.warn(&format!("{error:#}"))).ok()?;
    let open = server.open();
    tokio::spawn(server.serve(run.progress.subscribe()));
    Some(open)
}

/// Prepares the shared volume for other containers and users, and puts agent and view in their places where their images
/// are mounted.
fn prepare_volume(config: &AgentConfig, root: &Root, log: Log) -> Result<Option<File>, ViewError> {
    let (layout, volume) = (&config.layout, root.at(config.layout.mount()));
    if let Err(error) = files::make_sticky(&volume) {
        log.warn(&format!("keep users from renaming in {}: {error}", volume.display()));
    }
    // That of an earlier run.
    let _ = files::remove(&root.at(layout.agent_status()));
    // It is locked before anything can fail for which sidecars wait. Without it they do not notice that this is killed.
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

async fn prepare_and_supervise(run: &mut Run, plan: &Plan) -> Result<TerminationMessage> {
    execute_all(run, &plan.steps).await?;
    match &plan.broker.worker {
        Some(worker) => run_worker(run, plan, worker).await,
        None => run_lead(run, plan).await,
    }
}

/// The broker's real command line, with what hooks and the archive's volume have made of it.
async fn before_broker(run: &mut Run, broker: &BrokerRun) -> Result<BrokerStart> {
    run.progress.enter(phase::QUORUM);
    let (restored, can_dump) = match &broker.archive {
        Some(archive) => archive::prepare(run, archive).await?,
        None => (None, false),
    };
    let config = run.root.at(run.config.layout.broker_toml());
    let (root, agent) = (run.root.clone(), run.facts.agent.clone());
    let (flux, environment) = (broker.flux.clone(), run.session.environment.clone());
    let look = move || {
        let config = fs::read_to_string(&config)
            .map_err(|error| format!("read {}: {error}", config.display()));
        config.and_then(|it| rc::options(Path::new(&flux), &root, &agent, &environment, &it))
    };
    let rc_options = run.off_thread("look at Flux's rc files", Duration::ZERO, look).await?;
    run.progress.modules_loaded_by(rc_options.as_ref().err().map(String::as_str));
    Ok(broker_start(broker, &BeforeStart { rc_options, restored, can_dump }))
}

/// The same for a plan that nothing performs: as if hooks changed nothing and every place took files.
pub(crate) fn planned_start(
    plan: &Plan,
    config: &AgentConfig,
    facts: &Facts,
    root: &Root,
) -> BrokerStart {
    let broker = &plan.broker;
    let mut environment: Environment = std::env::vars_os().collect();
    for change in plan.environment_changes() {
        change.apply(&mut environment);
    }
    let toml = plan.file(Path::new(&config.layout.broker_toml())).unwrap_or_default();
    let flux = Path::new(&broker.flux);
    let rc_options = rc::options(flux, root, &facts.agent, &environment, toml);
    let restored = broker.archive.as_ref().and_then(|archive| archive::restored(root, archive));
    broker_start(broker, &BeforeStart { rc_options, restored, can_dump: true })
}

async fn run_lead(run: &mut Run, first: &Plan) -> Result<TerminationMessage> {
    let mut plan = first.clone();
    let (end, command) = loop {
        let start = before_broker(run, &plan.broker).await?;
        let (end, command) = run_broker(run, &plan, start).await?;
        if !end.waited_for_too_many() {
            break (end, command);
        }
        // Also the command's own size is as the configuration has it now.
        let path = run.config_path.clone();
        let read = move || read_config(&path);
        let config = run.off_thread("read the configuration", Duration::ZERO, read).await??;
        plan.broker = decide::plan(&config, &run.facts)?.broker;
    };
    if !end.ran && end.stop.is_none() && end.code != 0 {
        check_broker_program(run, &plan.broker.flux).await?;
    }
    if plan.broker.timed {
        output::print_stderr(&fluxtime_line("fluxstart", end.duration));
    }
    if let Some(archive) = &plan.broker.archive {
        archive::keep(run, archive, &end).await;
    }
    let jobs = end.jobs.or_else(|| command.as_ref()?.jobs);
    let ended = if plan.broker.lead_command.is_some() {
        outcome::lead_outcome(command, &end)
    } else {
        outcome::interactive_lead_outcome(&end)
    };
    Ok(TerminationMessage { jobs, ..ended })
}

/// Fails with the loader's message where Flux's broker cannot be used at all, as where a library of the image is too old.
/// It is called only when the broker has failed: the check takes longer than a start can wait.
async fn check_broker_program(run: &mut Run, flux: &str) -> Result<()> {
    let argv = [flux, "broker", "--help"].map(str::to_owned);
    let mut command = run.session.broker_command(&argv);
    let output = run.children.output(&mut command);
    let output = run.signals.unless_stopped(output).await?;
    let output = output.map_err(|error| {
        Failure::because(Exit::View, format!("start {:?}", shown(&argv[..1])), &error)
    })?;
    if output.status.success() {
        return Ok(());
    }
    let (command, end) = (shown(&argv), end_text(output.status));
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(Failure::new(Exit::View, format!("{command:?} {end}: {}", errors.trim())))
}

async fn run_worker(run: &mut Run, plan: &Plan, worker: &WorkerRun) -> Result<TerminationMessage> {
    let mut pause = None;
    loop {
        await_lead(run, &worker.lead).await?;
        let start = before_broker(run, &plan.broker).await?;
        let (mut end, _) = run_broker(run, plan, start).await?;
        let patience = outcome::patience_with_lead(worker, &end);
        if !patience.is_zero() {
            run.log.info("the broker ended well: looking whether the lead goes, too");
            let closed = timeout(patience, LeadWatch::SHORT.lost(&worker.lead));
            if run.signals.unless_stopped(closed).await?.is_ok() {
                end.lead_ends = Some(true);
            }
        }
        let may_return = worker.lead_may_return_seconds.is_some();
        let why = match outcome::worker_outcome(worker.policy, may_return, &end) {
            Outcome::Exit(ended) => return Ok(*ended),
            Outcome::Restart(why) => why,
        };
        let time = outcome::next_pause(pause, end.duration);
        pause = Some(time);
        let seconds = time.as_secs_f64();
        run.log.info(&format!("{why}; starting it again in {seconds:.1} s"));
        run.progress.failed(&why);
        if let Some(obstacle) = outcome::refusal(&end, &why) {
            run.progress.set_obstacle(Some(obstacle));
        }
        run.progress.restarted();
        run.signals.unless_stopped(tokio::time::sleep(time)).await?;
    }
}

/// Performs the last steps. A failure here is in the log and in the message; the code stays as it is.
async fn finish(run: &mut Run, plan: &Plan, ended: TerminationMessage) -> TerminationMessage {
    if let Some(error) = &ended.last_error {
        run.failed(error);
    }
    run.exit_code = ended.exit_code;
    for step in &plan.finish {
        run.progress.enter(phase::POST);
        if let Err(error) = execute(run, step).await {
            run.failed(&error.to_string());
        }
    }
    let last_error = ended.last_error.or_else(|| run.progress.last_error());
    TerminationMessage { last_error, ..ended }
}
