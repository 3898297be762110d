//! `bench start`: how long a MiniCluster takes from its creation to its command's end, beside other ways to
//! run the same.

mod contender;
mod objects;
mod peer;
mod processor;
mod recording;
mod report;
mod run;
mod runtime;
mod statistics;

use std::{fs, path::PathBuf, process::ExitCode};

use anyhow::{Context as _, Result, bail};
use clap::Args;

use self::{
    contender::{Contender, Start, order},
    objects::Wanted,
    peer::{Peer, PeerArguments},
    recording::Milestone,
    report::Report,
    run::{Measured, Place, Run, clean},
    runtime::Runtime,
};
use crate::{
    cache::Cache,
    cluster::Target,
    environment::Environment,
    interruption::{self, Scope},
    kubernetes::{ClusterId, DownAtEnd, KubernetesVersion, Network, Nodes, Options},
    product::{checkout, images::View},
    progress::{self, Progress},
    trial::evidence::keep_evidence,
};

/// Name of the Job and the MiniCluster.
const NAME: &str = "bench";
/// Where results are kept, below the checkout.
const OUTPUT: &str = "docs/performance";

/// What `bench start` is asked for.
#[derive(Debug, Args)]
pub struct Arguments {
    /// How often each contender runs.
    #[arg(long, value_name = "N", default_value_t = 7)]
    rounds: usize,
    /// Numbers of pods.
    #[arg(long, value_name = "PODS", value_delimiter = ',', default_value = "4,24",
          value_parser = clap::value_parser!(u32).range(1..))]
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
    /// Measure the operator as tests have it, which is built sooner and slower, to try this out.
    #[arg(long)]
    development_build: bool,
    /// Where the results are written; by default docs/performance of this checkout.
    #[arg(long, value_name = "DIRECTORY")]
    output: Option<PathBuf>,
    #[command(flatten)]
    peer: PeerArguments,
}

impl Arguments {
    /// Measures, and writes what was found.
    pub fn run(&self) -> Result<ExitCode> {
        let progress = Progress::new();
        let view = match self.view_archive.as_ref().filter(|it| !it.as_os_str().is_empty()) {
            Some(archive) => View::Archive(archive.clone()),
            None => View::StandIn,
        };
        let clusters = [self.cluster("bench")?, self.cluster("peer")?];
        interruption::guard_clusters(clusters.to_vec(), Scope::Target)?;
        let _down = clusters.clone().map(DownAtEnd);
        let bench = self.prepare(&view, &clusters, &progress)?;
        let mut report = Report {
            flux: described(&view),
            operator: if self.development_build { "as tests have it" } else { "as it is released" },
            cores: bench.cores,
            dns_cache_seconds: self.dns_cache,
            rounds: self.rounds,
            sizes: self.sizes.clone(),
            runs: Vec::new(),
        };
        progress.say("each contender runs once unmeasured: its files are read from disk then");
        for contender in bench.contenders.iter().copied() {
            let size = self.sizes.iter().copied().min().unwrap_or(1);
            bench.run(contender, size, 0, &[Start::First], &progress)?;
        }
        for round in 0..self.rounds {
            for size in &self.sizes {
                for contender in order(&bench.contenders, round) {
                    report.runs.extend(bench.run(
                        contender,
                        *size,
                        round,
                        &Start::BOTH,
                        &progress,
                    )?);
                }
            }
        }
        progress::print(&report.text());
        self.write(&report, &progress)?;
        Ok(ExitCode::SUCCESS)
    }

    fn prepare(
        &self,
        view: &View,
        [own, beside]: &[Options; 2],
        progress: &Progress,
    ) -> Result<Bench> {
        let (target, released) = (Target::Own(own.clone()), !self.development_build);
        let environment = Environment::to_measure(&target, view, released, progress)?;
        environment.load_images_of_benches(view, progress)?;
        let peer = match self.peer.files() {
            None => None,
            Some(files) => {
                let other = environment.beside(&Target::Own(beside.clone()), progress)?;
                other.load_images_of_benches(view, progress)?;
                let peer = Peer::start(&other, files, progress)?;
                Some((Place { runtime: Runtime::listen(&other)?, environment: other }, peer))
            }
        };
        let own = Place { runtime: Runtime::listen(&environment)?, environment };
        let cores = std::thread::available_parallelism().context("counting cores")?.get();
        let contenders = self.contenders(peer.is_some())?;
        Ok(Bench { own, peer, view: view.clone(), cores, contenders })
    }

    /// Who runs, where the Go operator can be `with_peer`.
    fn contenders(&self, with_peer: bool) -> Result<Vec<Contender>> {
        let mut all = Contender::all(with_peer);
        if let Some(missing) = self.contenders.iter().find(|it| !all.contains(it)) {
            bail!("{} needs --peer-operator and --peer-crd", missing.name());
        }
        all.retain(|it| self.contenders.is_empty() || self.contenders.contains(it));
        Ok(all)
    }

    fn cluster(&self, purpose: &str) -> Result<Options> {
        let network = Network { dns_cache: self.dns_cache, ..Network::default() };
        let id = ClusterId::beside_that_of_this_checkout(purpose)?;
        let version = KubernetesVersion::default();
        Ok(Options { cache: Cache::locate()?, id, network, version, nodes: Nodes::RealWithDisk })
    }

    fn write(&self, report: &Report, progress: &Progress) -> Result<()> {
        let directory = match &self.output {
            Some(directory) => directory.clone(),
            None => checkout()?.join(OUTPUT),
        };
        fs::create_dir_all(&directory)
            .with_context(|| format!("making {}", directory.display()))?;
        let sizes = self.sizes.iter().map(u32::to_string).collect::<Vec<_>>().join("-");
        let name = match self.dns_cache {
            0 => format!("start-{sizes}"),
            seconds => format!("start-{sizes}-dns-cache-{seconds}"),
        };
        let document = serde_json::to_string_pretty(report).context("writing the results")?;
        for (kind, text) in [("json", document + "\n"), ("md", report.text())] {
            let path = directory.join(format!("{name}.{kind}"));
            fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
            progress.say(&format!("written: {}", path.display()));
        }
        Ok(())
    }
}

/// Everything the contenders need.
struct Bench {
    own: Place,
    peer: Option<(Place, Peer)>,
    view: View,
    cores: usize,
    contenders: Vec<Contender>,
}

impl Bench {
    fn place(&self, contender: Contender) -> &Place {
        match &self.peer {
            Some((place, _)) if contender == Contender::Peer => place,
            _ => &self.own,
        }
    }

    /// In a new namespace, as often as there are `starts`, each time under the same name.
    fn run(
        &self,
        contender: Contender,
        size: u32,
        round: usize,
        starts: &[Start],
        progress: &Progress,
    ) -> Result<Vec<Run>> {
        let place = self.place(contender);
        let view = self.view.image();
        let wanted = Wanted { contender, name: NAME, size, view, cores: self.cores };
        place.environment.run(async |client| {
            let trial = Place::namespace(&client).await?;
            let mut runs = Vec::new();
            for start in starts.iter().copied() {
                let measured = match place.run(&trial, wanted).await {
                    Ok(measured) => measured,
                    Err(error) => {
                        let what = format!("{}, {size} pods", contender.name());
                        bail!("{what}: {error:#}\n{}", keep_evidence(&trial).await);
                    }
                };
                let run = Run { contender, size, round, start, measured };
                progress.say(&line_about(&run));
                runs.push(run);
            }
            clean(trial).await?;
            Ok(runs)
        })
    }
}

/// Which Flux runs, without the place of its archive: results are for others, too.
fn described(view: &View) -> String {
    match view {
        View::Archive(path) => {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            format!("Flux: the view archive {name}")
        }
        View::StandIn | View::Image(_) | View::Published => view.describe(),
    }
}

/// One line about a run.
fn line_about(run: &Run) -> String {
    let Measured { milestones, processor_seconds } = &run.measured;
    let seconds = |milestone| milestones.get(&milestone).copied().unwrap_or_default();
    format!(
        "round {}, {} pods, {}, {}: {:.2} s, Complete after {:.2} s, {processor_seconds:.2} s of processors",
        run.round + 1,
        run.size,
        run.contender.name(),
        run.start.name(),
        seconds(Milestone::PodEnded),
        seconds(Milestone::Complete),
    )
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser};

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    #[test]
    fn the_options_make_sense_together() {
        Line::command().debug_assert();
        let Line { arguments } = Line::try_parse_from(["start"]).unwrap();
        assert_eq!((arguments.rounds, arguments.sizes), (7, vec![4, 24]));
        assert!(Line::try_parse_from(["start", "--sizes", "0"]).is_err());
    }

    #[test]
    fn who_runs_can_be_chosen_and_needs_what_it_needs() {
        let chosen = |names| {
            let line = Line::try_parse_from(["start", "--contenders", names]).unwrap();
            line.arguments.contenders(false)
        };
        assert_eq!(chosen("mounted,bare").unwrap(), [Contender::Bare, Contender::Mounted]);
        let missing = chosen("mounted,peer").unwrap_err().to_string();
        assert_eq!(missing, "the Go operator needs --peer-operator and --peer-crd");
    }

    #[test]
    fn results_do_not_tell_where_the_view_was() {
        assert_eq!(
            described(&View::Archive("/a/view.tar".into())),
            "Flux: the view archive view.tar"
        );
    }
}
