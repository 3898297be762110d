//! `bench scale`: what many MiniClusters, and a large one, cost.
//!
//! The control plane is real. The nodes are simulated, so nothing runs in the pods: what is measured is
//! what the operator does, and what Kubernetes does with the objects that it makes.

mod contender;
mod manifest;
mod measure;
mod nodes;
mod process;
mod report;
mod requests;

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context as _, Result};
use clap::Args;

use self::{contender::Contender, manifest::Load, report::Report};
use crate::{
    cache::Cache,
    cluster::Target,
    environment::Environment,
    interruption::{self, Scope},
    kubernetes::{ClusterId, DownAtEnd, Kubernetes, KubernetesVersion, Network, Nodes, Options},
    product::{binaries, checkout},
    progress::{self, Progress},
};

/// Pods of each of many MiniClusters.
const PODS: u32 = 4;

/// What `bench scale` is asked for.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Numbers of MiniClusters of four pods, those of a number created at once.
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_value = "10,100,1000")]
    sizes: Vec<u32>,
    /// Pods of the large MiniCluster that comes last; 0 for none.
    #[arg(long, value_name = "PODS", default_value_t = 5000)]
    largest: u32,
    /// Where the results are written; by default docs/performance of this checkout.
    #[arg(long, value_name = "DIRECTORY")]
    output: Option<PathBuf>,
    /// This operator's program; by default it is built as it is released.
    #[arg(long, value_name = "FILE")]
    operator: Option<PathBuf>,
    /// The Go operator's program; without it, the Go operator is not measured.
    #[arg(long, value_name = "FILE", env = "PEER_OPERATOR", requires = "peer_crd")]
    peer_operator: Option<PathBuf>,
    /// The file of its definition of MiniClusters.
    #[arg(long, value_name = "FILE", env = "PEER_CRD", requires = "peer_operator")]
    peer_crd: Option<PathBuf>,
}

impl Arguments {
    /// Measures, and writes what was found.
    pub fn run(&self) -> Result<ExitCode> {
        let progress = Progress::new();
        let options = Options {
            cache: Cache::locate()?,
            id: ClusterId::beside_that_of_this_checkout("scale")?,
            network: Network::default(),
            version: KubernetesVersion::default(),
            nodes: Nodes::Simulated,
        };
        let target = Target::Own(options.clone());
        interruption::guard(&target, Scope::Target)?;
        let mut report = Report::default();
        let peer = self.peer_operator.as_deref().zip(self.peer_crd.as_deref());
        let ours = match &self.operator {
            Some(program) => program.clone(),
            None => binaries::build_for_release(&progress)?,
        };
        for contender in Contender::all(ours, peer)? {
            // Each begins with nothing in the cluster.
            Kubernetes::down(&options)?;
            let _down = DownAtEnd(options.clone());
            let environment = Environment::as_it_is(&target, &progress)?;
            contender.install(&environment)?;
            environment.run(async |client| {
                nodes::make(&client, nodes::needed(&self.loads()), &progress).await?;
                for load in self.loads() {
                    let figures =
                        measure::measure(&client, &environment, &contender, &load, &progress);
                    report.add(contender.name, load, Box::pin(figures).await?);
                }
                Ok(())
            })?;
        }
        progress::print(&report.text());
        let output = match &self.output {
            Some(directory) => directory.clone(),
            None => checkout()?.join("docs/performance"),
        };
        report.write(&output).with_context(|| format!("writing to {}", output.display()))?;
        progress.say(&format!("written to {}", output.display()));
        Ok(ExitCode::SUCCESS)
    }

    /// What is created, in order.
    fn loads(&self) -> Vec<Load> {
        let many = self.sizes.iter().map(|number| Load { miniclusters: *number, pods: PODS });
        let large = (self.largest > 0).then_some(Load { miniclusters: 1, pods: self.largest });
        many.chain(large).collect()
    }
}
