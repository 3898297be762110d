//! `bench scale`: what many MiniClusters, and a large one, cost.
//!
//! The control plane is real. The nodes are simulated, so nothing runs in the pods: what is measured is
//! what the operator does, and what Kubernetes does with the objects that it makes.

mod contender;
mod load;
mod measure;
mod observed;

use std::{path::PathBuf, process::ExitCode};

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use self::{contender::Contender, load::Load, measure::Figures};
use super::{Common, table::render};
use crate::{
    cache::Cache,
    cluster::Target,
    environment::Environment,
    interruption::{self, Scope},
    kubernetes::{ClusterId, DownAtEnd, Kubernetes, KubernetesVersion, Network, Nodes, Options},
    product::binaries,
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
    /// This operator's program; by default it is built as it is released.
    #[arg(long, value_name = "FILE")]
    operator: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

impl Arguments {
    /// Measures, and writes what was found.
    pub(super) fn run(&self) -> Result<ExitCode> {
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
        let mut report = Report { rows: Vec::new() };
        let ours = match &self.operator {
            Some(program) => program.clone(),
            None => binaries::build_for_release(&progress)?,
        };
        let peer = self.common.peer().map(Contender::peer).transpose()?;
        for contender in [Contender::ours(ours)?].into_iter().chain(peer) {
            // Each begins with nothing in the cluster.
            Kubernetes::down(&options)?;
            let _down = DownAtEnd(options.clone());
            let environment = Environment::as_it_is(&target, &progress)?;
            contender.install(&environment)?;
            environment.run(async |client| {
                let nodes = load::make_nodes(&client, &self.loads()).await?;
                progress.say(&format!("{nodes} simulated nodes are ready"));
                for load in self.loads() {
                    let figures =
                        measure::measure(&client, &environment, &contender, load, &progress);
                    let Load { miniclusters, pods } = load;
                    let figures = Box::pin(figures).await?;
                    report.rows.push(Row {
                        contender: contender.name,
                        miniclusters,
                        pods,
                        figures,
                    });
                }
                Ok(())
            })?;
        }
        progress::print(&report.text());
        self.common.write("scale", &report, &progress)?;
        Ok(ExitCode::SUCCESS)
    }

    /// What is created, in order.
    fn loads(&self) -> Vec<Load> {
        let many = self.sizes.iter().map(|number| Load { miniclusters: *number, pods: PODS });
        let large = (self.largest > 0).then_some(Load { miniclusters: 1, pods: self.largest });
        many.chain(large).collect()
    }
}

/// All that was measured.
#[derive(Debug, Serialize)]
struct Report {
    rows: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    contender: &'static str,
    miniclusters: u32,
    pods: u32,
    #[serde(flatten)]
    figures: Figures,
}

impl Report {
    /// A row for each measurement.
    fn text(&self) -> String {
        let heads = [
            "all Jobs after",
            "all Complete after",
            "all MiniClusters say so after",
            "processor ms each",
            "requests each",
            "writes each",
            "resident before, after, peak (MiB)",
        ];
        render(&heads, &self.rows.iter().map(Row::cells).collect::<Vec<_>>())
    }
}

impl Row {
    fn cells(&self) -> (String, Vec<String>) {
        let Figures { times, memory_before, memory_after, .. } = &self.figures;
        let seconds = |seconds: f64| format!("{seconds:.1} s");
        let each = |sum: f64| format!("{:.1}", sum / f64::from(self.miniclusters));
        let memory = [memory_before.resident, memory_after.resident, memory_after.peak];
        let cells = vec![
            seconds(times.jobs),
            seconds(times.complete),
            times.reported.map(seconds).unwrap_or_default(),
            each(self.figures.processor_seconds * 1000.0),
            each(as_number(self.figures.requests.values().sum())),
            each(as_number(self.figures.writes)),
            memory.map(|bytes| (bytes >> 20).to_string()).join(", "),
        ];
        (format!("{}, {} x {} pods", self.contender, self.miniclusters, self.pods), cells)
    }
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn as_number(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::{measure::Figures, observed::Times, *};
    use crate::bench::operator::Memory;

    #[test]
    fn the_table_has_a_row_for_each_measurement() {
        let figures = Figures {
            created_seconds: 0.1,
            times: Times { jobs: 17.8, complete: 27.5, reported: None },
            processor_seconds: 2.1,
            memory_before: Memory { resident: 16 << 20, anonymous: 8 << 20, peak: 17 << 20 },
            memory_after: Memory { resident: 18 << 20, anonymous: 9 << 20, peak: 19 << 20 },
            requests: [("get jobs".to_owned(), 800), ("create jobs".to_owned(), 1250)].into(),
            writes: 1250,
        };
        let row = Row { contender: "this operator", miniclusters: 100, pods: 4, figures };
        let (name, cells) = row.cells();
        assert_eq!(name, "this operator, 100 x 4 pods");
        assert_eq!(cells, ["17.8 s", "27.5 s", "", "21.0", "20.5", "12.5", "16, 18, 19"]);
        let text = Report { rows: vec![row] }.text();
        assert_eq!(text.lines().count(), 3, "{text}");
    }
}
