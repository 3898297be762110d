//! The broker as a child of PID 1: started in a process group of its own, signals passed on, its
//! state watched; and, on the lead, the command beside it.

use crate::execute::session::Context;
use crate::failure::Failure;
use crate::flux::broker_watch::{Event, Watch};
use crate::flux::client::FluxClient;
use crate::flux::demand;
use crate::flux::leaving::OwnRank;
use crate::lead::watch::LeadWatch;
use crate::pid1::archive;
use crate::pid1::command::{CommandEnd, CommandRun, RunningCommand};
use crate::pid1::outcome::BrokerEnd;
use crate::pid1::rest;
use crate::plan::config::read_config;
use crate::plan::step::{BrokerRun, Owner, Plan, Role};
use crate::process::children::Running;
use crate::process::deadline::LOOK;
use crate::process::exit_status::exit_code;
use crate::process::orphans::Before;
use crate::process::signals::{Asked, Stop, at, end_of};
use crate::process::terminal::give_terminal;
use crate::rc;
use crate::system::output::chain;
use crate::system::words::shown;
use flux_contract::{Exit, phase};
use flux_protocol::client::modules::wait_for_scheduler;
use flux_protocol::client::{BrokerAddress, SocketError, job_manager};
use nix::errno::Errno;
use nix::sys::signal::Signal;
use std::fs;
use std::future::Future;
use std::io::{self, IsTerminal};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::pin::{Pin, pin};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

/// How long an answer may take that has arrived when the broker ends.
const LAST_ANSWER: Duration = Duration::from_secs(1);

/// Starts the broker, and the lead's command once it runs, and stays until both have ended, whatever signals come,
/// and nothing of them is left. The end of the command is `None` where it was not started.
pub(crate) async fn run_broker(
    context: &mut Context,
    plan: &Plan,
) -> Result<(BrokerEnd, Option<CommandEnd>), Failure> {
    let broker = &plan.broker;
    context.progress.enter(phase::QUORUM);
    let BrokerCommand { words, loads_modules, starts_queues } = command(context, broker).await?;
    context.log.info(&format!("starting the broker: {}", shown(&words)));
    let started = Instant::now();
    let before = Before::now();
    let running = start(context, &words)?;
    let (events, mut changes) = mpsc::unbounded_channel();
    let owner = context.ids(Owner::Broker).map(|(uid, _)| uid);
    let address = BrokerAddress { socket: broker.socket.clone(), owner };
    let hosts = context.config.network.bootstrap.hosts().len();
    let has_lead = broker.worker.is_some();
    let watch = Watch { broker: address.clone(), has_lead, hosts };
    let watch = tokio::spawn(watch.run(events));
    let demand = watch_demand(context, plan.role, &address);
    let lost =
        broker.worker.as_ref().map(|worker| Box::pin(LeadWatch::default().lost(&worker.lead)));
    let config = context.config_path.clone();
    let smaller = (plan.role == Role::Lead)
        .then(|| Box::pin(smaller_quorum(&config, broker.quorum, &address)));
    let mut supervision = Supervision {
        broker,
        running,
        role: plan.role,
        own_rank: OwnRank { broker: address.clone(), rank: plan.rank },
        end: BrokerEnd::default(),
        kill_at: None,
        killed: false,
        submission: None,
        command: None,
        command_end: None,
        runs: false,
        leaving: None,
        api: None,
        loads_modules,
        starts_queues,
        scheduler: None,
    };
    let (lost, smaller) = (end_of(lost), end_of(smaller));
    let status = supervision.until_ended(context, &mut changes, lost, smaller).await;
    if status.success() {
        let _ = timeout(LAST_ANSWER, supervision.await_lead(&mut changes)).await;
    }
    watch.abort();
    drop(demand);
    context.progress.broker_ended();
    let Supervision { mut end, submission, command, mut command_end, .. } = supervision;
    end.duration = started.elapsed();
    drop(submission);
    end.code = exit_code(status);
    if let Some(mut command) = command {
        command_end = Some(command.end_without_broker(end.code != 0).await);
    }
    clear(context, &before).await;
    Ok((end, command_end))
}

struct BrokerCommand {
    words: Vec<String>,
    /// The agent is the broker's rc1.
    loads_modules: bool,
    /// The instance is a new one: what an archive has of its queues is as it was left.
    starts_queues: bool,
}

/// The planned command with what only this moment shows: the archive, and who loads the modules.
async fn command(context: &mut Context, broker: &BrokerRun) -> Result<BrokerCommand, Failure> {
    let mut words = broker.command.clone();
    if let Some(archive) = &broker.archive {
        words.extend(archive::options(context, archive).await?);
    }
    let starts_queues = !words.iter().any(|word| word.contains("Scontent.restore="));
    let rc = rc_options(context, broker);
    let loads_modules = !rc.is_empty();
    words.extend(rc);
    Ok(BrokerCommand { words, loads_modules, starts_queues })
}

/// Looks, on the lead, at what its queue needs, where the operator asks for that; until it is dropped.
fn watch_demand(context: &Context, role: Role, broker: &BrokerAddress) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let settings = context.config.autoscale.clone();
    if let Some(settings) = settings.filter(|_| role == Role::Lead) {
        let (config, reporter) = (context.config_path.clone(), context.progress.demand_reporter());
        tasks.spawn(demand::watch(broker.clone(), settings, config, reporter));
    }
    tasks
}

/// The options by which the agent loads the broker's modules and removes them, where it can take the place of Flux.
/// Hooks may have changed the environment and the broker's configuration: they are looked at as the broker gets them.
fn rc_options(context: &Context, broker: &BrokerRun) -> Vec<String> {
    let config = context.root.at(context.config.layout.broker_toml());
    let options = fs::read_to_string(&config)
        .map_err(|error| format!("read {}: {error}", config.display()))
        .and_then(|config| {
            let Context { root, facts, session, .. } = context;
            rc::options(Path::new(&broker.flux), root, &facts.agent, &session.environment, &config)
        });
    context.progress.modules_loaded_by(options.as_ref().err().map(String::as_str));
    options.unwrap_or_default()
}

fn start(context: &Context, words: &[String]) -> Result<Running, Failure> {
    context.session.check_working_directory()?;
    let mut command = context.session.broker_command(words);
    if !io::stdin().is_terminal() {
        // A command that reads it must meet its end, whatever the container's is.
        command.stdin(Stdio::null());
    }
    let running = context.children.spawn(&mut command).map_err(|error| {
        Failure::because(Exit::View, format!("start {:?}", words.join(" ")), &error)
    })?;
    give_terminal(running.pid);
    Ok(running)
}

/// Waits until the configuration at `config` asks for fewer brokers than `before`, for which `broker`, a lead's, was
/// started, and gives their number. A broker reads `broker.quorum` once (flux-broker-attributes(7)): where the size of a
/// MiniCluster is reduced before that is reached, the lead would wait for ever for brokers that nobody starts any more.
/// One that does not wait at that moment goes on: what its watch has seen last may be seconds old.
async fn smaller_quorum(config: &Path, before: Option<u32>, broker: &BrokerAddress) -> u32 {
    loop {
        sleep(LOOK).await;
        // What cannot be read changes nothing.
        let asked = read_config(config).ok().and_then(|config| config.broker.quorum);
        // A broker without a number waits for all of its hosts, and what is asked for is never that many.
        if let Some(asked) = asked.filter(|asked| before.is_none_or(|before| *asked < before))
            && broker.state().await.is_ok_and(|state| state == "quorum")
        {
            return asked;
        }
    }
}

/// Ends what the broker has left: it must not work on beside the broker's replacement, nor beside
/// `commands.post`.
async fn clear(context: &Context, before: &Before) {
    let (killed, left) = before.kill_newcomers(&context.children, context.budget.reserve).await;
    if killed > 0 {
        context.log.warn(&format!("killed {killed} processes that the broker had left behind"));
    }
    if left > 0 {
        context.log.warn(&format!("{left} of them cannot be killed"));
    }
}

/// A worker's rank is left; what it gives are the ids of the jobs that still run there.
type Leaving = Pin<Box<dyn Future<Output = Result<Vec<String>, SocketError>> + Send>>;
/// Whether the scheduler comes.
type Scheduler = Pin<Box<dyn Future<Output = Option<bool>> + Send>>;

struct Supervision<'run> {
    broker: &'run BrokerRun,
    running: Running,
    role: Role,
    own_rank: OwnRank,
    end: BrokerEnd,
    /// When the broker is killed unless it has ended; once that was done, when it is given up.
    kill_at: Option<Instant>,
    killed: bool,
    submission: Option<Running>,
    command: Option<RunningCommand>,
    command_end: Option<CommandEnd>,
    runs: bool,
    leaving: Option<Leaving>,
    /// Serves the API of the instance, on a lead that is to, until this is dropped.
    api: Option<JoinSet<()>>,
    /// The agent is the broker's rc1, which does not wait until the scheduler runs.
    loads_modules: bool,
    /// The instance is a new one, whose named queues are stopped.
    starts_queues: bool,
    scheduler: Option<Scheduler>,
}

impl Supervision<'_> {
    async fn until_ended(
        &mut self,
        context: &mut Context,
        changes: &mut mpsc::UnboundedReceiver<Event>,
        lost: impl Future<Output = ()>,
        smaller: impl Future<Output = u32>,
    ) -> ExitStatus {
        let (mut lost, mut smaller) = (pin!(lost), pin!(smaller));
        loop {
            tokio::select! {
                biased;
                // A submission fails because its broker has: the broker's end is the one that counts.
                status = self.running.wait() => return status,
                // Until it has joined, the broker looks for the lead itself, and says so.
                () = &mut lost, if self.end.ran && !self.end.lead_lost => self.lose_lead(context),
                quorum = &mut smaller, if !self.end.quorum_is_smaller && self.command.is_none() && self.command_end.is_none() && self.end.stop.is_none() => {
                    context.log.info(&format!(
                        "{quorum} brokers are enough now: starting this one again to wait for no more"
                    ));
                    self.end.quorum_is_smaller = true;
                    // It runs nothing yet, and an orderly end would take the workers with it for good.
                    self.running.signal_group(Signal::SIGKILL);
                }
                () = at(self.kill_at) => {
                    if self.killed && self.end.stop.is_some() {
                        context.log.error("the broker cannot be killed: going on without its end");
                        return ExitStatus::from_raw(Signal::SIGKILL as i32);
                    }
                    context.log.warn("the broker has not ended in its time: killing it");
                    self.running.signal_group(Signal::SIGKILL);
                    self.killed = true;
                    self.kill_at = Some(Instant::now() + context.budget.for_main().patience);
                }
                asked = context.signals.asked() => self.asked(context, asked),
                Some(event) = changes.recv() => self.note(context, &event),
                left = end_of(self.leaving.as_mut()) => self.has_left(context, left),
                comes = end_of(self.scheduler.as_mut()) => self.scheduler_looked_for(context, comes),
                status = end_of(self.submission.as_mut().map(Running::wait)) => {
                    self.submission = None;
                    if !status.success() {
                        let code = exit_code(status);
                        context.failed(&format!("the command could not be submitted: exit code {code}"));
                    }
                }
                end = end_of(self.command.as_mut().map(RunningCommand::end)) => self.command_ended(context, end),
            }
        }
    }

    /// The broker of a worker may end before it is read whether the lead ends, too.
    async fn await_lead(&mut self, changes: &mut mpsc::UnboundedReceiver<Event>) {
        let is_over = |end: &BrokerEnd| end.stop.is_some() || end.lead_ends.is_some();
        while self.role == Role::Worker && !is_over(&self.end) {
            let Some(event) = changes.recv().await else { return };
            if let Event::LeadEnds(ends) = event {
                self.end.lead_ends = Some(ends);
            }
        }
    }

    /// Ends the broker of a lead that is gone, unless that was done.
    fn lose_lead(&mut self, context: &Context) {
        if self.end.lead_lost {
            return;
        }
        context.log.warn("the lead broker is gone: ending this one to look for it anew");
        self.end.lead_lost = true;
        self.running.signal(Signal::SIGTERM);
        // Its last tasks ask the lead, who is gone.
        self.kill_within(context.budget.leave);
    }

    /// The broker is killed when `time` is over, or before where that was said already.
    fn kill_within(&mut self, time: Duration) {
        let then = Instant::now() + time;
        self.kill_at = Some(self.kill_at.map_or(then, |earlier| earlier.min(then)));
    }

    /// Passes on what is asked: to the command while it runs, since the broker ends after it, else to the broker. The
    /// first that asks a worker to end waits for the jobs on its rank; the second does not.
    fn asked(&mut self, context: &Context, asked: Asked) {
        let (of_command, of_broker) = match asked {
            Asked::PassOn(signal) => (signal, signal),
            Asked::Stop(stop) => {
                if let Stop::Deadline { .. } = stop {
                    context.log.error(&format!("{stop}: ending the run"));
                }
                let is_first = self.end.stop.is_none();
                if is_first {
                    self.end.stopped = Some(Instant::now());
                    self.kill_within(context.budget.main);
                }
                // A deadline stays the reason, whoever takes the pod away then.
                if !matches!(self.end.stop, Some(Stop::Deadline { .. })) {
                    self.end.stop = Some(stop);
                }
                if is_first && self.role == Role::Worker && self.end.ran && !self.end.lead_lost {
                    return self.leave(context, stop);
                }
                self.leaving = None;
                // At SIGTERM a program in a pod saves its state, whatever this process was sent.
                (Signal::SIGTERM, stop.signal())
            }
        };
        if let Some(command) = &self.command {
            context.log.info(&format!("passing {of_command} on to the command"));
            return command.signal(of_command);
        }
        context.log.info(&format!("passing {of_broker} on to the broker"));
        self.running.signal(of_broker);
    }

    fn command_ended(&mut self, context: &mut Context, end: CommandEnd) {
        self.command = None;
        self.command_end = Some(end);
        context.progress.enter(phase::SHUTDOWN);
        if self.runs {
            self.running.signal(Signal::SIGTERM);
        }
    }

    /// Without a scheduler every job would wait for ever.
    fn scheduler_looked_for(&mut self, context: &Context, comes: Option<bool>) {
        self.scheduler = None;
        if comes == Some(false) && self.end.stop.is_none() {
            context.log.error("the scheduler has not started: ending the broker");
            self.end.lacks_scheduler = true;
            self.running.signal_group(Signal::SIGKILL);
        }
    }

    fn leave(&mut self, context: &Context, stop: Stop) {
        let (own, patience) = (self.own_rank.clone(), context.budget.drain);
        let rank = own.rank;
        context
            .log
            .info(&format!("{stop}: draining rank {rank}, whose jobs have {patience:?} to end"));
        self.leaving = Some(Box::pin(async move { own.leave(patience).await }));
    }

    /// Ends the broker, whose rank has no jobs any more, or no more time for them.
    fn has_left(&mut self, context: &mut Context, left: Result<Vec<String>, SocketError>) {
        self.leaving = None;
        let rank = self.own_rank.rank;
        match left {
            Ok(jobs) if jobs.is_empty() => {
                context.log.info(&format!("no job runs on rank {rank}: ending the broker"));
            }
            Ok(jobs) => {
                let text = format!("jobs that did not end in time: {}", jobs.join(", "));
                context.log.error(&format!("rank {rank}: {text}; ending the broker"));
                context.progress.failed(&text);
                context.unfinished_jobs = jobs;
            }
            Err(error) => {
                let error = chain(&error);
                context.log.warn(&format!("drain rank {rank}: {error}; ending the broker at once"));
            }
        }
        self.running.signal(self.end.stop.map_or(Signal::SIGTERM, Stop::signal));
    }

    /// Lifts, beside everything else, the drain that an earlier pod of this rank has left.
    fn take_rank(&self, context: &Context) {
        let (own, rank, log) = (self.own_rank.clone(), self.own_rank.rank, context.log);
        tokio::spawn(async move {
            match own.take().await {
                Ok(true) => log.info(&format!("rank {rank} is not drained any more")),
                Ok(false) => {}
                Err(error) => {
                    let error = chain(&error);
                    log.warn(&format!("ask whether rank {rank} is still drained: {error}"));
                }
            }
        });
    }

    fn note(&mut self, context: &mut Context, event: &Event) {
        let state = match event {
            Event::State(state) => state,
            Event::LeadGone => return self.lose_lead(context),
            Event::LeadEnds(ends) => return self.end.lead_ends = Some(*ends),
            // All is kept by then. Where rc3 has failed, Flux 0.88 takes ten seconds more, and may stay for ever.
            Event::Closed => return self.kill_within(context.budget.main),
        };
        context.progress.broker_state(self.role, state);
        self.runs = state == "run";
        if !self.runs
            && self.end.stop.is_none()
            && let Some(command) = &self.command
        {
            context.log.warn("the broker shuts down: ending the command");
            command.signal(Signal::SIGTERM);
        }
        if !self.runs || self.end.ran {
            return;
        }
        self.end.ran = true;
        if let Some(entrance) = &self.broker.entrance {
            context.log.info(&format!("the instance is up; to enter it: {entrance}"));
        }
        match self.role {
            Role::Worker => self.take_rank(context),
            Role::Lead if self.end.stop.is_none() => {
                let comes =
                    || Box::pin(wait_for_scheduler(self.own_rank.broker.clone())) as Scheduler;
                self.scheduler = self.loads_modules.then(comes);
                self.start_queues(context);
                self.start(context);
            }
            Role::Lead => {}
        }
    }

    /// Starts the named queues of a new instance, beside everything else: what is submitted meanwhile waits for them.
    fn start_queues(&self, context: &Context) {
        if !self.starts_queues {
            return;
        }
        let (broker, log) = (self.own_rank.broker.clone(), context.log);
        tokio::spawn(async move {
            match job_manager::start_queues(&broker).await {
                Ok(queues) if queues.is_empty() => {}
                // A release without them.
                Err(error) if error.is(Errno::ENOSYS) => {}
                Ok(queues) => log.info(&format!("started the queues {}", queues.join(", "))),
                Err(error) => log.warn(&format!("start the queues: {}", chain(&error))),
            }
        });
    }

    /// Starts the command, or submits that of an interactive MiniCluster, once.
    fn start(&mut self, context: &mut Context) {
        let client = FluxClient {
            session: context.session.clone(),
            children: context.children.clone(),
            flux: self.broker.flux.clone(),
            broker: self.own_rank.broker.clone(),
        };
        if let Some(command) = &self.broker.lead_command {
            context.log.info(&format!("starting the command: {}", shown(&command.words)));
            let run = CommandRun {
                client,
                command: command.clone(),
                patience: context.budget.command,
                last_wait: context.budget.for_main().patience,
                log: context.log,
                timed: self.broker.timed,
            };
            self.command = Some(run.start());
        } else if let Some(words) = &self.broker.submission {
            self.submit(context, &client, words);
        }
        context.progress.command_started();
        self.api = context.config.rest.as_ref().map(|rest| rest::serve(context, rest));
    }

    fn submit(&mut self, context: &Context, client: &FluxClient, words: &[String]) {
        context.log.info(&format!("submitting: {}", shown(words)));
        let mut command = client.command(words);
        if context.config.logging.quiet {
            // The id of the job.
            command.stdout(Stdio::null());
        }
        match context.children.spawn(&mut command) {
            Ok(running) => self.submission = Some(running),
            Err(error) => context.failed(&format!("start {}: {error}", shown(words))),
        }
    }
}
