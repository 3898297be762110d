//! The start of an operator among many MiniClusters.

use super::load::Bench;
use super::measure::count;
use e2e::audit::Audit;
use e2e::prelude::*;
use kube::api::ListParams;
use kube::{Api, Client};
use std::time::Instant;

/// How often it may be watched for having nothing to do.
const RESTS: u32 = 10;

/// How long a new operator takes, and what it asks for.
pub(super) async fn measure(client: &Client, bench: Bench<'_>) -> Result<Value> {
    let all: Api<MiniCluster> = Api::all(client.clone());
    let one = all.list_metadata(&ListParams::default().limit(1)).await?;
    let miniclusters = one.metadata.remaining_item_count.unwrap_or_default() + 1;
    let cluster = bench.environment.cluster.own().context("there is no audit log")?;
    let mut audit = Audit::from_now_on(&cluster.audit_log())?;
    progress::log(&format!("starting an operator among {miniclusters} MiniClusters"));
    let begun = Instant::now();
    let mut operator = bench.program.start(bench.environment)?;
    operator.ready().await?;
    let ready = begun.elapsed();
    let worked = operator.processor_time()?;
    for _ in 0..RESTS {
        if operator.rest().await? {
            break;
        }
    }
    let (answered, memory) = (audit.operator()?, operator.memory()?);
    let requests = count(&answered);
    let lists = requests.iter().filter(|(kind, _)| kind.starts_with("list "));
    Ok(json!({
        "restart_among": miniclusters,
        "ready_seconds": ready.as_secs_f64(),
        "processor_seconds_to_ready": worked.as_secs_f64(),
        "processor_seconds_to_rest": operator.processor_time()?.as_secs_f64(),
        "lists": lists.map(|(_, count)| count).sum::<u64>(),
        "requests": requests,
        "memory_mib": memory,
    }))
}
