//! `cargo bench-flux start`: how long a MiniCluster takes from its creation to its command's end, beside other ways to
//! run the same.

mod containerd;
mod contender;
mod peers;
mod recording;
mod report;
mod run;

use self::contender::{Contender, RunSpec, first_runs, order};
use self::peers::Peers;
use self::report::{Report, Setting};
use self::run::{MeasuredCluster, Run};
use crate::images;
use crate::results::{cluster, write};
use clap::{Args, ValueEnum as _};
use e2e::cluster::{Cluster, ClusterChoice};
use e2e::interruption::{self, Scope};
use e2e::kubernetes::{DownAtEnd, Nodes};
use e2e::prelude::*;
use e2e::product::binaries::{self, Binaries};
use e2e::product::install::Installation;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `cargo bench-flux start`.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// How often each contender runs.
    #[arg(long, value_name = "N", default_value_t = 7)]
    rounds: usize,
    /// Numbers of pods.
    #[arg(long, value_name = "PODS", value_delimiter = ',', default_value = "4,24",
          value_parser = clap::value_parser!(u32).range(2..))]
    sizes: Vec<u32>,
    /// The contenders; by default all.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_enum)]
    contenders: Vec<Contender>,
    /// A tar of a view, members rooted at `mnt/flux/view`; without it, the stand-in for Flux runs.
    #[arg(long, value_name = "FILE", env = "FLUX_VIEW_ARCHIVE")]
    view_archive: Option<PathBuf>,
    #[command(flatten)]
    peers: Peers,
}

impl Arguments {
    pub(super) fn run(&self) -> Result<ExitCode> {
        let view = self.view();
        let contenders = self.contenders()?;
        let clusters =
            [cluster("bench", Nodes::RealWithDisk)?, cluster("peer", Nodes::RealWithDisk)?];
        interruption::guard(clusters.clone(), Scope::Used)?;
        let _down = clusters.clone().map(DownAtEnd);
        let target = ClusterChoice::Own(clusters[0].clone());
        let built = binaries::build_shipped()?;
        let environment = environment(&target, &built, &view)?;
        let peers = self.peers.start(&contenders, &clusters[1], &built, &view)?;
        let ours = MeasuredCluster::of(environment)?;
        let cores = std::thread::available_parallelism().context("counting cores")?.get();
        let run = |contender: Contender, size, round| {
            let place = match &peers {
                Some((place, _)) if contender.is_of_a_peer() => place,
                _ => &ours,
            };
            let run = place.run(RunSpec { contender, size, view: view.image(), cores }, round)?;
            progress::log(&line_about(&run));
            Ok(run)
        };
        let (first_runs, runs) = self.all_runs(&contenders, run)?;
        let setting = Setting {
            flux: view.describe(),
            cores,
            rounds: self.rounds,
            sizes: self.sizes.clone(),
        };
        let report = Report::new(setting, first_runs, runs);
        progress::print(&report.text());
        write(&self.name_of_results(), &report)?;
        Ok(ExitCode::SUCCESS)
    }

    /// Each contender's first run, with the smallest size, and then all rounds.
    fn all_runs(
        &self,
        contenders: &[Contender],
        run: impl Fn(Contender, u32, usize) -> Result<Run>,
    ) -> Result<(Vec<Run>, Vec<Run>)> {
        progress::log("first runs: files are read from disk, and the nodes have run nothing yet");
        let smallest = self.sizes.iter().copied().min().unwrap_or(2);
        let first_runs = first_runs(contenders).into_iter().map(|it| run(it, smallest, 0));
        let first_runs = first_runs.collect::<Result<_>>()?;
        let mut runs = Vec::new();
        for round in 0..self.rounds {
            progress::log(&format!("round {}", round + 1));
            for size in &self.sizes {
                for contender in order(contenders, round) {
                    runs.push(run(contender, *size, round)?);
                }
            }
        }
        Ok((first_runs, runs))
    }

    fn view(&self) -> View {
        let archive = self.view_archive.clone().filter(|it| !it.as_os_str().is_empty());
        archive.map_or(View::StandIn, View::Archive)
    }

    fn contenders(&self) -> Result<Vec<Contender>> {
        for contender in &self.contenders {
            if let Some(missing) = self.missing(*contender) {
                bail!("the contender {} needs {missing}", contender.name());
            }
        }
        let mut all = Contender::value_variants().to_vec();
        all.retain(|it| self.missing(*it).is_none());
        all.retain(|it| self.contenders.is_empty() || self.contenders.contains(it));
        Ok(all)
    }

    /// What this contender needs and lacks.
    fn missing(&self, contender: Contender) -> Option<&'static str> {
        if contender.is_of_mpi() && !self.view().is_real() {
            return Some("--view-archive: the stand-in starts no program of MPI");
        }
        if !contender.is_of_a_peer() || self.peers.of(contender).is_some() {
            return None;
        }
        Some(if contender.is_of_mpi() { "--peer-mpi-operator" } else { "--peer-operator" })
    }

    fn name_of_results(&self) -> String {
        let sizes = self.sizes.iter().map(u32::to_string).collect::<Vec<_>>().join("-");
        format!("start-{sizes}")
    }
}

/// A cluster with operator and agent as they are shipped, and the images of measurements.
fn environment(target: &ClusterChoice, built: &Binaries, view: &View) -> Result<Environment> {
    let cluster = Cluster::up(target)?;
    let (environment, loaded) = Environment::with_images(cluster, built.clone(), view)?;
    images::load(&environment.cluster, built, view)?;
    let agent_image = images::AGENT_WITH_VIEW.to_owned();
    environment.install(Installation { agent_image, ..loaded })?;
    Ok(environment)
}

fn line_about(run: &Run) -> String {
    let (size, contender) = (run.size, run.contender.name());
    let [end, reported] = [run.end(), run.reported()].map(Option::unwrap_or_default);
    format!(
        "{size} pods, {contender}: end {end:.2}, reported {reported:.2}, work {:.2} s",
        run.processor_seconds
    )
}
