//! Facts about a pod: `flux-agent plan` prints the plan of `run`; `resources` the resources that Flux schedules; `env` the
//! environment of a client of the broker and, for hooks, that of this process.

use crate::commands::arguments::PodQuestion;
use crate::commands::pod::PodContext;
use crate::failure::{Failure, Result};
use crate::pid1::run::planned_start;
use crate::plan::decide;
use crate::system::environment::{Environment, Report};
use crate::system::files;
use crate::system::words::quoted;
use flux_contract::Exit;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

pub(crate) fn plan(question: &PodQuestion) -> Result<()> {
    let PodContext { config, facts, root } = PodContext::read(&question.pod)?;
    let mut plan = decide::plan(&config, &facts)?;
    plan.broker.command = planned_start(&plan, &config, &facts, &root).argv;
    question.output.print(&plan, || format!("{plan:#}"));
    Ok(())
}

pub(crate) fn resources(question: &PodQuestion) -> Result<()> {
    let resources = PodContext::read(&question.pod)?.resources();
    question.output.print(&resources, || resources.text());
    Ok(())
}

pub(crate) fn write_environment(file: &Path) -> Result<()> {
    let written = Report::of_this_process()
        .and_then(|report| files::write(file, &report.to_bytes(), 0o600, None));
    let doing = format!("write the environment to {}", file.display());
    written.map_err(|error| Failure::because(Exit::Prepare, doing, &error))
}

pub(crate) fn environment(question: &PodQuestion) -> Result<()> {
    let PodContext { config, facts, .. } = PodContext::read(&question.pod)?;
    let environment = decide::client_environment(&config, &facts)?;
    let before: Environment = std::env::vars_os().collect();
    let mut after = before.clone();
    for change in &environment.changes {
        change.apply(&mut after);
    }
    let new = after.iter().filter(|(name, value)| before.get(*name) != Some(*value));
    let new: BTreeMap<_, _> =
        new.map(|(name, value)| (name.to_string_lossy(), value.to_string_lossy())).collect();
    question.output.print(&new, || {
        let mut text = String::new();
        for (name, value) in &new {
            let _ = writeln!(text, "export {name}={}", quoted(value));
        }
        text
    });
    Ok(())
}
