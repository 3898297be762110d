//! The operator is killed at each stage of a run: after its first write, after its second, and so on to the last.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, Result, ensure};
use e2e::{
    audit::{Audit, Request},
    trial::{Trial, condition},
};
use flux_operator::crd::MiniCluster;

use super::{DEADLINE, Plane, ended_once, minicluster, operator::Operators};

/// A run has no fewer writes than this, or something is not counted.
const FEWEST: usize = 9;
/// More than any run has.
const MOST: usize = 30;
/// Renewals of the Lease after the end of a run that show that nothing more is written.
const RENEWALS: usize = 3;
const SIZE: usize = 2;
const PORT: u16 = 18080;

/// The writes that operators have made.
struct Writes {
    audit: Audit,
    all: Vec<Request>,
}

/// What has come of a MiniCluster under an operator that is to be killed.
#[derive(Debug, PartialEq, Eq)]
enum Reached {
    /// The write after which it is killed.
    Stage,
    /// The last write before that.
    End,
}

/// Each MiniCluster goes on while the next is begun: an operator that comes back finds runs of every age.
pub(super) async fn an_operator_that_is_killed_after_any_write_leaves_one_run(
    plane: &Plane<'_>,
    trial: &Trial,
) -> Result<()> {
    let operators = Operators::prepare(plane, trial).await?;
    let mut writes = Writes { audit: plane.audit()?, all: Vec::new() };
    let mut operator = operators.start("stages", PORT)?;
    let mut stage = 1;
    loop {
        ensure!(stage < MOST, "a run has no end of writes: {:#?}", writes.of(&named(stage - 1)));
        trial.apply(&run(stage)).await?;
        let reached = reach(trial, &mut writes, stage).await;
        if reached.with_context(|| format!("stage {stage}:\n{}", operator.tail()))? == Reached::End
        {
            break;
        }
        operator.kill()?;
        operators.forget_holder().await?;
        operator = operators.start("stages", PORT)?;
        stage += 1;
    }
    ensure!(stage > FEWEST, "a run has {} writes: {:#?}", stage - 1, writes.of(&named(stage)));
    for stage in 1..=stage {
        ended_once(trial, &named(stage), SIZE, code(stage)).await?;
    }
    writes.read()?;
    let undisturbed = writes.created(&named(stage));
    for stage in 1..stage {
        let created = writes.created(&named(stage));
        // An answer that the killed operator did not wait for is logged as a failure, whatever was made.
        let fits = |(what, times): (&String, &usize)| undisturbed.get(what) >= Some(times);
        ensure!(created.iter().all(fits), "stage {stage}: {created:#?}\nnot {undisturbed:#?}");
    }
    operator.ensure_alive()
}

fn named(stage: usize) -> String {
    format!("stage-{stage}")
}

/// Half of the commands fail.
fn code(stage: usize) -> i32 {
    if stage.is_multiple_of(2) { 7 } else { 0 }
}

fn run(stage: usize) -> String {
    let command = format!("echo once; exit {}", code(stage));
    let container = format!("{{image: 'ubuntu:24.04', command: '{command}'}}");
    minicluster(&named(stage), &format!("{{size: {SIZE}, containers: [{container}]}}"))
}

/// Waits until operators have made so many writes for the MiniCluster of this stage, or until its run has ended
/// with fewer.
async fn reach(trial: &Trial, writes: &mut Writes, stage: usize) -> Result<Reached> {
    let name = named(stage);
    let reached = async {
        loop {
            writes.read()?;
            if writes.of(&name).len() >= stage {
                return Ok(Reached::Stage);
            }
            // What is still to be written follows soon.
            let quiet = writes.renewals_since(&name) >= RENEWALS;
            if quiet && has_ended(trial, &name).await? {
                return Ok(Reached::End);
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(DEADLINE, reached).await.context("waiting for a write")?
}

/// Whether the operator has told the end.
async fn has_ended(trial: &Trial, name: &str) -> Result<bool> {
    let cluster = trial.api::<MiniCluster>().get_status(name).await?;
    let ended = |kind| condition(&cluster, kind).is_some_and(|(status, _, _)| status == "True");
    Ok(ended("Complete") || ended("Failed"))
}

impl Writes {
    fn read(&mut self) -> Result<()> {
        let new = self.audit.operator()?.into_iter().filter(Request::is_write);
        self.all.extend(new);
        Ok(())
    }

    /// Those for the MiniCluster of this name and its objects.
    fn of(&self, name: &str) -> Vec<&Request> {
        self.all.iter().filter(|request| is_for(request, name).is_some()).collect()
    }

    /// How often the Lease was renewed since the last write for the MiniCluster of this name.
    fn renewals_since(&self, name: &str) -> usize {
        let since = self.all.iter().rev().take_while(|request| is_for(request, name).is_none());
        since.filter(|request| kind(request) == "leases").count()
    }

    /// How many objects of each kind were made for the MiniCluster of this name, and what they are called after
    /// it. Events may be told again.
    fn created(&self, name: &str) -> BTreeMap<String, usize> {
        let mut created = BTreeMap::new();
        for request in self.all.iter().filter(|request| request.has_created()) {
            let Some(after) = is_for(request, name).filter(|_| kind(request) != "events") else {
                continue;
            };
            // The certificate's Secret is called after the run as well.
            let after = after.split_once("-curve-").map_or(after, |_| "-curve-");
            *created.entry(format!("{} {after}", kind(request))).or_default() += 1;
        }
        created
    }
}

fn kind(request: &Request) -> &str {
    let object = request.object_ref.as_ref();
    object.and_then(|object| object.resource.as_deref()).unwrap_or_default()
}

/// What follows the MiniCluster's name in that of the object that is written, if it is for that MiniCluster.
fn is_for<'request>(request: &'request Request, name: &str) -> Option<&'request str> {
    let after = request.object_ref.as_ref()?.name.as_deref()?.strip_prefix(name)?;
    (after.is_empty() || after.starts_with(['-', '.'])).then_some(after)
}
