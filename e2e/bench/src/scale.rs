//! `cargo bench-flux scale`: what many MiniClusters, and a large one, cost.
//!
//! The control plane is real. The nodes are simulated, so nothing runs in the pods: the measurement is of the operator,
//! and of Kubernetes with the operator's objects.

mod finished;
mod load;
mod measure;
mod queued;
mod restart;

use self::load::{Bench, Load};
use self::queued::SERVICE_RANGE;
use crate::operator::OperatorProgram;
use crate::results::{self, cluster, write};
use clap::Args;
use e2e::cluster::ClusterChoice;
use e2e::interruption::{self, Scope};
use e2e::kubernetes::{DownAtEnd, Kubernetes, Nodes};
use e2e::prelude::*;
use e2e::product::binaries;

const PODS: u32 = 4;
/// How many MiniClusters are measured beside finished ones.
const BESIDE_FINISHED: u32 = 500;
/// Head and place in a measurement's document of each column of the table.
const COLUMNS: [(&str, &str); 11] = [
    ("finished before", "/finished"),
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
    /// Numbers of MiniClusters of four pods, those of a number created at once; by default 10, 100 and 1000, and none
    /// with an option below.
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    sizes: Option<Vec<u32>>,
    /// Pods of the large MiniCluster that comes last; by default 5000, and 0 (none) with an option below.
    #[arg(long, value_name = "PODS")]
    largest: Option<u32>,
    /// Measures 500 MiniClusters of four pods beside none, and again beside so many finished ones.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    finished: u32,
    /// Measures the start of an operator among so many finished MiniClusters.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    restart: u32,
    /// Measures this program in the place of the operator as it is shipped.
    #[arg(long, value_name = "PROGRAM")]
    operator: Option<PathBuf>,
    /// Counts the addresses that so many suspended MiniClusters take of a Service range of /20.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    queued: u32,
}

impl Arguments {
    pub(super) fn run(&self) -> Result<ExitCode> {
        let mut options = cluster("scale", Nodes::Simulated)?;
        options.network.service_range = Some(SERVICE_RANGE);
        interruption::guard([options.clone()], Scope::Used)?;
        let program = match &self.operator {
            Some(program) => program.clone(),
            None => binaries::build_shipped()?.operator,
        };
        let program = OperatorProgram::ours(program)?;
        // It begins with nothing in the cluster.
        Kubernetes::down(&options)?;
        let _down = DownAtEnd(options.clone());
        let environment = Environment::as_it_is(&ClusterChoice::Own(options))?;
        program.install(&environment)?;
        let bench = Bench { environment: &environment, program: &program };
        let (rows, others) = environment.run(async |client| self.measure(&client, bench).await)?;
        progress::print(&table(&rows));
        for other in &others {
            progress::print(&format!("{other}\n"));
        }
        write(
            if self.is_usual() { "scale" } else { "scale-many" },
            &json!({ "rows": rows, "others": others }),
        )?;
        Ok(ExitCode::SUCCESS)
    }

    fn is_usual(&self) -> bool {
        self.finished + self.restart + self.queued == 0
    }

    /// Rows of the table, and what is no row of it.
    async fn measure(&self, client: &Client, bench: Bench<'_>) -> Result<(Vec<Value>, Vec<Value>)> {
        let nodes = load::make_nodes(client, bench.environment, &self.loads()).await?;
        progress::log(&format!("{nodes} simulated nodes are ready"));
        let (mut rows, mut others, mut finished) = (Vec::new(), Vec::new(), 0);
        for load in self.loads() {
            if load.finished > finished {
                Box::pin(finished::make(client, bench, load.finished - finished)).await?;
            }
            let row = Box::pin(measure::measure(client, bench, load)).await?;
            rows.push(serde_json::to_value(row).context("writing a row")?);
            finished = load.finished.max(finished + load.miniclusters);
        }
        if self.restart > 0 {
            let missing = self.restart.saturating_sub(finished);
            Box::pin(finished::make(client, bench, missing)).await?;
            others.push(Box::pin(restart::measure(client, bench)).await?);
        }
        if self.queued > 0 {
            others.push(Box::pin(queued::measure(client, bench, self.queued)).await?);
        }
        Ok((rows, others))
    }

    /// What is created, in order.
    fn loads(&self) -> Vec<Load> {
        let usual = if self.is_usual() { (vec![10, 100, 1000], 5000) } else { (Vec::new(), 0) };
        let sizes = self.sizes.clone().unwrap_or(usual.0);
        let many =
            sizes.into_iter().map(|miniclusters| Load { finished: 0, miniclusters, pods: PODS });
        let pods = self.largest.unwrap_or(usual.1);
        let large = (pods > 0).then_some(Load { finished: 0, miniclusters: 1, pods });
        let beside = [0, self.finished].map(|finished| Load {
            finished,
            miniclusters: BESIDE_FINISHED,
            pods: PODS,
        });
        let beside = beside.into_iter().filter(|_| self.finished > 0);
        many.chain(large).chain(beside).collect()
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
