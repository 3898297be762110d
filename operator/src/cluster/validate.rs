//! From what the user wrote to what it means.
//!
//! Every default is resolved here, every rule is checked here, and all faults are reported at
//! once, each with its place and its remedy. What the API server can refuse by itself is in the
//! schema as well ([`crate::crd`]); this remains the authority, because an object may have been
//! stored before a rule existed.

mod architecture;
mod container;
mod flux;
mod image;
mod no_effect;
mod pod;
mod quantity;
mod runner;
mod text;
mod volume;
mod work;

use super::{Cluster, FixedFields, Identity, Network, Runner};
use crate::crd::{self, Install, MiniCluster, MiniClusterSpec, SIZE_LIMIT, deadline_seconds};
use container::{Containers, containers};
use flux_contract::Logging;
use std::{collections::BTreeMap, fmt};
use text::{given, is_absolute_path, is_label_key, is_label_value, is_service_name};
use volume::is_mounted;

/// Namespace of an object that was read from a file without one.
pub(super) const DEFAULT_NAMESPACE: &str = "default";

/// What the operator's own options decide where a specification says nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Defaults {
    /// The view image (`--view-image`).
    pub view_image: String,
    /// The view image for `flux.arch: arm` (`--arm-view-image`).
    pub arm_view_image: String,
    /// How agent and view come into the pods (`--install`).
    pub install: Install,
}

/// One fault of a specification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Where, e.g. `spec.containers[1].name`.
    pub path: String,
    /// What is wrong, and what to do about it.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.path, self.message)
    }
}

/// All faults of a specification, at least one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Violations(pub Vec<Violation>);

impl fmt::Display for Violations {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, violation) in self.0.iter().enumerate() {
            let separator = if position == 0 { "" } else { "; " };
            write!(formatter, "{separator}{violation}")?;
        }
        Ok(())
    }
}

/// The faults found so far.
#[derive(Debug, Default)]
struct Faults(Vec<Violation>);

impl Faults {
    fn add(&mut self, path: impl Into<String>, message: impl Into<String>) {
        let (path, message) = (shortened(path.into()), shortened(message.into()));
        self.0.push(Violation { path, message });
    }

    /// Adds `message` unless `holds`.
    fn require(&mut self, holds: bool, path: impl Into<String>, message: impl FnOnce() -> String) {
        if !holds {
            self.add(path, message());
        }
    }
}

/// Longest path and longest message of a fault, in bytes: both may quote what the user wrote.
const QUOTE_LIMIT: usize = 1_000;

/// `text`, without its middle where it is very long: what is wrong with it is said at its end.
fn shortened(text: String) -> String {
    if text.len() <= QUOTE_LIMIT {
        return text;
    }
    let (begin, end) = (QUOTE_LIMIT / 2, text.len() - QUOTE_LIMIT / 2);
    format!(
        "{} ... {}",
        &text[..text.floor_char_boundary(begin)],
        &text[text.ceil_char_boundary(end)..]
    )
}

/// Holds `spec` against the limits of the definition, before anything is made of it.
fn bounds(spec: &MiniClusterSpec, faults: &mut Faults) {
    // A specification is read from JSON and can be written as such.
    let value = serde_json::to_value(spec).unwrap_or_default();
    for (path, message) in crd::exceeded("spec", &crd::SPECIFICATION_SCHEMA, &value) {
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
    labels("metadata.labels", cluster.metadata.labels.as_ref().unwrap_or(&BTreeMap::new()), faults);
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
        job_labels: spec.job_labels.clone(),
        deadline_seconds: spec.deadline_seconds,
        // A container that is started again would begin to count anew.
        deadline_by_agent: spec.deadline_seconds != deadline_seconds()
            && pod.restart_policy == "Never",
        backoff_limit: spec.backoff_limit.map_or(0, i32::unsigned_abs),
        cleanup: spec.cleanup,
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
        runner: runner?,
        sidecars,
        companion,
        not_acted_on: no_effect::not_acted_on(spec),
        fixed_fields: FixedFields::of_instance(spec),
    })
}

/// Numbers of pods.
struct Sizes {
    size: u32,
    max_size: u32,
    min_size: Option<u32>,
}

fn sizes(spec: &MiniClusterSpec, faults: &mut Faults) -> Sizes {
    let limits = 1..=SIZE_LIMIT;
    let fields =
        [("size", Some(spec.size)), ("maxSize", spec.max_size), ("minSize", spec.min_size)];
    for (field, value) in fields {
        faults.require(
            value.is_none_or(|value| limits.contains(&value)),
            format!("spec.{field}"),
            || format!("{} is out of range: give 1 to {SIZE_LIMIT}", value.unwrap_or_default()),
        );
    }
    let max_size = spec.max_size.unwrap_or(spec.size);
    faults.require(max_size >= spec.size, "spec.maxSize", || {
        format!("{max_size} is less than size {}: raise maxSize or lower size", spec.size)
    });
    let min_size = spec.min_size.unwrap_or(spec.size);
    faults.require(min_size <= spec.size, "spec.minSize", || {
        format!("{min_size} is greater than size {}: lower minSize or raise size", spec.size)
    });
    faults.require(spec.tasks >= 0, "spec.tasks", || {
        format!("{} is negative: give 0 for nodes only, or a number of tasks", spec.tasks)
    });
    faults.require(spec.deadline_seconds >= 1, "spec.deadlineSeconds", || {
        format!("{} is no deadline: give at least 1 second, or leave it out", spec.deadline_seconds)
    });
    faults.require(spec.backoff_limit.is_none_or(|limit| limit >= 0), "spec.backoffLimit", || {
        "negative: give 0 for no further attempt, or a number of attempts".to_owned()
    });
    Sizes {
        size: spec.size.unsigned_abs(),
        max_size: max_size.unsigned_abs(),
        min_size: spec.min_size.map(i32::unsigned_abs),
    }
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

/// Checks keys and values of labels.
fn labels(path: &str, labels: &BTreeMap<String, String>, faults: &mut Faults) {
    for (key, value) in labels {
        faults.require(is_label_key(key), format!("{path}[{key}]"), || {
            format!("{key:?} cannot be the key of a label: use letters, digits, '-', '_', '.' after an optional DNS prefix and '/'")
        });
        faults.require(is_label_value(value), format!("{path}[{key}]"), || {
            format!("{value:?} cannot be the value of a label: use at most 63 letters, digits, '-', '_', '.'")
        });
    }
}
