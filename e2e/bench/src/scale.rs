//! `cargo bench-flux scale`: what many MiniClusters, and a large one, cost.
//!
//! The control plane is real. The nodes are simulated, so nothing runs in the pods: what is measured is
//! what the operator does, and what Kubernetes does with the objects that it makes.

mod growth;
mod load;
mod measure;

use self::load::Load;
use super::operator::OperatorProgram;
use super::{cluster, write};
use anyhow::{Context as _, Result};
use clap::Args;
use e2e::cluster::ClusterChoice;
use e2e::environment::Environment;
use e2e::interruption::{self, Scope};
use e2e::kubernetes::{DownAtEnd, Kubernetes, Nodes};
use e2e::product::binaries;
use e2e::progress::{self, Progress};
use serde_json::{Value, json};
use std::process::ExitCode;

const PODS: u32 = 4;

/// Head and place in a measurement's document of each column of the table.
const COLUMNS: [(&str, &str); 10] = [
    ("MiniClusters", "/miniclusters"),
    ("pods of each", "/pods"),
    ("s to all Jobs", "/jobs_seconds"),
    ("s to all Complete", "/complete_seconds"),
    ("processor ms each", "/processor_milliseconds_each"),
    ("requests each", "/requests_each"),
    ("writes each", "/writes_each"),
    ("resident MiB before", "/memory_before_mib/resident"),
    ("after", "/memory_after_mib/resident"),
    ("peak", "/memory_after_mib/peak"),
];

/// The same of those that grow.
const GROWTH_COLUMNS: [(&str, &str); 4] = [
    ("to pods", "/pods"),
    ("s to the Job", "/job_seconds"),
    ("s to the first pod", "/first_seconds"),
    ("s to all pods", "/made_seconds"),
];

/// Arguments of `cargo bench-flux scale`.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Numbers of MiniClusters of four pods, those of a number created at once.
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_value = "10,100,1000")]
    sizes: Vec<u32>,
    /// Pods of the large MiniCluster that comes last; 0 for none.
    #[arg(long, value_name = "PODS", default_value_t = 5000)]
    largest: u32,
    /// Measure instead how long a MiniCluster with `autoscale` takes to these sizes, from the time that its queue needs them
    #[arg(
        long,
        value_name = "SIZES",
        value_delimiter = ',',
        num_args = 0..,
        default_missing_value = "10,100,1000",
        conflicts_with_all = ["sizes", "largest"]
    )]
    growth: Vec<u32>,
}

impl Arguments {
    pub(super) fn run(&self) -> Result<ExitCode> {
        let progress = Progress::new();
        let options = cluster("scale", Nodes::Simulated)?;
        interruption::guard([options.clone()], Scope::Used)?;
        let program = OperatorProgram::ours(binaries::build_shipped(&progress)?.operator)?;
        // It begins with nothing in the cluster.
        Kubernetes::down(&options)?;
        let _down = DownAtEnd(options.clone());
        let environment = Environment::as_it_is(&ClusterChoice::Own(options), &progress)?;
        program.install(&environment)?;
        let (name, columns, rows) = if self.growth.is_empty() {
            ("scale", &COLUMNS[..], self.load_rows(&environment, &program, &progress))
        } else {
            ("growth", &GROWTH_COLUMNS[..], self.growth_rows(&environment, &program, &progress))
        };
        let rows = rows?;
        progress::print(&table(columns, &rows));
        write(name, &json!({ "rows": rows }), &progress)?;
        Ok(ExitCode::SUCCESS)
    }

    /// What many cost, and a large one.
    fn load_rows(
        &self,
        environment: &Environment,
        program: &OperatorProgram,
        progress: &Progress,
    ) -> Result<Vec<Value>> {
        environment.run(async |client| {
            let nodes = load::make_nodes(&client, environment, &self.loads()).await?;
            progress.log(&format!("{nodes} simulated nodes are ready"));
            let mut rows = Vec::new();
            for load in self.loads() {
                let row = measure::measure(&client, environment, program, load, progress);
                rows.push(serde_json::to_value(Box::pin(row).await?).context("writing a row")?);
            }
            Ok(rows)
        })
    }

    /// How long growth takes.
    fn growth_rows(
        &self,
        environment: &Environment,
        program: &OperatorProgram,
        progress: &Progress,
    ) -> Result<Vec<Value>> {
        let loads: Vec<Load> =
            self.growth.iter().map(|pods| Load { miniclusters: 1, pods: *pods }).collect();
        environment.run(async |client| {
            load::make_nodes(&client, environment, &loads).await?;
            let rows = growth::measure(&client, environment, program, &self.growth, progress);
            let rows = Box::pin(rows).await?.into_iter();
            rows.map(|row| serde_json::to_value(row).context("writing a row")).collect()
        })
    }

    /// What is created, in order.
    fn loads(&self) -> Vec<Load> {
        let many = self.sizes.iter().map(|number| Load { miniclusters: *number, pods: PODS });
        let large = (self.largest > 0).then_some(Load { miniclusters: 1, pods: self.largest });
        many.chain(large).collect()
    }
}

fn table(columns: &[(&str, &str)], rows: &[Value]) -> String {
    let head = columns.iter().map(|(head, _)| (*head).to_owned()).collect();
    let cells =
        |row: &Value| columns.iter().map(|(_, pointer)| cell(row.pointer(pointer))).collect();
    super::table(&[head].into_iter().chain(rows.iter().map(cells)).collect::<Vec<_>>())
}

fn cell(value: Option<&Value>) -> String {
    match value {
        Some(Value::Number(number)) if number.is_f64() => {
            format!("{:.1}", number.as_f64().unwrap_or_default())
        }
        other => other.map(Value::to_string).unwrap_or_default(),
    }
}
