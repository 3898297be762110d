//! Fields that are accepted and have no effect where they are given: the condition names them.

use super::{runner::runner_position, text::non_empty};
use crate::crd::{Commands, Container, MiniClusterSpec};

/// A field's path in a container, and whether it is given there.
type Field = (&'static str, fn(&Container) -> bool);

/// Fields that have no effect in the container that runs Flux.
const NOT_IN_RUNNER: &[Field] = &[
    ("noWrapEntrypoint", |container| container.no_wrap_entrypoint),
    ("batchRaw", |container| container.batch_raw && !container.batch),
    ("logs", |container| container.logs.is_some() && !container.batch),
    ("commands.servicePre", |container| command(container, |it| it.service_pre.as_ref())),
];

/// Fields that have no effect where Flux does not run.
const NOT_IN_SIDECARS: &[Field] = &[
    ("diagnostics", |container| container.diagnostics),
    ("launcher", |container| container.launcher),
    ("batch", |container| container.batch),
    ("batchRaw", |container| container.batch_raw),
    ("logs", |container| container.logs.is_some()),
    ("preCommand", |container| non_empty(container.pre_command.as_ref()).is_some()),
    ("fluxUser", |container| container.flux_user.is_some()),
    ("fluxuser", |container| container.fluxuser.is_some()),
    ("commands.runFluxAsRoot", |container| {
        container.commands.as_ref().is_some_and(|commands| commands.run_flux_as_root)
    }),
    ("commands.prefix", |container| command(container, |it| it.prefix.as_ref())),
    ("commands.script", |container| command(container, |it| it.script.as_ref())),
    ("commands.pre", |container| command(container, |it| it.pre.as_ref())),
    ("commands.brokerPre", |container| command(container, |it| it.broker_pre.as_ref())),
    ("commands.preBroker", |container| command(container, |it| it.pre_broker.as_ref())),
    ("commands.workerPre", |container| command(container, |it| it.worker_pre.as_ref())),
    ("commands.preWorker", |container| command(container, |it| it.pre_worker.as_ref())),
];

/// Fields that have no effect in the pod of `spec.services`.
const NOT_IN_SERVICES: &[Field] = &[
    ("runFlux", |container| container.run_flux == Some(true)),
    ("noWrapEntrypoint", |container| container.no_wrap_entrypoint),
    ("commands.init", |container| command(container, |it| it.init.as_ref())),
    ("commands.servicePre", |container| command(container, |it| it.service_pre.as_ref())),
    ("commands.post", |container| command(container, |it| it.post.as_ref())),
];

/// Fields that have no effect where the image's own entrypoint is kept.
const NOT_WITH_OWN_ENTRYPOINT: &[Field] = &[
    ("command", |container| non_empty(container.command.as_ref()).is_some()),
    ("commands.init", |container| command(container, |it| it.init.as_ref())),
    ("commands.servicePre", |container| command(container, |it| it.service_pre.as_ref())),
    ("commands.post", |container| command(container, |it| it.post.as_ref())),
];

/// Fields that have no effect where Flux's diagnostics run in place of the command.
const NOT_WITH_DIAGNOSTICS: &[Field] = &[
    ("command", |container| non_empty(container.command.as_ref()).is_some()),
    ("launcher", |container| container.launcher),
    ("batch", |container| container.batch),
    ("commands.prefix", |container| command(container, |it| it.prefix.as_ref())),
    ("commands.script", |container| command(container, |it| it.script.as_ref())),
];

/// Fields that have no effect where the lead is in another cluster: its command runs there.
const NOT_WITHOUT_LEAD: &[Field] = &[
    ("command", |container| non_empty(container.command.as_ref()).is_some()),
    ("commands.script", |container| command(container, |it| it.script.as_ref())),
    ("commands.brokerPre", |container| command(container, |it| it.broker_pre.as_ref())),
    ("commands.preBroker", |container| command(container, |it| it.pre_broker.as_ref())),
];

/// Paths of the fields that are given and that are not acted on.
pub(super) fn not_acted_on(spec: &MiniClusterSpec) -> Vec<String> {
    let runner = runner_position(&spec.containers);
    let containers = spec.containers.iter().enumerate().flat_map(|(index, container)| {
        let tables = tables(spec, container, runner == Some(index));
        let fields = tables.into_iter().flatten().filter(|(_, given)| given(container));
        fields.map(move |(field, _)| format!("spec.containers[{index}].{field}"))
    });
    let services = spec.services.iter().enumerate().flat_map(|(index, container)| {
        let fields = NOT_IN_SERVICES.iter().chain(NOT_IN_SIDECARS);
        let fields = fields.filter(|(_, given)| given(container));
        fields.map(move |(field, _)| format!("spec.services[{index}].{field}"))
    });
    containers.chain(services).collect()
}

/// The tables that apply to a container.
fn tables(spec: &MiniClusterSpec, container: &Container, runs_flux: bool) -> Vec<&'static [Field]> {
    let bursting = spec.flux.bursting.as_ref();
    let has_lead_elsewhere = spec.flux.lead_broker.is_some()
        || bursting.is_some_and(|bursting| bursting.lead_broker.is_some());
    let mut tables = vec![if runs_flux { NOT_IN_RUNNER } else { NOT_IN_SIDECARS }];
    if runs_flux && container.diagnostics {
        tables.push(NOT_WITH_DIAGNOSTICS);
    }
    if runs_flux && has_lead_elsewhere {
        tables.push(NOT_WITHOUT_LEAD);
    }
    if !runs_flux && container.no_wrap_entrypoint {
        tables.push(NOT_WITH_OWN_ENTRYPOINT);
    }
    tables
}

/// Whether one of the scripts of `commands` is given.
fn command(container: &Container, script: fn(&Commands) -> Option<&String>) -> bool {
    container.commands.as_ref().is_some_and(|commands| non_empty(script(commands)).is_some())
}
