//! From what the user wrote to what it means.
//!
//! Every default is resolved here, every rule is checked here, and all faults are reported at
//! once, each with its place and its remedy. What the API server can refuse by itself is in the
//! schema as well ([`crate::crd`]); this remains the authority, because an object may have been
//! stored before a rule existed.

mod architecture;
mod container;
mod faults;
mod flux;
mod image;
mod no_effect;
mod pod;
mod quantity;
mod queue;
mod runner;
mod sizes;
mod text;
mod volume;
mod work;

pub(crate) use faults::Faults;
pub use faults::{Violation, Violations};
pub use flux::Defaults;
pub(crate) use queue::of_kueue;

use super::{Cluster, FixedFields, Identity, Network, Runner};
use crate::crd::{self, MiniCluster, MiniClusterSpec, deadline_seconds, definition};
use container::{Containers, containers};
use flux_contract::Logging;
use pod::labels;
use sizes::sizes;
use text::{given, is_absolute_path, is_service_name};
use volume::is_mounted;

/// Holds `spec` against the limits of the definition, before anything is made of it.
fn bounds(spec: &MiniClusterSpec, faults: &mut Faults) {
    // A specification is read from JSON and can be written as such.
    let value = serde_json::to_value(spec).unwrap_or_default();
    for (path, message) in crd::exceeded("spec", &definition::SPECIFICATION_SCHEMA, &value) {
        faults.add(path, message);
    }
    let (bytes, limit) = (value.to_string().len(), crd::SPECIFICATION_LIMIT);
    faults.require(bytes <= limit, "spec", || {
        format!("has {bytes} bytes as JSON, at most {limit} are allowed: put scripts and data into a ConfigMap and mount it")
    });
}

/// Resolves every default and checks every rule; reports all faults at once.
pub fn validate(cluster: &MiniCluster, defaults: &Defaults) -> Result<Cluster, Violations> {
    let mut faults = Faults::default();
    bounds(&cluster.spec, &mut faults);
    if !faults.0.is_empty() {
        return Err(Violations(faults.0));
    }
    let name_text = cluster.metadata.name.as_deref().unwrap_or_default();
    let identity =
        Identity::of(cluster).map_err(|error| faults.add("metadata.name", error.to_string())).ok();
    let result = resolve(cluster, name_text, identity, defaults, &mut faults);
    match result {
        Some(cluster) if faults.0.is_empty() => Ok(cluster),
        Some(_) | None => Err(Violations(faults.0)),
    }
}

/// Resolves and checks all parts; nothing when the name is no name or nothing runs Flux.
fn resolve(
    cluster: &MiniCluster,
    name_text: &str,
    identity: Option<Identity>,
    defaults: &Defaults,
    faults: &mut Faults,
) -> Option<Cluster> {
    let spec = &cluster.spec;
    let sizes = sizes(spec, faults);
    let network = network(name_text, spec, faults);
    let flux = flux::flux(name_text, &sizes, &spec.flux, defaults, faults);
    let Containers { runner, sidecars, companion, volumes } =
        containers(name_text, spec, &flux.view, &network, faults);
    labels("spec.jobLabels", &spec.job_labels, faults);
    let pod = pod::pod(spec, volumes, faults);
    let Identity { name, namespace, owner } = identity?;
    Some(Cluster {
        name,
        namespace,
        owner,
        size: sizes.size,
        max_size: sizes.max_size,
        min_size: sizes.min_size,
        job_labels: queue::job_labels(cluster, faults),
        job_annotations: queue::job_annotations(cluster),
        deadline_seconds: spec.deadline_seconds,
        // A container that is started again would begin to count anew.
        deadline_by_agent: spec.deadline_seconds != deadline_seconds()
            && pod.restart_policy == "Never",
        start_deadline_seconds: spec.start_deadline_seconds.map(i64::unsigned_abs),
        suspend: spec.suspend,
        backoff_limit: spec.backoff_limit.map_or(0, i32::unsigned_abs),
        network,
        flux,
        logging: Logging {
            quiet: spec.logging.quiet,
            strict: spec.logging.strict,
            timed: spec.logging.timed,
            debug: spec.logging.debug,
        },
        zeromq_debug: spec.logging.zeromq,
        archive: archive(spec, runner.as_ref(), faults),
        pod,
        gang: spec.scheduling.gang,
        runner: runner?,
        sidecars,
        companion,
        not_acted_on: no_effect::not_acted_on(spec),
        fixed_fields: FixedFields::of_instance(spec),
    })
}

fn network(name: &str, spec: &MiniClusterSpec, faults: &mut Faults) -> Network {
    let path = "spec.network.headlessName";
    let headless_name = given(spec.network.headless_name.as_ref());
    if let Some(headless_name) = headless_name {
        faults.require(is_service_name(headless_name), path, || {
            format!("{headless_name:?} cannot be the name of a Service: use at most 63 lower-case letters, digits and '-', starting with a letter")
        });
        faults.require(headless_name != format!("{name}-lead"), path, || {
            format!("{headless_name:?} is the name of the lead's own Service: use another")
        });
    }
    Network {
        headless_name: headless_name.unwrap_or(name).to_owned(),
        affinity: !spec.network.disable_affinity,
        minimal_service: spec.flux.minimal_service,
    }
}

fn archive(spec: &MiniClusterSpec, runner: Option<&Runner>, faults: &mut Faults) -> Option<String> {
    let path = &spec.archive.as_ref()?.path;
    if !is_absolute_path(path) {
        faults.add("spec.archive.path", format!("{path:?} is not an absolute path without '..'"));
    } else if let Some(runner) = runner {
        // The overlay may mount what no field here says.
        let overlay = spec.pod.overlay.as_ref();
        let kept = is_mounted(path, &runner.container.mounts)
            || overlay.is_some_and(|overlay| overlay.get("containers").is_some());
        faults.require(kept, "spec.archive.path", || {
            format!("{path:?} is on no volume of the container that runs Flux, so that the state would be gone with its pod: mount a volume there, or give a path on one")
        });
    }
    Some(path.clone())
}
