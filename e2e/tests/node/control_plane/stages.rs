//! The operator is killed at three stages of a run: after its first write, in the middle of what it makes, and when
//! it writes how the run goes. The model (`operator/tests/model`) ends operators at every write.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, Result, ensure};
use e2e::{
    audit::{Audit, Request},
    trial::Trial,
};

use super::{DEADLINE, Plane, ended_once, minicluster, operator::Operators};

/// The writes after which an operator is killed, counted from the first one for a MiniCluster.
const STAGES: [usize; 3] = [1, 4, 8];
/// The name of the run whose operator is not killed.
const UNDISTURBED: &str = "undisturbed";
const SIZE: usize = 2;
const PORT: u16 = 18080;

/// The writes that operators have made.
struct Writes {
    audit: Audit,
    all: Vec<Request>,
}

/// Each MiniCluster goes on while the next is begun: an operator that comes back finds runs of every age.
pub(super) async fn an_operator_that_is_killed_between_its_writes_leaves_one_run(
    plane: &Plane<'_>,
    trial: &Trial,
) -> Result<()> {
    let operators = Operators::prepare(plane, trial).await?;
    let mut writes = Writes { audit: plane.audit()?, all: Vec::new() };
    let mut operator = operators.start("stages", PORT)?;
    for stage in STAGES {
        let name = format!("stage-{stage}");
        trial.apply(&run(&name, code(stage))).await?;
        reach(&mut writes, &name, stage).await.with_context(|| operator.tail())?;
        operator.kill()?;
        operators.forget_holder().await?;
        operator = operators.start("stages", PORT)?;
    }
    trial.apply(&run(UNDISTURBED, 0)).await?;
    ended_once(trial, UNDISTURBED, SIZE, 0).await?;
    for stage in STAGES {
        ended_once(trial, &format!("stage-{stage}"), SIZE, code(stage)).await?;
    }
    writes.read()?;
    let undisturbed = writes.created(UNDISTURBED);
    for stage in STAGES {
        let created = writes.created(&format!("stage-{stage}"));
        // An answer that the killed operator did not wait for is logged as a failure, whatever was made.
        let fits = |(what, times): (&String, &usize)| undisturbed.get(what) >= Some(times);
        ensure!(created.iter().all(fits), "stage {stage}: {created:#?}\nnot {undisturbed:#?}");
    }
    operator.ensure_alive()
}

/// One of the commands fails.
fn code(stage: usize) -> i32 {
    if stage == STAGES[1] { 7 } else { 0 }
}

fn run(name: &str, code: i32) -> String {
    let container = format!("{{image: 'ubuntu:24.04', command: 'echo once; exit {code}'}}");
    minicluster(name, &format!("{{size: {SIZE}, containers: [{container}]}}"))
}

/// Waits until operators have made so many writes for the MiniCluster of this name.
async fn reach(writes: &mut Writes, name: &str, stage: usize) -> Result<()> {
    let reached = async {
        loop {
            writes.read()?;
            if writes.of(name) >= stage {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let reached = tokio::time::timeout(DEADLINE, reached).await;
    reached.with_context(|| format!("waiting for write {stage} for {name}"))?
}

impl Writes {
    fn read(&mut self) -> Result<()> {
        let new = self.audit.operator()?.into_iter().filter(Request::is_write);
        self.all.extend(new);
        Ok(())
    }

    /// How many there were for the MiniCluster of this name and its objects.
    fn of(&self, name: &str) -> usize {
        self.all.iter().filter(|request| is_for(request, name).is_some()).count()
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
