//! `flux-agent instance`: what the instance of this pod's broker has and does, for programs.

use crate::commands::arguments::PodArguments;
use crate::commands::client::connected;
use crate::commands::pod::PodContext;
use crate::failure::Failure;
use crate::flux::broker_socket::{BrokerAddress, SocketError};
use crate::flux::instance::Instance;
use crate::system::output::print_json;
use clap::Args;
use flux_contract::instance::InstanceReport;
use flux_contract::{Exit, job_id};
use std::time::{SystemTime, UNIX_EPOCH};

/// What is asked.
#[derive(Debug, Args)]
pub(crate) struct Question {
    #[command(flatten)]
    pod: PodArguments,
    /// Also the jobs that have ended
    #[arg(long)]
    all: bool,
    /// Also what this job has printed last
    #[arg(long, value_name = "JOBID", value_parser = id)]
    output_of: Option<u64>,
}

fn id(text: &str) -> Result<u64, String> {
    job_id::parse(text).ok_or_else(|| format!("{text:?} is no id of a job"))
}

pub(crate) async fn run(question: &Question) -> Result<(), Failure> {
    let pod = PodContext::read(&question.pod)?;
    let failed = |error: SocketError| {
        let doing = "ask the instance (see flux-agent status, flux-agent doctor)";
        Failure::because(Exit::Broker, doing, &error)
    };
    let (client, socket) = connected(&pod)?;
    let broker = BrokerAddress { socket, owner: client.owner() };
    let mut instance = Instance::connect(&broker).await.map_err(failed)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let name_of = |uid| {
        let account = pod.facts.accounts.find_uid(uid);
        account.map_or_else(|| uid.to_string(), |user| user.name)
    };
    let ranks = instance.ranks().await.map_err(failed)?;
    let jobs = instance.jobs(question.all, now.as_secs_f64(), name_of).await.map_err(failed)?;
    let mut report = InstanceReport { ranks, jobs, ..InstanceReport::default() };
    if let Some(id) = question.output_of {
        let (output, is_cut) = instance.output(id).await.map_err(failed)?;
        (report.output, report.output_is_cut) = (Some(output), is_cut);
    }
    print_json(&report);
    Ok(())
}
