//! Validates a MiniCluster and resolves its defaults.
//!
//! All faults are reported at once, each with its place and its remedy. The limits and CEL rules of the definition
//! ([`crate::crd`]) are checked again, because an object may have been stored before a rule existed. Rust code checks
//! what CEL cannot express, and what Kubernetes would refuse in the objects of the MiniCluster. Parts that are passed
//! on whole (security contexts, the overlay) are checked by the API server, whose error becomes the condition.

mod container;
mod flux;
mod no_effect;
mod passed_on;
mod pod;
mod queue;
mod text;
mod violations;
mod volume;
mod work;

pub use container::runner_position;
pub use flux::Defaults;
pub use queue::of_kueue;
pub use text::is_label;
pub(crate) use violations::field_path;
pub use violations::{Violation, Violations};

use super::{Cluster, FixedFields, Identity, Runner};
use crate::crd::{self, MiniCluster, MiniClusterSpec, deadline_seconds, definition};
use container::{Containers, containers, services_pod};
use flux_contract::{Archive, Logging, labels};
use k8s_openapi::api::core::v1::ResourceRequirements;
use kube::ResourceExt as _;
use kube::core::cel::{ValidationErrors, validate_compiled};
use queue::{autoscale, job_annotations, job_labels};
use serde_json::Value;
use std::collections::BTreeSet;
use text::{is_absolute_path, non_empty};
use volume::is_mounted;

/// Adds faults for values of `specification` that are too large.
fn check_size(specification: &Value, faults: &mut Violations) {
    for (path, message) in
        crd::broken(&definition::SPECIFICATION_SCHEMA, specification, crd::too_large)
    {
        faults.add(path, message);
    }
    let (bytes, limit) = (specification.to_string().len(), crd::SPECIFICATION_LIMIT);
    faults.require(bytes <= limit, "spec", || {
        format!("has {bytes} bytes as JSON, at most {limit} are allowed: put scripts and data into a ConfigMap and mount it")
    });
}

/// Adds faults for values that break the definition: ranges and CEL rules.
fn check_definition(mut specification: Value, faults: &mut Violations) {
    for (path, message) in
        crd::broken(&definition::SPECIFICATION_SCHEMA, &specification, crd::out_of_range)
    {
        faults.add(path, message);
    }
    // No rule concerns the overlay, and it may be nested too deeply for the evaluation of rules.
    specification["pod"].as_object_mut().map(|pod| pod.remove("overlay"));
    let broken = validate_compiled(&definition::SPECIFICATION_RULES, &specification, None).err();
    for error in broken.into_iter().flat_map(ValidationErrors::into_vec) {
        let separator = if error.field_path.starts_with('.') { "" } else { "." };
        let path = format!("spec{separator}{}", error.field_path);
        // The message about a value out of range is better than that of a rule which it also breaks.
        if !faults.0.iter().any(|fault| fault.path == path) {
            faults.add(path, error.message);
        }
    }
}

/// Resolves every default and checks every rule; reports all faults at once.
pub fn validate(cluster: &MiniCluster, defaults: &Defaults) -> Result<Cluster, Violations> {
    let mut faults = Violations::default();
    // A specification was parsed from JSON, so it can be written as JSON.
    let specification = serde_json::to_value(&cluster.spec).unwrap_or_default();
    check_size(&specification, &mut faults);
    if !faults.0.is_empty() {
        return Err(faults);
    }
    let identity =
        Identity::of(cluster).map_err(|error| faults.add("metadata.name", error.to_string())).ok();
    check_definition(specification, &mut faults);
    let name_text = cluster.metadata.name.as_deref().unwrap_or_default();
    let result = resolve(cluster, name_text, identity, defaults, &mut faults);
    match result {
        Some(cluster) if faults.0.is_empty() => Ok(cluster),
        Some(_) | None => Err(faults),
    }
}

/// Resolves and checks all parts; `None` if the name is invalid or no container runs Flux.
fn resolve(
    cluster: &MiniCluster,
    name_text: &str,
    identity: Option<Identity>,
    defaults: &Defaults,
    faults: &mut Violations,
) -> Option<Cluster> {
    let spec = &cluster.spec;
    let headless_name = headless_name(name_text, spec, faults);
    let flux = flux::flux(name_text, spec, defaults, faults);
    let domain = defaults.cluster_domain.as_ref().zip(identity.as_ref());
    let domain = domain.map(|(domain, identity)| format!("{}.svc.{domain}", identity.namespace));
    let shared = pod::shared_pod_spec(spec, &headless_name, domain.as_deref(), faults);
    let Containers { runner, sidecars, pod } =
        containers(name_text, spec, &flux.view, &shared, faults);
    let services_name = identity.as_ref().map(|identity| identity.name.services_pod());
    let services_pod = services_pod(services_name, spec, &shared, faults);
    let pod = pod::pod(name_text, spec, pod, faults);
    claims(spec, faults);
    passed_on::passed_on(spec, faults);
    let job_labels = job_labels(cluster, faults);
    let job_annotations = job_annotations(cluster, &job_labels, faults);
    autoscale(spec, &job_labels, &job_annotations, faults);
    let Identity { name, namespace, owner } = identity?;
    Some(Cluster {
        name,
        namespace,
        owner,
        size: spec.size.unsigned_abs(),
        max_size: flux::max_size(spec),
        min_size: (spec.min_size)
            .or_else(|| spec.autoscale.as_ref().map(|it| it.min_size.max(1)))
            .map(i32::unsigned_abs),
        autoscale: spec.autoscale.clone(),
        job_labels,
        job_annotations,
        deadline_seconds: spec.deadline_seconds,
        // A restarted container would begin to count again.
        deadline_by_agent: spec.deadline_seconds != deadline_seconds()
            && pod.spec.restart_policy.as_deref() == Some("Never"),
        start_deadline_seconds: spec.start_deadline_seconds.map(i64::unsigned_abs),
        idle_deadline_seconds: spec.idle_deadline_seconds.map(i64::unsigned_abs),
        suspend: spec.suspend,
        resume: cluster.annotations().get(labels::RESUME).cloned().unwrap_or_default(),
        backoff_limit: spec.backoff_limit.map_or(0, i32::unsigned_abs),
        headless_name,
        minimal_service: spec.flux.minimal_service,
        flux,
        logging: Logging {
            quiet: spec.logging.quiet,
            strict: spec.logging.strict,
            timed: spec.logging.timed,
            debug: spec.logging.debug,
        },
        archive: archive(spec, runner.as_ref(), faults),
        pod,
        gang: spec.scheduling.gang,
        topology: spec.scheduling.topology.clone(),
        runner: runner?,
        sidecars,
        services_pod,
        not_acted_on: no_effect::not_acted_on(name_text, spec),
        fixed_fields: FixedFields::of_instance(spec),
        run_id: spec.run_id.clone(),
    })
}

fn headless_name(name: &str, spec: &MiniClusterSpec, faults: &mut Violations) -> String {
    let path = "spec.network.headlessName";
    let headless_name = non_empty(spec.network.headless_name.as_ref());
    if let Some(headless_name) = headless_name {
        faults.require(headless_name != format!("{name}-lead"), path, || {
            format!("{headless_name:?} is the name of the lead's own Service: use another")
        });
        let is_free = spec.flux.rest.is_none() || headless_name != format!("{name}-rest");
        faults.require(is_free, path, || {
            format!("{headless_name:?} is the name of the API's Service (flux.rest): use another")
        });
    }
    headless_name.unwrap_or(name).to_owned()
}

/// Suffixes of the archives whose wholeness the agent can check.
const CHECKED_FORMATS: [&str; 3] = [".tar", ".tar.gz", ".tgz"];

fn archive(
    spec: &MiniClusterSpec,
    runner: Option<&Runner>,
    faults: &mut Violations,
) -> Option<Archive> {
    let crd::Archive { path, every_seconds } = spec.archive.as_ref()?;
    if !is_absolute_path(path) {
        faults.add("spec.archive.path", format!("{path:?} is not an absolute path without '..'"));
    } else if let Some(runner) = runner {
        // The overlay may mount further volumes.
        let overlay = spec.pod.overlay.as_ref();
        let is_on_a_volume =
            is_mounted(path, runner.container.volume_mounts.as_deref().unwrap_or_default())
                || overlay.is_some_and(|overlay| overlay.get("containers").is_some());
        faults.require(is_on_a_volume, "spec.archive.path", || {
            format!("{path:?} is on no volume of the container that runs Flux, so the state would be lost with its pod: mount a volume there, or give a path on one")
        });
    }
    let can_be_checked = CHECKED_FORMATS.iter().any(|suffix| path.ends_with(suffix));
    faults.require(every_seconds.is_none() || can_be_checked, "spec.archive.path", || {
        let formats = CHECKED_FORMATS.join(", ");
        format!("{path:?} has none of the suffixes {formats}, which archive.everySeconds needs: only these formats are checked before they replace an earlier state")
    });
    Some(Archive { path: path.clone(), every_seconds: every_seconds.map(i32::unsigned_abs) })
}

/// The field with the device claims of a pod.
const LISTED: &str = "spec.pod.overlay.resourceClaims";

/// Checks that the overlay has each claim that a container names; the API server would report it by a path of the Job.
fn claims(spec: &MiniClusterSpec, faults: &mut Violations) {
    let listed = spec.pod.overlay.as_ref().map(|overlay| &overlay["resourceClaims"]);
    let listed = listed.and_then(Value::as_array).into_iter().flatten();
    let listed: BTreeSet<&str> = listed.filter_map(|claim| claim["name"].as_str()).collect();
    let view = ("spec.flux.container".to_owned(), spec.flux.container.resources.as_ref());
    let containers = spec.containers.iter().enumerate();
    let containers =
        containers.map(|(index, it)| (format!("spec.containers[{index}]"), it.resources.as_ref()));
    for (path, resources) in std::iter::once(view).chain(containers) {
        for (position, name) in names_of_claims(resources).enumerate() {
            let path = format!("{path}.resources.claims[{position}].name");
            faults.require(listed.contains(name), path, || {
                format!("{name:?} is no claim of the pods: add it to {LISTED}, or remove it")
            });
        }
    }
    for (index, service) in spec.services.iter().enumerate() {
        let path = format!("spec.services[{index}].resources.claims");
        faults.require(names_of_claims(service.resources.as_ref()).next().is_none(), path, || {
            format!("{LISTED} is for the pods that run Flux: remove them, or move the container to spec.containers")
        });
    }
}

fn names_of_claims(resources: Option<&ResourceRequirements>) -> impl Iterator<Item = &str> {
    let claims = resources.and_then(|resources| resources.claims.as_ref());
    claims.into_iter().flatten().map(|claim| claim.name.as_str())
}
