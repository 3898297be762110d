//! `flux-agent instance`: the ranks and jobs of the instance of this pod's broker, as JSON.

use crate::commands::arguments::PodArguments;
use crate::commands::client::connected;
use crate::commands::pod::PodContext;
use crate::failure::{Failure, Result};
use crate::system::output::print_json;
use clap::Args;
use flux_contract::Exit;
use flux_contract::instance::{InstanceReport, JobReport};
use flux_protocol::client::job_list::{self, Job};
use flux_protocol::client::{BrokerSocket, SocketError, job_info, resource};
use flux_protocol::job_id;
use serde_json::json;
use std::time::{SystemTime, UNIX_EPOCH};

/// The largest number of jobs that is read, so that the answer of the broker is short enough.
const MOST_JOBS: usize = 5000;
const ATTRIBUTES: &str = "userid name state result ntasks nnodes ranks t_submit t_run t_inactive";
/// How many of the last bytes of a job's output are read.
const MOST_OUTPUT: usize = 64 << 10;

#[derive(Debug, Args)]
pub(crate) struct InstanceArguments {
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

pub(crate) async fn run(arguments: &InstanceArguments) -> Result<()> {
    let pod = PodContext::read(&arguments.pod)?;
    let failed = |error: SocketError| {
        let operation = "ask the instance (see flux-agent status, flux-agent doctor)";
        Failure::because(Exit::Broker, operation, &error)
    };
    let (_, broker) = connected(&pod)?;
    let report = ask(arguments, &pod, &mut broker.connect().await.map_err(failed)?).await;
    print_json(&report.map_err(failed)?);
    Ok(())
}

async fn ask(
    arguments: &InstanceArguments,
    pod: &PodContext,
    socket: &mut BrokerSocket,
) -> Result<InstanceReport, SocketError> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let name_of = |uid| pod.facts.accounts.name_of(uid);
    let states: &[_] =
        if arguments.all { &["pending", "running", "inactive"] } else { &["pending", "running"] };
    let ranks = resource::ranks(socket).await?;
    let constraint = json!({ "states": states });
    let jobs = job_list::list(socket, MOST_JOBS, ATTRIBUTES, &constraint).await?;
    let jobs = jobs.into_iter().map(|job: Job| report(job, now, &name_of)).collect();
    let mut report = InstanceReport { ranks, jobs, ..InstanceReport::default() };
    if let Some(id) = arguments.output_of {
        let (output, is_cut) = job_info::output(socket, id, None, MOST_OUTPUT).await?;
        report.output = Some(String::from_utf8_lossy(&output).into_owned());
        report.output_is_cut = is_cut;
    }
    Ok(report)
}

/// The report of a job at `now`, in seconds of Unix time. `name_of` returns the names of users.
fn report(job: Job, now: f64, name_of: &impl Fn(u32) -> String) -> JobReport {
    let state = job.status();
    let begun = job.t_run.or_else(|| state.is_pending().then_some(job.t_submit));
    let end = job.t_inactive.unwrap_or(now);
    JobReport {
        id: job_id::f58(job.id),
        user: name_of(job.userid),
        name: job.name,
        state,
        tasks: job.ntasks,
        nodes: job.nnodes.filter(|_| job.ranks.is_some()),
        ranks: job.ranks,
        seconds: begun.map_or(0.0, |begun| (end - begun).max(0.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_has_a_time_in_every_state() {
        let job = |fields: &str| {
            let job = format!(r#"{{"id":25568477184,"userid":1000,"t_submit":10.0,{fields}}}"#);
            report(serde_json::from_str(&job).unwrap(), 20.0, &|uid| format!("u{uid}"))
        };
        let waits = job(r#""state":8,"name":"a","ntasks":2,"nnodes":1"#);
        assert_eq!((waits.id.as_str(), waits.user.as_str()), ("ƒfxQ8UX", "u1000"));
        assert_eq!((waits.seconds, waits.nodes), (10.0, None));
        let runs = job(r#""state":16,"t_run":18.5,"nnodes":2,"ranks":"[0-1]""#);
        assert_eq!((runs.seconds, runs.nodes), (1.5, Some(2)));
        let ended = job(r#""state":64,"result":4,"t_run":12.0,"t_inactive":15.0"#);
        let never_ran = job(r#""state":64,"result":2,"t_inactive":15.0"#);
        assert_eq!((ended.seconds, never_ran.seconds), (3.0, 0.0));
    }
}
