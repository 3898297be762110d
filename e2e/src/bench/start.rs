//! `bench start`: how long a MiniCluster takes from its creation to its command's end, beside other ways to
//! run the same.

mod containerd;
mod contender;
mod recording;
mod report;
mod run;

use self::contender::{Contender, Wanted, order};
use self::recording::POD_ENDED;
use self::report::Report;
use self::run::{Place, Run};
use super::operator::{Operator, OperatorProgram};
use super::{cluster, write};
use crate::cluster::Target;
use crate::environment::Environment;
use crate::interruption::{self, Scope};
use crate::kubernetes::{DownAtEnd, Network, Nodes, Options};
use crate::product::view::View;
use crate::progress::{self, Progress};
use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum as _};
use std::path::PathBuf;
use std::process::ExitCode;

/// What `bench start` is asked for.
#[derive(Debug, Args)]
pub struct Arguments {
    /// How often each contender runs.
    #[arg(long, value_name = "N", default_value_t = 7)]
    rounds: usize,
    /// Numbers of pods.
    #[arg(long, value_name = "PODS", value_delimiter = ',', default_value = "4,24",
          value_parser = clap::value_parser!(u32).range(2..))]
    sizes: Vec<u32>,
    /// Who runs; by default all.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_enum)]
    contenders: Vec<Contender>,
    /// A tar of a view, members rooted at `mnt/flux/view`; without it, the stand-in for Flux runs.
    #[arg(long, value_name = "FILE", env = "FLUX_VIEW_ARCHIVE")]
    view_archive: Option<PathBuf>,
    /// For how long the cluster's DNS answers from a cache; 0: it has none.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    dns_cache: u32,
    /// The Go operator's program; without it, the Go operator is not measured.
    #[arg(long, value_name = "FILE", env = "PEER_OPERATOR", requires = "peer_crd")]
    peer_operator: Option<PathBuf>,
    /// The file of the Go operator's CRD.
    #[arg(long, value_name = "FILE", env = "PEER_CRD", requires = "peer_operator")]
    peer_crd: Option<PathBuf>,
}

impl Arguments {
    pub(super) fn run(&self) -> Result<ExitCode> {
        let progress = Progress::new();
        let archive = self.view_archive.clone().filter(|it| !it.as_os_str().is_empty());
        let view = archive.map_or(View::StandIn, View::Archive);
        let contenders = self.contenders()?;
        let network = || Network { dns_cache: self.dns_cache, ..Network::default() };
        let clusters = [
            cluster("bench", Nodes::RealWithDisk, network())?,
            cluster("peer", Nodes::RealWithDisk, network())?,
        ];
        interruption::guard(clusters.clone(), Scope::Target)?;
        let _down = clusters.clone().map(DownAtEnd);
        let target = Target::Own(clusters[0].clone());
        let environment = Environment::to_measure(&target, &view, &progress)?;
        let peer = self.beside(&environment, &clusters[1], &view, &progress)?;
        let ours = Place::of(environment)?;
        let cores = std::thread::available_parallelism().context("counting cores")?.get();
        let mut report = Report {
            flux: view.describe(),
            cores,
            dns_cache_seconds: self.dns_cache,
            rounds: self.rounds,
            sizes: self.sizes.clone(),
            runs: Vec::new(),
        };
        let run = |contender, size, round| {
            let place = match &peer {
                Some((place, _)) if contender == Contender::Peer => place,
                _ => &ours,
            };
            place.run(Wanted { contender, size, view: view.image(), cores }, round)
        };
        progress.say("each contender runs once unmeasured: its files are read from disk then");
        for contender in contenders.iter().copied() {
            run(contender, self.sizes.iter().copied().min().unwrap_or(2), 0)?;
        }
        for round in 0..self.rounds {
            for size in &self.sizes {
                for contender in order(&contenders, round) {
                    let run = run(contender, *size, round)?;
                    progress.say(&line_about(&run));
                    report.runs.push(run);
                }
            }
        }
        progress::print(&report.text());
        write(&self.name_of_results(), &report, &progress)?;
        Ok(ExitCode::SUCCESS)
    }

    /// The Go operator, if there is one, in a cluster of its own beside ours.
    fn beside(
        &self,
        ours: &Environment,
        cluster: &Options,
        view: &View,
        progress: &Progress,
    ) -> Result<Option<(Place, Operator)>> {
        let Some((program, definition)) = self.peer() else { return Ok(None) };
        let program = OperatorProgram::peer(program, definition)?;
        let environment = ours.beside(&Target::Own(cluster.clone()), view, progress)?;
        program.install(&environment)?;
        let operator = environment.run(async |_| program.start(&environment))?;
        Ok(Some((Place::of(environment)?, operator)))
    }

    fn peer(&self) -> Option<(&PathBuf, &PathBuf)> {
        self.peer_operator.as_ref().zip(self.peer_crd.as_ref())
    }

    fn contenders(&self) -> Result<Vec<Contender>> {
        let mut all = Contender::value_variants().to_vec();
        if self.peer().is_none() {
            if self.contenders.contains(&Contender::Peer) {
                bail!("the Go operator needs --peer-operator and --peer-crd");
            }
            all.retain(|it| *it != Contender::Peer);
        }
        all.retain(|it| self.contenders.is_empty() || self.contenders.contains(it));
        Ok(all)
    }

    fn name_of_results(&self) -> String {
        let sizes = self.sizes.iter().map(u32::to_string).collect::<Vec<_>>().join("-");
        match self.dns_cache {
            0 => format!("start-{sizes}"),
            seconds => format!("start-{sizes}-dns-cache-{seconds}"),
        }
    }
}

fn line_about(run: &Run) -> String {
    let (round, size, contender) = (run.round + 1, run.size, run.contender.name());
    let seconds = run.milestones.get(POD_ENDED).copied().unwrap_or_default();
    format!("round {round}, {size} pods, {contender}: {seconds:.2} s")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory as _, Parser};

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    #[test]
    fn who_runs_can_be_chosen_and_needs_what_it_needs() {
        Line::command().debug_assert();
        let Line { arguments } = Line::try_parse_from(["start"]).unwrap();
        assert_eq!((arguments.rounds, arguments.sizes), (7, vec![4, 24]));
        assert!(Line::try_parse_from(["start", "--sizes", "0"]).is_err());
        let chosen = |names| {
            Line::try_parse_from(["start", "--contenders", names]).unwrap().arguments.contenders()
        };
        assert_eq!(chosen("mounted,bare").unwrap(), [Contender::Bare, Contender::Mounted]);
        let missing = chosen("mounted,peer").unwrap_err().to_string();
        assert_eq!(missing, "the Go operator needs --peer-operator and --peer-crd");
    }
}
