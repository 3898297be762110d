//! `bench lead`: many agents that wait for one lead's port.
//!
//! The agents are real processes, as the workers of one MiniCluster: all ask one port, which nobody
//! listens at for a while. The lead is a server that completes the handshake and does nothing else.

mod agents;
mod counters;
mod figures;
mod server;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use nix::sched::{CloneFlags, unshare};
use tokio::task::LocalSet;

use self::{
    agents::Pods,
    counters::Counters,
    figures::{Ended, Figures, Opening, Sample},
    server::Lead,
};
use crate::{
    product::{binaries, checkout},
    programs,
    progress::{self, Progress},
};

/// Between two looks at the kernel's counters.
const SAMPLE: Duration = Duration::from_millis(20);
/// How long the agents may wait once the port is open.
const PATIENCE: Duration = Duration::from_mins(3);

/// What `bench lead` is asked for.
#[derive(Debug, Args)]
pub struct Arguments {
    /// How many agents wait.
    #[arg(long, value_name = "NUMBER", default_value_t = 500)]
    agents: u32,
    /// Seconds after the last agent's start when the port opens; a measurement for each.
    #[arg(long, value_name = "SECONDS", value_delimiter = ',', default_value = "0,2,10")]
    opens_after: Vec<u64>,
    /// Where the results are written; by default docs/performance of this checkout.
    #[arg(long, value_name = "DIRECTORY")]
    output: Option<PathBuf>,
}

impl Arguments {
    /// Measures, and writes what was found.
    pub fn run(&self) -> Result<ExitCode> {
        let progress = Progress::new();
        let agent = binaries::build_agent(&progress)?;
        let mut all = Vec::new();
        for seconds in &self.opens_after {
            let delay = Duration::from_secs(*seconds);
            let measure = || in_own_network(|| measure(&agent, self.agents, delay));
            let what = format!("{} agents, the port opens after {seconds} s", self.agents);
            all.push(progress.step(&what, measure)?);
        }
        progress::print(&figures::table(&all));
        let output = match &self.output {
            Some(directory) => directory.clone(),
            None => checkout()?.join("docs/performance"),
        };
        std::fs::create_dir_all(&output).with_context(|| format!("making {}", output.display()))?;
        let path = output.join("lead.json");
        let text = serde_json::to_string_pretty(&all).context("writing the figures down")?;
        std::fs::write(&path, text + "\n")
            .with_context(|| format!("writing {}", path.display()))?;
        progress.say(&format!("written to {}", path.display()));
        Ok(ExitCode::SUCCESS)
    }
}

/// Runs `body` on a thread with a network of its own: nothing else connects there.
fn in_own_network<T: Send>(body: impl AsyncFnOnce() -> Result<T> + Send) -> Result<T> {
    let work = || {
        unshare(CloneFlags::CLONE_NEWNET).context("making a network, which takes root")?;
        programs::run(std::process::Command::new("ip").args(["link", "set", "lo", "up"]))?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("starting a runtime")?;
        LocalSet::new().block_on(&runtime, body())
    };
    std::thread::scope(|scope| match scope.spawn(work).join() {
        Ok(outcome) => outcome,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

/// Starts `count` agents, opens the port `delay` after the last of them, and waits until all have ended.
async fn measure(agent: &Path, count: u32, delay: Duration) -> Result<Figures> {
    let pods = Pods::new(count)?;
    let begun = Instant::now();
    let before = Counters::now()?;
    let mut agents = pods.start(agent)?;
    let started = begun.elapsed();
    let mut samples = Vec::new();
    let mut opened = None;
    let mut ends = Vec::new();
    let mut ticks = tokio::time::interval(SAMPLE);
    while ends.len() < usize::try_from(count)? {
        tokio::select! {
            Some(ended) = agents.join_next() => {
                let let_in = ended.context("waiting for an agent")??;
                ends.push(Ended { at: begun.elapsed(), let_in });
            }
            _ = ticks.tick() => {
                samples.push(Sample { at: begun.elapsed(), counters: Counters::now()?.since(&before) });
            }
        }
        if opened.is_none() && begun.elapsed() >= started + delay {
            opened = Some((Lead::open(pods.certificate()).await?, begun.elapsed()));
        }
        if begun.elapsed() > started + delay + PATIENCE {
            bail!("{} of {count} agents have ended", ends.len());
        }
    }
    let (lead, opened) = opened.context("all agents have ended before the port was open")?;
    let opening = Opening { started, delay, opened };
    Ok(Figures::new(opening, &samples, &ends, lead.let_in()))
}
