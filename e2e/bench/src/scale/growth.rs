//! `cargo bench-flux scale --growth`: how long it takes from a queue that needs pods until they are there.
//!
//! No program runs on simulated nodes, so this one answers the operator in place of the lead's agent.

use super::load::{HOLD, make_objects};
use super::measure::create;
use crate::namespace::{self, Observations, Observed};
use crate::operator::OperatorProgram;
use anyhow::{Context as _, Result, ensure};
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use e2e::environment::Environment;
use e2e::progress::Progress;
use e2e::trial::Trial;
use flux_contract::demand::{Demand, Question};
use flux_contract::invocation::READY_PORT;
use flux_operator::crd::MiniCluster;
use futures::StreamExt as _;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::discovery::ApiResource;
use serde::Serialize;
use serde_json::json;
use std::net::Ipv4Addr;
use std::process::Command;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::sync::watch;

const DEADLINE: Duration = Duration::from_mins(20);

/// What was found. Seconds are those since the queue needed the pods.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pods: u32,
    /// The Job asked for all of them.
    job_seconds: f64,
    /// The first of them was made.
    first_seconds: f64,
    /// All were made.
    made_seconds: f64,
}

/// Lets a MiniCluster of one pod grow to each of these sizes.
pub(super) async fn measure(
    client: &Client,
    environment: &Environment,
    program: &OperatorProgram,
    sizes: &[u32],
    progress: &Progress,
) -> Result<Vec<Row>> {
    let demand = watch::Sender::new(Demand { wanted: 0, kept: None });
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, READY_PORT)).await;
    let listener = listener.context("listening in place of leads")?;
    let leads = Router::new().route(Question::PATH, get(answer)).with_state(demand.clone());
    let leads = tokio::spawn(async move { axum::serve(listener, leads).await });
    let mut rows = Vec::new();
    for pods in sizes {
        progress.log(&format!("growing to {pods} pods"));
        let row = Box::pin(grow(client, environment, program, *pods, &demand));
        rows.push(row.await.with_context(|| format!("growing to {pods} pods"))?);
    }
    leads.abort();
    Ok(rows)
}

/// Answers as a lead's agent does: when the demand is another than the one that the operator has seen.
async fn answer(
    State(demand): State<watch::Sender<Demand>>,
    RawQuery(query): RawQuery,
) -> Result<Json<Demand>, StatusCode> {
    let question = query.as_deref().and_then(Question::of_query).ok_or(StatusCode::BAD_REQUEST)?;
    let wait = Duration::from_secs(question.wait_seconds);
    let mut changes = demand.subscribe();
    let other = changes.wait_for(|demand| question.seen != Some(*demand));
    let other = tokio::time::timeout(wait, other).await.ok().and_then(Result::ok);
    Ok(Json(other.map_or_else(|| *demand.borrow(), |demand| *demand)))
}

async fn grow(
    client: &Client,
    environment: &Environment,
    program: &OperatorProgram,
    pods: u32,
    demand: &watch::Sender<Demand>,
) -> Result<Row> {
    let trial = Trial::begin(&environment.cluster, client, "growth", &[]).await?;
    let kinds = [
        ApiResource::erase::<Job>(&()),
        ApiResource::erase::<Pod>(&()),
        ApiResource::erase::<MiniCluster>(&()),
    ];
    let mut news = namespace::watch(&trial, &kinds).await?;
    let mut operator = program.start(environment)?;
    operator.rest().await?;
    demand.send_replace(Demand { wanted: 1, kept: None });
    let spec = json!({
        "size": 1, "interactive": true, "autoscale": {"maxSize": pods},
        "pod": {"annotations": {HOLD: "true"}}, "containers": [{"image": "ubuntu:24.04"}],
    });
    create(&trial, make_objects(1, &spec)).await?;
    let lead = until(&mut news, |seen| {
        let address = seen.object.data["status"]["podIP"].as_str();
        address.filter(|_| seen.is("Pod")).map(ToOwned::to_owned)
    });
    answer_at(&lead.await?)?;
    let is_asked = |seen: &Observed| {
        (seen.is("MiniCluster") && seen.has_condition("Autoscaling")).then_some(())
    };
    until(&mut news, is_asked).await?;

    let begun = Instant::now();
    demand.send_replace(Demand { wanted: pods, kept: None });
    let mut row = Row { pods, job_seconds: 0.0, first_seconds: 0.0, made_seconds: 0.0 };
    until(&mut news, |seen| {
        row.note(seen, begun.elapsed());
        row.is_over().then_some(())
    })
    .await?;
    operator.check()?;
    // Its lead would be asked on.
    trial.clean().await?;
    Ok(row)
}

impl Row {
    fn note(&mut self, seen: &Observed, at: Duration) {
        let first = |slot: &mut f64| {
            if *slot == 0.0 {
                *slot = at.as_secs_f64();
            }
        };
        let data = &seen.object.data;
        let all = Some(u64::from(self.pods));
        if seen.is("Pod") {
            // The lead is there already, and may change.
            let is_new = data["status"]["podIP"].is_null();
            if is_new {
                first(&mut self.first_seconds);
            }
        } else if seen.is("Job") {
            if data["spec"]["parallelism"].as_u64() == all {
                first(&mut self.job_seconds);
            }
            if data["status"]["active"].as_u64() == all {
                first(&mut self.made_seconds);
            }
        }
    }

    fn is_over(&self) -> bool {
        self.made_seconds > 0.0 && self.first_seconds > 0.0
    }
}

/// What the first of the news says of which `found` says something.
async fn until<T>(
    news: &mut Observations,
    mut found: impl FnMut(&Observed) -> Option<T>,
) -> Result<T> {
    let begun = Instant::now();
    loop {
        let rest = DEADLINE.saturating_sub(begun.elapsed());
        let next = tokio::time::timeout(rest, news.next()).await.context("it takes too long")?;
        if let Some(found) = found(&next.context("the watch has ended")??) {
            return Ok(found);
        }
    }
}

/// Brings what is sent to the address of a simulated pod to this program.
fn answer_at(address: &str) -> Result<()> {
    let mut command = Command::new("ip");
    command.args(["route", "replace", "local", address, "dev", "lo"]);
    let status = command.status().context("running ip")?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}
