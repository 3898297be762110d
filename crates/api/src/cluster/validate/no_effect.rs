//! Finds given fields that have no effect in their place, for the condition `Accepted`.

use super::container::runner_position;
use super::flux::lead_elsewhere;
use crate::crd::{Container, MiniClusterSpec};
use serde_json::Value;

const NOT_IN_RUNNER: &str = "noWrapEntrypoint commands.servicePre";

const NOT_WITHOUT_BATCH: &str = "batchRaw logs";

const NOT_IN_SIDECARS: &str = "diagnostics launcher batch batchRaw logs preCommand fluxUser fluxuser commands.runFluxAsRoot \
     commands.prefix commands.script commands.pre commands.brokerPre commands.preBroker \
     commands.workerPre commands.preWorker";

const NOT_IN_SERVICES: &str =
    "runFlux noWrapEntrypoint commands.init commands.servicePre commands.post";

const NOT_WITH_OWN_ENTRYPOINT: &str = "command commands.init commands.servicePre commands.post";

const NOT_WITH_DIAGNOSTICS: &str = "command launcher batch commands.prefix commands.script";

/// Fields that have no effect if another cluster has the lead, because the command runs there.
const NOT_WITHOUT_LEAD: &str = "command commands.script";

pub(super) fn not_acted_on(name: &str, spec: &MiniClusterSpec) -> Vec<String> {
    let has_lead_elsewhere = lead_elsewhere(name, &spec.flux).is_some();
    let runner = runner_position(&spec.containers);
    let containers = spec.containers.iter().enumerate().flat_map(|(index, container)| {
        let fields = without_effect(has_lead_elsewhere, container, runner == Some(index));
        given(&format!("spec.containers[{index}]"), container, fields)
    });
    let services = spec.services.iter().enumerate().flat_map(|(index, container)| {
        let fields = vec![NOT_IN_SERVICES, NOT_IN_SIDECARS];
        given(&format!("spec.services[{index}]"), container, fields)
    });
    let bursting = spec.flux.bursting.as_ref().and_then(|bursting| bursting.lead_broker.as_ref());
    let own_leads =
        [("bursting.leadBroker", bursting), ("leadBroker", spec.flux.lead_broker.as_ref())];
    let own_leads = own_leads
        .into_iter()
        .filter(|(_, lead)| !has_lead_elsewhere && lead.is_some_and(|lead| lead.address.is_some()));
    let own_leads = own_leads.map(|(path, _)| format!("spec.flux.{path}.address"));
    containers.chain(services).chain(own_leads).collect()
}

/// The paths of those of `fields` that `container`, at `path`, sets to another value than false or empty.
fn given(path: &str, container: &Container, fields: Vec<&str>) -> Vec<String> {
    // A container was parsed from JSON, so it can be written as JSON.
    let container = serde_json::to_value(container).unwrap_or_default();
    let is_set = |field: &&str| {
        let value = field.split('.').fold(&container, |value, name| &value[name]);
        !matches!(value, Value::Null | Value::Bool(false)) && value != ""
    };
    let fields = fields.into_iter().flat_map(|fields| fields.split(' ')).filter(is_set);
    fields.map(|field| format!("{path}.{field}")).collect()
}

fn without_effect(
    has_lead_elsewhere: bool,
    container: &Container,
    runs_flux: bool,
) -> Vec<&'static str> {
    let tables = [
        (runs_flux, NOT_IN_RUNNER),
        (runs_flux && !container.batch, NOT_WITHOUT_BATCH),
        (!runs_flux, NOT_IN_SIDECARS),
        (runs_flux && container.diagnostics, NOT_WITH_DIAGNOSTICS),
        (runs_flux && has_lead_elsewhere, NOT_WITHOUT_LEAD),
        (!runs_flux && container.no_wrap_entrypoint, NOT_WITH_OWN_ENTRYPOINT),
    ];
    tables.into_iter().filter(|(applies, _)| *applies).map(|(_, table)| table).collect()
}
