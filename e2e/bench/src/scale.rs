//! `cargo bench-flux scale`: what many MiniClusters, and a large one, cost.
//!
//! The control plane is real. The nodes are simulated, so nothing runs in the pods: the measurement is of the operator,
//! and of Kubernetes with the operator's objects.

mod load;
mod measure;

use self::load::Load;
use crate::operator::OperatorProgram;
use crate::results::{self, cluster, write};
use anyhow::{Context as _, Result};
use clap::Args;
use e2e::cluster::ClusterChoice;
use e2e::environment::Environment;
use e2e::interruption::{self, Scope};
use e2e::kubernetes::{DownAtEnd, Kubernetes, Nodes};
use e2e::product::binaries;
use e2e::progress;
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

/// Arguments of `cargo bench-flux scale`.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Numbers of MiniClusters of four pods, those of a number created at once.
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_value = "10,100,1000")]
    sizes: Vec<u32>,
    /// Pods of the large MiniCluster that comes last; 0 for none.
    #[arg(long, value_name = "PODS", default_value_t = 5000)]
    largest: u32,
}

impl Arguments {
    pub(super) fn run(&self) -> Result<ExitCode> {
        let options = cluster("scale", Nodes::Simulated)?;
        interruption::guard([options.clone()], Scope::Used)?;
        let program = OperatorProgram::ours(binaries::build_shipped()?.operator)?;
        // It begins with nothing in the cluster.
        Kubernetes::down(&options)?;
        let _down = DownAtEnd(options.clone());
        let environment = Environment::as_it_is(&ClusterChoice::Own(options))?;
        program.install(&environment)?;
        let rows = self.rows(&environment, &program)?;
        progress::print(&table(&rows));
        write("scale", &json!({ "rows": rows }))?;
        Ok(ExitCode::SUCCESS)
    }

    /// What many cost, and a large one.
    fn rows(&self, environment: &Environment, program: &OperatorProgram) -> Result<Vec<Value>> {
        environment.run(async |client| {
            let nodes = load::make_nodes(&client, environment, &self.loads()).await?;
            progress::log(&format!("{nodes} simulated nodes are ready"));
            let mut rows = Vec::new();
            for load in self.loads() {
                let row = measure::measure(&client, environment, program, load);
                rows.push(serde_json::to_value(Box::pin(row).await?).context("writing a row")?);
            }
            Ok(rows)
        })
    }

    /// What is created, in order.
    fn loads(&self) -> Vec<Load> {
        let many = self.sizes.iter().map(|number| Load { miniclusters: *number, pods: PODS });
        let large = (self.largest > 0).then_some(Load { miniclusters: 1, pods: self.largest });
        many.chain(large).collect()
    }
}

fn table(rows: &[Value]) -> String {
    let head = COLUMNS.map(|(head, _)| head.to_owned()).to_vec();
    let cells = |row: &Value| COLUMNS.map(|(_, pointer)| cell(row.pointer(pointer))).to_vec();
    results::table(&[head].into_iter().chain(rows.iter().map(cells)).collect::<Vec<_>>())
}

fn cell(value: Option<&Value>) -> String {
    match value {
        Some(Value::Number(number)) if number.is_f64() => {
            format!("{:.1}", number.as_f64().unwrap_or_default())
        }
        other => other.map(Value::to_string).unwrap_or_default(),
    }
}
