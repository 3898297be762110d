//! What the containers of one pod have, and what the pod needs for it.

use super::{
    text::{argument_vector, is_absolute_path, non_empty, non_empty_owned},
    violations::Violations,
    volume::Volumes,
};
use crate::{cluster::CORES_VARIABLE, crd};
use k8s_openapi::api::core::v1::{
    Container, ContainerPort, EnvVar, EnvVarSource, ExecAction, Lifecycle, LifecycleHandler,
    LocalObjectReference, PodSpec, ResourceRequirements, SecretKeySelector,
};
use std::collections::{BTreeMap, BTreeSet};

/// The volumes and pull secrets of a pod, found in its containers.
pub(super) struct PodParts<'cluster> {
    volumes: Volumes<'cluster>,
    pull_secrets: BTreeSet<String>,
}

impl<'cluster> PodParts<'cluster> {
    /// Those of a pod without containers; `reserved_paths` are the operator's own.
    pub(super) fn new(reserved_paths: &'cluster [String], pull_secret: Option<String>) -> Self {
        Self {
            volumes: Volumes { reserved_paths, by_name: BTreeMap::new() },
            pull_secrets: pull_secret.into_iter().collect(),
        }
    }

    pub(super) fn into_spec(self, common: &PodSpec) -> PodSpec {
        let secrets = self.pull_secrets.into_iter().map(|name| LocalObjectReference { name });
        let volumes = self.volumes.by_name.into_values().map(|(_, volume)| volume);
        PodSpec {
            image_pull_secrets: non_empty_list(secrets.collect()),
            volumes: non_empty_list(volumes.collect()),
            ..common.clone()
        }
    }

    /// The container `name`, which the specification has at `path`, without its command.
    pub(super) fn container(
        &mut self,
        path: &str,
        name: &str,
        container: &crd::Container,
        faults: &mut Violations,
    ) -> Container {
        if let Some(directory) = non_empty(container.working_dir.as_ref()) {
            faults.require(is_absolute_path(directory), format!("{path}.workingDir"), || {
                format!("{directory:?} is not an absolute path without '..'")
            });
        }
        for variable in container.secrets.keys() {
            let is_given = container.environment.contains_key(variable);
            faults.require(!is_given, format!("{path}.secrets[{variable}]"), || {
                format!("variable {variable:?} is in environment as well: keep one")
            });
        }
        self.pull_secrets.extend(non_empty_owned(container.image_pull_secret.as_ref()));
        let mounts = self.volumes.mount(path, &container.volumes, faults);
        let resources = container.resources.clone();
        Container {
            name: name.to_owned(),
            image: Some(container.image.clone()),
            image_pull_policy: Some(pull_policy(container)),
            working_dir: non_empty_owned(container.working_dir.as_ref()),
            ports: non_empty_list(container.ports.iter().copied().map(container_port).collect()),
            env: Some(environment(container)),
            volume_mounts: non_empty_list(mounts),
            resources: resources.filter(|resources| *resources != ResourceRequirements::default()),
            security_context: container.security_context.clone(),
            lifecycle: lifecycle(path, container, faults),
            termination_message_policy: Some("File".to_owned()),
            ..Container::default()
        }
    }
}

fn pull_policy(container: &crd::Container) -> String {
    let policy = non_empty(container.image_pull_policy.as_ref()).unwrap_or("IfNotPresent");
    if container.pull_always { "Always" } else { policy }.to_owned()
}

fn container_port(container_port: i32) -> ContainerPort {
    let protocol = Some("TCP".to_owned());
    ContainerPort { container_port, protocol, ..ContainerPort::default() }
}

/// The number of cores, literal and secret variables in the order of their names, so that what a
/// variable may refer to with `$(NAME)` does not depend on chance. The user's own win.
fn environment(container: &crd::Container) -> Vec<EnvVar> {
    let literal = |name: &str, value: String| EnvVar {
        name: name.to_owned(),
        value: Some(value),
        value_from: None,
    };
    let cores = container.cores.unwrap_or(1).to_string();
    let cores = (CORES_VARIABLE, literal(CORES_VARIABLE, cores));
    let literals = container.environment.iter();
    let literals = literals.map(|(name, value)| (name.as_str(), literal(name, value.clone())));
    let secrets = container.secrets.iter().map(|(name, crd::SecretKey { name: secret, key })| {
        let reference =
            SecretKeySelector { name: secret.clone(), key: key.clone(), optional: None };
        let source = EnvVarSource { secret_key_ref: Some(reference), ..EnvVarSource::default() };
        (name.as_str(), EnvVar { name: name.clone(), value: None, value_from: Some(source) })
    });
    let all = std::iter::once(cores).chain(literals).chain(secrets);
    all.collect::<BTreeMap<_, _>>().into_values().collect()
}

fn lifecycle(path: &str, container: &crd::Container, faults: &mut Violations) -> Option<Lifecycle> {
    let given = container.life_cycle.clone().unwrap_or_default();
    let mut hook = |field: &str, text: Option<&String>| {
        let vector = argument_vector(non_empty(text)?);
        faults.require(
            vector.as_ref().is_some_and(|vector| !vector.is_empty()),
            format!("{path}.lifeCycle.{field}"),
            || "not a command: close every quote".to_owned(),
        );
        let exec = Some(ExecAction { command: vector });
        Some(LifecycleHandler { exec, ..LifecycleHandler::default() })
    };
    let post_start = hook("postStartExec", given.post_start_exec.as_ref());
    let pre_stop = hook("preStopExec", given.pre_stop_exec.as_ref());
    let lifecycle = Lifecycle { post_start, pre_stop, ..Lifecycle::default() };
    Some(lifecycle).filter(|lifecycle| *lifecycle != Lifecycle::default())
}

/// `None` for an empty list, which the API server would drop anyway.
pub(super) fn non_empty_list<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}
