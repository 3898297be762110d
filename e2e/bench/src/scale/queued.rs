//! The addresses that MiniClusters take while they are suspended.

use super::load::{Bench, objects};
use super::measure::create;
use crate::namespace;
use e2e::prelude::*;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Service;
use kube::api::ListParams;

/// A /20, as some providers have it, for 4,096 Services.
pub(super) const SERVICE_RANGE: &str = "10.96.0.0/20";

/// Creates `count` suspended MiniClusters, and counts the Services with an address once all have their Jobs.
pub(super) async fn measure(client: &Client, bench: Bench<'_>, count: u32) -> Result<Value> {
    let trial = Trial::begin(&bench.environment.cluster, client, "queued").await?;
    let mut news = namespace::watch(&trial, &[ApiResource::erase::<Job>(&())]).await?;
    let mut operator = bench.program.start(bench.environment)?;
    operator.ready().await?;
    progress::log(&format!("creating {count} suspended MiniClusters"));
    let spec = json!({
        "size": 1, "suspend": true,
        "containers": [{"image": "ubuntu:24.04", "command": "echo hello world"}],
    });
    let begun = Instant::now();
    tokio::try_join!(
        create(&trial, objects("queued", count, &spec)),
        namespace::await_each(&mut news, &mut operator, count, |_| true),
    )?;
    let jobs = begun.elapsed();
    let all: Api<Service> = Api::all(client.clone());
    let services = all.list(&ListParams::default()).await.context("listing the Services")?;
    let has_address = |service: &&Service| {
        let spec = service.spec.as_ref();
        spec.and_then(|it| it.cluster_ip.as_deref()).is_some_and(|it| it != "None")
    };
    Ok(json!({
        "queued": count,
        "jobs_seconds": jobs.as_secs_f64(),
        "services": services.items.len(),
        "addresses": services.iter().filter(has_address).count(),
        "range": SERVICE_RANGE,
    }))
}
