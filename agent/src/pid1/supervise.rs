//! The broker as a child of PID 1, and on the lead the command beside it. What happens becomes an event of the
//! [state machine](super::state_machine), whose actions are performed here.

use crate::execute::run::Run;
use crate::failure::{Failure, Result};
use crate::flux::broker_watch::{self, Watch};
use crate::flux::client::FluxClient;
use crate::flux::demand;
use crate::flux::drain::OwnRank;
use crate::flux::idle;
use crate::lead::watch::LeadWatch;
use crate::pid1::command::{CommandEnd, CommandRun, RunningCommand};
use crate::pid1::outcome::BrokerEnd;
use crate::pid1::state_machine::{Action, Cause, Event, Purpose, State, next};
use crate::pid1::{checkpoint, rest};
use crate::plan::config::{CONFIG_POLL, ConfigReader};
use crate::plan::start::BrokerStart;
use crate::plan::step::{BrokerRun, Owner, Plan, Role};
use crate::process::children::Running;
use crate::process::exit_status::exit_code;
use crate::process::orphans::ProcessSnapshot;
use crate::process::signals::{Request, Stop, or_pending, sleep_until};
use crate::process::terminal::give_terminal;
use crate::system::output::chain;
use crate::system::words::shown;
use flux_contract::{AgentConfig, Exit, phase};
use flux_protocol::client::modules::wait_for_scheduler;
use flux_protocol::client::{BrokerAddress, SocketError, job_manager};
use nix::errno::Errno;
use nix::sys::signal::Signal;
use std::io::{self, IsTerminal};
use std::os::unix::process::ExitStatusExt;
use std::pin::Pin;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

/// How long an answer may take that has arrived when the broker ends.
const LAST_ANSWER: Duration = Duration::from_secs(1);

/// Starts the broker, and the lead's command once the broker runs, and stays until both have ended, whatever signals come,
/// and nothing of them is left. The end of the command is `None` where it was not started.
pub(crate) async fn run_broker(
    run: &mut Run,
    plan: &Plan,
    start: BrokerStart,
) -> Result<(BrokerEnd, Option<CommandEnd>)> {
    run.log.info(&format!("starting the broker: {}", shown(&start.argv)));
    let started = Instant::now();
    let before = ProcessSnapshot::now();
    let running = start_broker(run, &start.argv).await?;
    let mut supervision = Supervision::new(run, plan, start, running);
    let watch = Watch {
        broker: supervision.own_rank.broker.clone(),
        has_lead: plan.role == Role::Worker,
        hosts: run.config.network.bootstrap.hosts().len(),
    };
    let (events, mut changes) = mpsc::unbounded_channel();
    let watch = tokio::spawn(watch.run(events));
    let uses = watch_use(run, plan, supervision.client(run));
    let status = supervision.until_ended(run, &mut changes).await;
    if status.success() {
        let _ = timeout(LAST_ANSWER, supervision.await_lead(&mut changes)).await;
    }
    watch.abort();
    drop(uses);
    while let Ok(change) = changes.try_recv() {
        supervision.end.note(&change);
    }
    run.progress.broker_ended();
    let Supervision { mut end, submission, command, mut command_end, .. } = supervision;
    end.duration = started.elapsed();
    drop(submission);
    end.code = exit_code(status);
    if let Some(mut command) = command {
        command_end = Some(command.end_without_broker(end.code != 0).await);
    }
    kill_orphans(run, &before).await;
    Ok((end, command_end))
}

/// Watches, on the lead, what its queue needs and whether anybody uses the instance, where the specification asks for that;
/// until the result is dropped.
fn watch_use(run: &Run, plan: &Plan, client: FluxClient) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    if plan.role != Role::Lead {
        return tasks;
    }
    if let Some(settings) = run.config.autoscale.clone() {
        let (config, reporter) = (run.config_path.clone(), run.progress.demand_reporter());
        tasks.spawn(demand::watch(client.broker.clone(), settings, config, reporter));
    }
    if let Some(archive) = &plan.broker.archive {
        tasks.spawn(checkpoint::write_regularly(run, archive, client.clone()));
    }
    if let Some(seconds) = plan.idle_seconds {
        let (limit, layout) = (Duration::from_secs(seconds), run.config.layout.clone());
        tasks.spawn(idle::watch(client, layout, limit, run.log));
    }
    tasks
}

async fn start_broker(run: &mut Run, argv: &[String]) -> Result<Running> {
    run.check_working_directory(Duration::ZERO).await?;
    let mut command = run.session.broker_command(argv);
    if !io::stdin().is_terminal() {
        // A command that reads it must meet its end, whatever the container's is.
        command.stdin(Stdio::null());
    }
    let running = run.children.spawn(&mut command).map_err(|error| {
        Failure::because(Exit::View, format!("start {:?}", argv.join(" ")), &error)
    })?;
    give_terminal(running.pid);
    Ok(running)
}

/// Waits until the configuration asks for fewer brokers than `before`, for which the lead's `broker` was started, and gives
/// their number. A broker reads `broker.quorum` once (flux-broker-attributes(7)): where the size of a MiniCluster is
/// reduced before that is reached, the lead would wait forever for brokers that are no longer started. A broker that does
/// not wait at that moment goes on: the state that its watch has reported last may be seconds old.
async fn smaller_quorum(
    mut config: ConfigReader,
    before: Option<u32>,
    broker: BrokerAddress,
) -> u32 {
    loop {
        sleep(CONFIG_POLL).await;
        let text = config.read().await;
        // A text that cannot be read changes nothing.
        let config = text.and_then(|text| AgentConfig::from_toml(&text).ok());
        let asked = config.and_then(|config| config.broker.quorum);
        // A broker without a number waits for all of its hosts, and what is asked for is never that many.
        if let Some(asked) = asked.filter(|asked| before.is_none_or(|before| *asked < before))
            && broker.state().await.is_ok_and(|state| state == "quorum")
        {
            return asked;
        }
    }
}

/// Kills the processes that the broker has left: they must not work on beside the next broker, nor beside
/// `commands.post`.
async fn kill_orphans(run: &Run, before: &ProcessSnapshot) {
    let (killed, left) = before.kill_orphans_since(&run.children, run.grace.reserve).await;
    if killed > 0 {
        run.log.warn(&format!("killed {killed} processes that the broker had left behind"));
    }
    if left > 0 {
        run.log.warn(&format!("{left} of them cannot be killed"));
    }
}

type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A future that the supervision polls while it is `Some`.
type Awaited<T> = Option<Work<T>>;

fn boxed<T>(work: impl Future<Output = T> + Send + 'static) -> Work<T> {
    Box::pin(work)
}

struct Supervision<'run> {
    plan: &'run BrokerRun,
    role: Role,
    purpose: Purpose,
    state: State,
    start: BrokerStart,
    broker: Running,
    own_rank: OwnRank,
    end: BrokerEnd,
    /// When the time is over that the broker has to end.
    kill_at: Option<Instant>,
    command: Option<RunningCommand>,
    command_end: Option<CommandEnd>,
    submission: Option<Running>,
    /// Serves the API of the instance until this is dropped.
    api: Option<JoinSet<()>>,
    smaller_quorum: Awaited<u32>,
    lead_lost: Awaited<()>,
    /// The ids of the jobs that still run on a worker's rank in the end.
    drained: Awaited<Result<Vec<String>, SocketError>>,
    /// Whether the scheduler is loaded, or `None` where the broker does not answer.
    scheduler: Awaited<Option<bool>>,
}

impl<'run> Supervision<'run> {
    fn new(run: &Run, plan: &'run Plan, start: BrokerStart, broker: Running) -> Self {
        let owner = run.files().ids(Owner::Broker).map(|(uid, _)| uid);
        let address = BrokerAddress { socket: plan.broker.socket.clone(), owner };
        let quorum = plan.broker.quorum;
        let config = ConfigReader::new(run.config_path.clone());
        let smaller = smaller_quorum(config, quorum, address.clone());
        Self {
            plan: &plan.broker,
            role: plan.role,
            purpose: match (plan.role, &plan.broker.lead_command) {
                (Role::Worker, _) => Purpose::Worker,
                (Role::Lead, Some(_)) => Purpose::Command,
                (Role::Lead, None) => Purpose::Interactive,
            },
            state: State::Starting,
            start,
            broker,
            own_rank: OwnRank { broker: address, rank: plan.rank },
            end: BrokerEnd::default(),
            kill_at: None,
            command: None,
            command_end: None,
            submission: None,
            api: None,
            smaller_quorum: (plan.role == Role::Lead).then(|| boxed(smaller)),
            lead_lost: None,
            drained: None,
            scheduler: None,
        }
    }

    async fn until_ended(
        &mut self,
        run: &mut Run,
        changes: &mut mpsc::UnboundedReceiver<broker_watch::Event>,
    ) -> ExitStatus {
        loop {
            let event = tokio::select! {
                biased;
                // A submission fails because its broker has: the broker's end is the one that counts.
                status = self.broker.wait() => return status,
                () = or_pending(self.lead_lost.as_mut()) => Some(Event::LeadIsGone),
                brokers = or_pending(self.smaller_quorum.as_mut()) => Some(Event::QuorumIsSmaller(brokers)),
                () = sleep_until(self.kill_at) => Some(Event::TimeIsOver { stopped: self.end.stop.is_some() }),
                request = run.signals.next_request() => Some(self.requested(run, request)),
                Some(change) = changes.recv() => self.changed(run, change),
                jobs = or_pending(self.drained.as_mut()) => Some(self.rank_drained(run, jobs)),
                is_there = or_pending(self.scheduler.as_mut()) => {
                    self.scheduler = None;
                    (is_there == Some(false)).then_some(Event::NoScheduler)
                }
                status = or_pending(self.submission.as_mut().map(Running::wait)) => {
                    self.submitted(run, status);
                    None
                }
                end = or_pending(self.command.as_mut().map(RunningCommand::end)) => {
                    (self.command, self.command_end) = (None, Some(end));
                    run.progress.enter(phase::SHUTDOWN);
                    Some(Event::CommandEnded)
                }
            };
            let Some(event) = event else { continue };
            let (state, actions) = next(self.purpose, self.state, event);
            self.state = state;
            self.drop_awaited(event);
            for action in actions {
                if action == Action::GiveUp {
                    run.log.error("the broker cannot be killed: going on without its end");
                    return ExitStatus::from_raw(Signal::SIGKILL as i32);
                }
                self.perform(run, action);
            }
        }
    }

    /// Drops what is of no use in the new state, or has come to its end with `event`.
    fn drop_awaited(&mut self, event: Event) {
        if self.state != State::Starting {
            self.smaller_quorum = None;
        }
        if self.state != State::Draining {
            self.drained = None;
        }
        if event == Event::LeadIsGone {
            self.lead_lost = None;
        }
    }

    fn perform(&mut self, run: &mut Run, action: Action) {
        match action {
            Action::Begin => self.begin(run),
            Action::Note(cause) => {
                match cause {
                    Cause::LeadLost => run.log.warn(&cause.to_string()),
                    Cause::SmallerQuorum(_) => run.log.info(&cause.to_string()),
                    Cause::NoScheduler => run.log.error(&cause.to_string()),
                }
                self.end.cause = Some(cause);
            }
            Action::PassOnToCommand(signal) => {
                run.log.info(&format!("passing {signal} on to the command"));
                self.signal_command(signal);
            }
            Action::PassOnToBroker(signal) => {
                run.log.info(&format!("passing {signal} on to the broker"));
                self.broker.signal(signal);
            }
            Action::EndCommand => {
                run.log.warn("the broker shuts down: ending the command");
                self.signal_command(Signal::SIGTERM);
            }
            Action::EndBroker(signal) => self.broker.signal(signal),
            Action::Drain => self.drain(run),
            Action::KillWithinMain => self.kill_within(run.grace.main),
            Action::KillWithinLeave => self.kill_within(run.grace.leave),
            Action::WarnLate => {
                run.log.warn("the broker has not ended in its time: killing it");
            }
            Action::KillBroker => {
                self.broker.signal_group(Signal::SIGKILL);
                let give_up_after = run.grace.of_main_process().give_up;
                self.kill_at = Some(Instant::now() + give_up_after);
            }
            // It ends the supervision.
            Action::GiveUp => {}
        }
    }

    fn signal_command(&self, signal: Signal) {
        if let Some(command) = &self.command {
            command.signal(signal);
        }
    }

    /// The broker is killed when `time` is over, or earlier where that was decided before.
    fn kill_within(&mut self, time: Duration) {
        let then = Instant::now() + time;
        self.kill_at = Some(self.kill_at.map_or(then, |earlier| earlier.min(then)));
    }

    fn requested(&mut self, run: &Run, request: Request) -> Event {
        let stop = match request {
            Request::PassOn(signal) => return Event::PassOn(signal),
            Request::Stop(stop) => stop,
        };
        if let Stop::Deadline { .. } = stop {
            run.log.error(&format!("{stop}: ending the run"));
        }
        self.end.stopped.get_or_insert_with(Instant::now);
        // A deadline stays the reason, whatever takes the pod away then.
        if !matches!(self.end.stop, Some(Stop::Deadline { .. })) {
            self.end.stop = Some(stop);
        }
        Event::Stop(stop.signal())
    }

    fn changed(&mut self, run: &mut Run, change: broker_watch::Event) -> Option<Event> {
        match change {
            broker_watch::Event::State(state) => {
                run.progress.broker_state(self.role, &state);
                let runs = state == "run";
                self.end.ran |= runs;
                Some(if runs { Event::BrokerRuns } else { Event::BrokerRunsNot })
            }
            broker_watch::Event::Closed => Some(Event::SocketClosed),
            broker_watch::Event::LeadGone => Some(Event::LeadIsGone),
            change @ (broker_watch::Event::LeadEnds(_) | broker_watch::Event::Jobs(_)) => {
                self.end.note(&change);
                None
            }
        }
    }

    /// The broker of a worker may end before the answer is read whether the lead ends, too.
    async fn await_lead(&mut self, changes: &mut mpsc::UnboundedReceiver<broker_watch::Event>) {
        let is_over = |end: &BrokerEnd| end.stop.is_some() || end.lead_ends.is_some();
        while self.purpose == Purpose::Worker && !is_over(&self.end) {
            let Some(event) = changes.recv().await else { return };
            self.end.note(&event);
        }
    }

    fn submitted(&mut self, run: &Run, status: ExitStatus) {
        self.submission = None;
        if !status.success() {
            let code = exit_code(status);
            run.failed(&format!("the command could not be submitted: exit code {code}"));
        }
    }

    fn drain(&mut self, run: &Run) {
        let (own, patience) = (self.own_rank.clone(), run.grace.drain);
        let (rank, stop) = (own.rank, self.end.stop.map_or_else(String::new, |it| it.to_string()));
        run.log.info(&format!("{stop}: draining rank {rank}, whose jobs have {patience:?} to end"));
        self.drained = Some(boxed(async move { own.drain_and_wait(patience).await }));
    }

    /// The rank has no jobs any more, or no more time for them.
    fn rank_drained(&mut self, run: &Run, jobs: Result<Vec<String>, SocketError>) -> Event {
        let rank = self.own_rank.rank;
        match jobs {
            Ok(jobs) if jobs.is_empty() => {
                run.log.info(&format!("no job runs on rank {rank}: ending the broker"));
            }
            Ok(jobs) => {
                let text = format!("jobs that did not end in time: {}", jobs.join(", "));
                run.log.error(&format!("rank {rank}: {text}; ending the broker"));
                run.progress.failed(&text);
                self.end.unfinished_jobs = jobs;
            }
            Err(error) => {
                let error = chain(&error);
                run.log.warn(&format!("drain rank {rank}: {error}; ending the broker at once"));
            }
        }
        Event::Drained(self.end.stop.map_or(Signal::SIGTERM, Stop::signal))
    }

    /// What follows the first `run` of the broker.
    fn begin(&mut self, run: &mut Run) {
        if let Some(hint) = &self.plan.attach_hint {
            run.log.info(&format!("the instance is up; to enter it: {hint}"));
        }
        if let Some(worker) = &self.plan.worker {
            // Until it has joined, the broker looks for the lead itself, and reports that.
            let lead = worker.lead.clone();
            self.lead_lost = Some(boxed(async move { LeadWatch::default().lost(&lead).await }));
            return self.undrain(run);
        }
        let broker = self.own_rank.broker.clone();
        // Flux's own rc1 waits for the scheduler; the agent's does not.
        self.scheduler = self.start.loads_modules.then(|| boxed(wait_for_scheduler(broker)));
        if self.start.starts_queues {
            self.start_queues(run);
        }
        self.start_command(run);
    }

    /// Undrains, beside everything else, the rank that an earlier pod of it has left drained.
    fn undrain(&self, run: &Run) {
        let (own, rank, log) = (self.own_rank.clone(), self.own_rank.rank, run.log);
        tokio::spawn(async move {
            match own.undrain().await {
                Ok(true) => log.info(&format!("rank {rank} is not drained any more")),
                Ok(false) => {}
                Err(error) => {
                    let error = chain(&error);
                    log.warn(&format!("ask whether rank {rank} is still drained: {error}"));
                }
            }
        });
    }

    /// Starts the named queues of a new instance, beside everything else: what is submitted meanwhile waits for them.
    fn start_queues(&self, run: &Run) {
        let (broker, log) = (self.own_rank.broker.clone(), run.log);
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

    /// `flux` as a client of the broker.
    fn client(&self, run: &Run) -> FluxClient {
        FluxClient {
            session: run.session.clone(),
            children: run.children.clone(),
            flux: self.plan.flux.clone(),
            broker: self.own_rank.broker.clone(),
        }
    }

    /// Starts the command, or submits that of an interactive MiniCluster.
    fn start_command(&mut self, run: &mut Run) {
        let client = self.client(run);
        if let Some(command) = &self.plan.lead_command {
            run.log.info(&format!("starting the command: {}", shown(&command.words)));
            let command = CommandRun {
                client,
                command: command.clone(),
                kill_after: run.grace.command,
                give_up_after: run.grace.of_main_process().give_up,
                log: run.log,
                timed: self.plan.timed,
            };
            self.command = Some(command.start());
        } else if let Some(argv) = &self.plan.submission {
            self.submit(run, &client, argv);
        }
        run.progress.command_started();
        self.api = run.config.rest.as_ref().map(|_| rest::serve(run));
    }

    fn submit(&mut self, run: &Run, client: &FluxClient, argv: &[String]) {
        run.log.info(&format!("submitting: {}", shown(argv)));
        let mut command = client.command(argv);
        if run.config.logging.quiet {
            // The id of the job.
            command.stdout(Stdio::null());
        }
        match run.children.spawn(&mut command) {
            Ok(running) => self.submission = Some(running),
            Err(error) => run.failed(&format!("start {}: {error}", shown(argv))),
        }
    }
}
