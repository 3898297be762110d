//! `cargo bench-flux brokers`: how long agents and their brokers take to the quorum, as processes of this machine, beside
//! `flux start` with as many brokers.

mod cost;
mod names;
mod network;
mod pods;
mod round;
mod setup;

pub(super) use self::setup::Round;

use self::round::Measured;
use self::setup::{Contender, Setup};
use crate::results::{Spread, table, write};
use clap::{Args, ValueEnum as _};
use e2e::prelude::*;
use e2e::product::binaries;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// Names of a round's namespaces; `--kill-child` ends its processes with it.
const UNSHARE: [&str; 6] = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];

/// Arguments of `cargo bench-flux brokers`.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Numbers of brokers.
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "64,256",
          value_parser = clap::value_parser!(u16).range(2..=4000))]
    count: Vec<u16>,
    /// How often each contender runs with each number.
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: usize,
    /// The contenders; by default all. With --late, the agents alone.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_enum)]
    contenders: Vec<Contender>,
    /// The program of an agent; by default that of this checkout is built.
    #[arg(long, value_name = "PROGRAM")]
    agent: Option<PathBuf>,
    #[command(flatten)]
    setup: Setup,
}

impl Arguments {
    pub(super) fn run(&self) -> Result<ExitCode> {
        let flux = self.setup.flux.join("bin/flux");
        ensure!(
            flux.is_file(),
            "there is no {}: name the directory of a real Flux by --flux",
            flux.display()
        );
        let agent = self.agent.clone().map_or_else(binaries::build_agent, Ok)?;
        let agent = agent.canonicalize().with_context(|| format!("no {}", agent.display()))?;
        let mut all = Vec::new();
        for round in 0..self.rounds {
            for count in &self.count {
                for contender in self.contenders(round) {
                    let measured = self.measure(*count, contender, &agent)?;
                    progress::log(&format!("{count} brokers, {}: {measured:?}", contender.name()));
                    all.push(measured);
                }
            }
        }
        progress::print(&self.text(&all));
        let counts = self.count.iter().map(u16::to_string).collect::<Vec<_>>().join("-");
        let late = self.setup.late.map(|_| "late-").unwrap_or_default();
        let cores = std::thread::available_parallelism().context("counting cores")?.get();
        let setting = json!({ "cores": cores, "rounds": self.rounds, "delay": self.setup.delay,
            "lateSeconds": self.setup.late, "topology": self.setup.topology });
        write(&format!("brokers-{late}{counts}"), &json!({ "setting": setting, "runs": all }))?;
        Ok(ExitCode::SUCCESS)
    }

    /// The contenders of this round: each is the first of every second one.
    fn contenders(&self, round: usize) -> Vec<Contender> {
        let mut all = Contender::value_variants().to_vec();
        all.retain(|it| self.contenders.is_empty() || self.contenders.contains(it));
        all.retain(|it| self.setup.late.is_none() || *it == Contender::Agents);
        if round % 2 == 1 {
            all.reverse();
        }
        all
    }

    /// One start, by a process in namespaces of its own, which end with it.
    fn measure(&self, count: u16, contender: Contender, agent: &Path) -> Result<Measured> {
        let round = Round { count, contender, agent: agent.to_owned(), setup: self.setup.clone() };
        let round = serde_json::to_string(&round).context("describing a round")?;
        let own = std::env::current_exe().context("finding this program")?;
        let mut command = Command::new("unshare");
        command.args(UNSHARE).arg(own).args(["brokers-round", &round]);
        let output = programs::run(&mut command)?;
        serde_json::from_slice(&output.stdout).context("reading what a round has measured")
    }

    /// A row for each number and contender: of each measurement the median, the least and the most.
    fn text(&self, all: &[Measured]) -> String {
        let mut rows = vec![vec!["brokers".to_owned(), String::new()]];
        rows[0].extend(Measured::COLUMNS.map(|(head, _)| head.to_owned()));
        for count in &self.count {
            for contender in self.contenders(0) {
                let same = |it: &&Measured| it.count == *count && it.contender == contender;
                let runs: Vec<_> = all.iter().filter(same).collect();
                let mut row = vec![count.to_string(), contender.name()];
                row.extend(Measured::COLUMNS.map(|(_, value)| {
                    let spread = Spread::of(runs.iter().filter_map(|run| value(run)));
                    spread.map(|it| it.to_string()).unwrap_or_default()
                }));
                rows.push(row);
            }
        }
        table(&rows)
    }
}
