//! `cargo bench-flux brokers-round`: one start, as the first process of namespaces that end with it.

use super::cost::{memory, work};
use super::names;
use super::network::{self, GATEWAY};
use super::pods::{self, GATES};
use super::setup::{COMMAND, Contender, Round};
use e2e::prelude::*;
use fs_err::{self as fs, File, OpenOptions};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde::{Deserialize, Serialize};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Instant;

/// How long the pods may take to be made, and then to the quorum.
const PATIENCE: Duration = Duration::from_mins(14);
const INTERVAL: Duration = Duration::from_millis(5);
/// Makes the files of the round, in memory.
const FILES: &str = "mount -t tmpfs -o mode=755,size=90% files /run && echo nameserver $0 > /run/resolv.conf && \
     echo 127.0.0.1 localhost $(uname -n) > /run/hosts && mount --bind /run/resolv.conf /etc/resolv.conf && \
     mount --bind /run/hosts /etc/hosts";
/// Starts `flux` when its gate opens.
const FLUX_START: &str = ": < /run/lead; exec \"$0\" \"$@\"";

/// What one start has cost.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Measured {
    pub(super) count: u16,
    pub(super) contender: Contender,
    /// From the start to the command, which begins when all brokers are there.
    quorum_seconds: Option<f64>,
    processor_seconds: f64,
    memory_mib: f64,
    /// Connections that the lead has accepted, for each worker.
    connections_each: Option<f64>,
    name_queries_each: Option<f64>,
    /// With `--late`: connections that were refused in each second.
    attempts: Vec<f64>,
}

type Column = (&'static str, fn(&Measured) -> Option<f64>);

impl Measured {
    pub(super) const COLUMNS: [Column; 7] = [
        ("s to the quorum", |it| it.quorum_seconds),
        ("s of processors", |it| Some(it.processor_seconds)),
        ("MiB", |it| Some(it.memory_mib)),
        ("connections a worker", |it| it.connections_each),
        ("DNS queries a worker", |it| it.name_queries_each),
        ("attempts in the worst second", |it| it.attempts.iter().copied().reduce(f64::max)),
        ("attempts a second from 8 s on", |it| {
            let late = it.attempts.iter().skip(8).copied();
            late.clone().reduce(|one, other| one + other).map(|all| all / count(late.count()))
        }),
    ];
}

/// A small number, for divisions.
fn count(number: usize) -> f64 {
    u32::try_from(number).map_or(f64::NAN, f64::from)
}

impl Round {
    pub(crate) fn run(&self) -> Result<ExitCode> {
        let gateway = GATEWAY.to_string();
        programs::run(Command::new("sh").args(["-c", FILES, &gateway]))?;
        for gate in GATES {
            mkfifo(&Path::new("/run").join(gate), Mode::S_IRWXU).context("making a pipe")?;
        }
        let measured = match self.contender {
            Contender::Agents => self.agents()?,
            Contender::FluxStart => self.flux_start()?,
        };
        progress::print(&serde_json::to_string(&measured).context("writing the results")?);
        Ok(ExitCode::SUCCESS)
    }

    fn agents(&self) -> Result<Measured> {
        network::make(self.count, self.setup.delay.as_deref())?;
        let asked = names::serve(self.count)?;
        let mut pods = pods::start(self)?;
        let ready = || Ok(fs::read_dir("/run/ready")?.count() == usize::from(self.count));
        await_that(&mut pods[0], ready)?;
        let lead = pods[0].id();
        let (before, began) = (work()?, Instant::now());
        let _workers = open(GATES[0])?;
        if let Some(seconds) = self.setup.late {
            let attempts =
                (0..seconds).map(|_| refused_in_a_second(lead)).collect::<Result<_>>()?;
            return Ok(Measured { attempts, ..self.measured(before)? });
        }
        let _lead = open(GATES[1])?;
        let measured = self.at_quorum("/run/pods/0/run/quorum", &mut pods[0], began, before)?;
        let workers = f64::from(self.count - 1);
        Ok(Measured {
            connections_each: Some(f64::from(connections(lead)?[0]) / workers),
            name_queries_each: Some(f64::from(asked.load(Ordering::Relaxed)) / workers),
            ..measured
        })
    }

    fn flux_start(&self) -> Result<Measured> {
        programs::run(Command::new("ip").args(["link", "set", "lo", "up"]))?;
        let mut command = Command::new("sh");
        command.args(["-c", FLUX_START]).arg(self.setup.flux.join("bin/flux"));
        command.args(["start", &format!("--test-size={}", self.count)]);
        let topology = self.setup.topology.iter();
        command.args(topology.map(|topology| format!("-Stbon.topo={topology}")));
        fs::create_dir_all("/run/pods/0")?;
        let log = File::create("/run/pods/0/log")?.into_parts().0;
        command.args(["sh", "-c", COMMAND]).env("TMPDIR", "/run");
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let mut flux = command.spawn().context("starting flux start")?;
        let (before, began) = (work()?, Instant::now());
        let _gate = open(GATES[1])?;
        self.at_quorum("/run/quorum", &mut flux, began, before)
    }

    /// Waits for the file `quorum` of the instance whose lead is `lead`.
    fn at_quorum(
        &self,
        quorum: &str,
        lead: &mut Child,
        began: Instant,
        before: f64,
    ) -> Result<Measured> {
        await_that(lead, || Ok(fs::exists(quorum)?))?;
        let quorum_seconds = Some(began.elapsed().as_secs_f64());
        Ok(Measured { quorum_seconds, ..self.measured(before)? })
    }

    /// What all processes have cost since they had worked for `before` seconds.
    fn measured(&self, before: f64) -> Result<Measured> {
        Ok(Measured {
            count: self.count,
            contender: self.contender,
            quorum_seconds: None,
            processor_seconds: work()? - before,
            memory_mib: memory()?,
            connections_each: None,
            name_queries_each: None,
            attempts: Vec::new(),
        })
    }
}

/// Connections that the lead `pid` refuses in a second from now on.
fn refused_in_a_second(pid: u32) -> Result<f64> {
    let (so_far, second) = (connections(pid)?[1], Instant::now());
    thread::park_timeout(Duration::from_secs(1));
    let refused = connections(pid)?[1] - so_far;
    Ok(f64::from(refused) / second.elapsed().as_secs_f64())
}

/// Opens a gate for all that wait at it, until the result is dropped.
fn open(gate: &str) -> Result<File> {
    Ok(OpenOptions::new().write(true).open(Path::new("/run").join(gate))?)
}

/// Waits until it `is` so; fails where the lead ends before.
fn await_that(lead: &mut Child, is: impl Fn() -> Result<bool>) -> Result<()> {
    let log = || programs::tail(Path::new("/run/pods/0/log"), 20);
    let began = Instant::now();
    while !is()? {
        if let Some(status) = lead.try_wait().context("waiting for the lead")? {
            bail!("the lead ended with {status}: {}", log());
        }
        ensure!(began.elapsed() < PATIENCE, "no quorum in time; the lead's log: {}", log());
        thread::park_timeout(INTERVAL);
    }
    Ok(())
}

/// Connections that others have made, and those that were refused because nothing listened, in the network of process
/// `pid` (RFC 4022, `tcpPassiveOpens` and `tcpOutRsts`).
fn connections(pid: u32) -> Result<[u32; 2]> {
    let text = fs::read_to_string(format!("/proc/{pid}/net/snmp"))?;
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let (names, values) = lines.next().zip(lines.next()).context("looking for counters of TCP")?;
    let counter = |name| {
        let mut counters = names.split(' ').zip(values.split(' '));
        counters.find(|counter| counter.0 == name)?.1.parse().ok()
    };
    let both = counter("PassiveOpens").zip(counter("OutRsts"));
    both.map(<[u32; 2]>::from).context("reading the counters of TCP")
}
