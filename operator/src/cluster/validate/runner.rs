//! The container that runs Flux: which one it is, as whom, and its hooks.

use super::{faults::Faults, text::non_empty_owned, work::workload};
use crate::{
    cluster::Runner,
    crd::{self, MiniClusterSpec, UserAccount},
};
use flux_contract::{FluxUser, Hooks};
use k8s_openapi::api::core::v1::Container;

/// Largest uid that Kubernetes accepts in a security context.
const USER_ID_LIMIT: i64 = 2_147_483_647;

/// Which container runs Flux; `None` where there is not exactly one, which the definition refuses.
pub(super) fn runner_position(containers: &[crd::Container]) -> Option<usize> {
    let with = |wanted: Option<bool>| -> Vec<usize> {
        let fits = |(index, container): (usize, &crd::Container)| {
            (container.run_flux == wanted).then_some(index)
        };
        containers.iter().enumerate().filter_map(fits).collect()
    };
    match (containers.len(), &with(Some(true))[..], &with(None)[..]) {
        (1, _, _) => Some(0),
        (_, [only], _) | (_, [], [only]) => Some(*only),
        _ => None,
    }
}

/// Resolves and checks the container at `path` as the one that runs Flux.
pub(super) fn runner(
    path: &str,
    spec: &MiniClusterSpec,
    container: &crd::Container,
    common: Container,
    faults: &mut Faults,
) -> Option<Runner> {
    let commands = container.commands.clone().unwrap_or_default();
    let hooks = Hooks {
        init: non_empty_owned(commands.init.as_ref()),
        pre_command: non_empty_owned(container.pre_command.as_ref()),
        pre: non_empty_owned(commands.pre.as_ref()),
        broker_pre: non_empty_owned(commands.broker_pre.as_ref())
            .or_else(|| non_empty_owned(commands.pre_broker.as_ref())),
        worker_pre: non_empty_owned(commands.worker_pre.as_ref())
            .or_else(|| non_empty_owned(commands.pre_worker.as_ref())),
        post: non_empty_owned(commands.post.as_ref()),
    };
    let user = user(path, container, commands.run_flux_as_root, faults);
    let workload = workload(path, spec, container, faults)?;
    Some(Runner { container: common, user, hooks, workload })
}

fn user(
    path: &str,
    container: &crd::Container,
    run_as_root: bool,
    faults: &mut Faults,
) -> FluxUser {
    let account = container.flux_user.clone().or_else(|| container.fluxuser.clone());
    let UserAccount { uid, name } = account.unwrap_or_default();
    let path = format!("{path}.fluxUser");
    faults.require(uid <= USER_ID_LIMIT, format!("{path}.uid"), || {
        format!("{uid} is out of range: give at most {USER_ID_LIMIT}")
    });
    faults.require(is_account_name(&name), format!("{path}.name"), || {
        format!("{name:?} is no account name: use at most 32 lower-case letters, digits, '_' and '-', not starting with a digit or '-'")
    });
    FluxUser {
        name,
        uid: u32::try_from(uid).unwrap_or_default(),
        run_as_root,
        capabilities: added_capabilities(container),
    }
}

/// Kubernetes gives them to root alone; Flux's user is to have them as well.
fn added_capabilities(container: &crd::Container) -> Vec<String> {
    let context = container.security_context.as_ref();
    let capabilities = context.and_then(|context| context.capabilities.as_ref());
    capabilities.and_then(|capabilities| capabilities.add.clone()).unwrap_or_default()
}

/// A portable account name (useradd(8)).
fn is_account_name(name: &str) -> bool {
    let first = |c: char| c.is_ascii_lowercase() || c == '_';
    name.len() <= 32
        && name.starts_with(first)
        && name.chars().all(|c| first(c) || c.is_ascii_digit() || c == '-')
}
