//! The MiniCluster that a command line names, and its pods.

use crate::completion::names;
use crate::connection::Connection;
use crate::error::{is_temporary, print_error};
use anyhow::{Context as _, Result, anyhow, bail};
use clap::{ArgMatches, Args};
use clap_complete::engine::ArgValueCompleter;
use flux_api::cluster::validate::is_label;
use flux_api::crd::MiniCluster;
use flux_contract::Layout;
use flux_contract::labels::{COMPLETION_INDEX, JOB_NAME};
use futures::future::join_all;
use futures::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod};
use kube::ResourceExt as _;
use kube::api::{Api, ApiResource, DeleteParams, ListParams, Patch, PatchParams};
use kube::core::{DynamicObject, PartialObjectMeta};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use serde_json::Value;
use std::collections::BTreeMap;
use std::future::ready;
use std::pin::pin;
use std::process::ExitCode;

/// Stands for the newest MiniCluster of the namespace.
pub(crate) const LAST: &str = "@last";
/// Kind and group, as kubectl prints them before a name.
pub(crate) const FULL_KIND: &str = "minicluster.flux-framework.org";
/// What may stand before the slash of a name, with or without the group.
const KINDS: [&str; 4] = ["mc", "fmc", "minicluster", "miniclusters"];

#[derive(Debug, Clone, Args)]
pub(crate) struct NameArgument {
    /// Name of the MiniCluster; `@last` is the newest
    #[arg(value_parser = name, add = ArgValueCompleter::new(names))]
    pub name: String,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct NamesArgument {
    /// Names of MiniClusters; `@last` is the newest
    #[arg(required = true, value_name = "NAME")]
    #[arg(value_parser = name, add = ArgValueCompleter::new(names))]
    pub names: Vec<String>,
}

/// Reads a name of a MiniCluster, with or without its kind, or [`LAST`].
pub(crate) fn name(text: &str) -> Result<String, String> {
    let (kind, name) = text.split_once('/').unwrap_or((FULL_KIND, text));
    if !KINDS.contains(&kind.trim_end_matches(".flux-framework.org")) {
        return Err(format!("{kind} is not the kind minicluster: give NAME or minicluster/NAME"));
    }
    if name != LAST && !is_label(name) {
        return Err(format!(
            "a name has lower-case letters, digits and '-', at most 63: \
             `kubectl flux list` shows the names, {LAST} is the newest"
        ));
    }
    Ok(name.to_owned())
}

/// Reads the name of a MiniCluster that does not exist yet.
pub(crate) fn new_name(text: &str) -> Result<String, String> {
    let name = name(text)?;
    if name == LAST { Err(format!("{LAST} is the newest MiniCluster")) } else { Ok(name) }
}

/// Whether a name, or the name in a place of `cp`, is [`LAST`] on this command line.
pub(crate) fn names_last(matches: &ArgMatches) -> bool {
    let Some((_, matches)) = matches.subcommand() else { return false };
    let values = |id| matches.try_get_raw(id).ok().flatten();
    let mut values = ["name", "names", "from", "to"].into_iter().filter_map(values).flatten();
    values.any(|value| {
        let text = value.to_string_lossy();
        text.split([':', '[']).next().is_some_and(|name| name.ends_with(LAST))
    })
}

pub(crate) fn targets(connection: &Connection, names: &[String]) -> Vec<MiniClusterRef> {
    names.iter().map(|name| MiniClusterRef::new(connection.clone(), name)).collect()
}

impl NameArgument {
    pub(crate) fn target(&self, connection: Connection) -> MiniClusterRef {
        MiniClusterRef::new(connection, &self.name)
    }
}

impl NamesArgument {
    pub(crate) async fn each(
        &self,
        connection: &Connection,
        act: impl AsyncFn(MiniClusterRef) -> Result<()>,
    ) -> ExitCode {
        each(targets(connection, &self.names), act).await
    }
}

/// A reference to a MiniCluster in a namespace of a cluster; it need not exist.
#[derive(Clone)]
pub(crate) struct MiniClusterRef {
    pub connection: Connection,
    pub name: String,
}

impl MiniClusterRef {
    /// `name` is checked, and may be [`LAST`].
    pub(crate) fn new(connection: Connection, name: &str) -> Self {
        let last = connection.last.clone().filter(|_| name == LAST);
        let name = last.unwrap_or_else(|| name.to_owned());
        Self { connection, name }
    }

    pub(crate) fn full_name(&self) -> String {
        format!("{FULL_KIND}/{}", self.name)
    }

    pub(crate) fn absent(&self) -> anyhow::Error {
        anyhow!(
            "there is no MiniCluster {} in the namespace {}: `kubectl flux list -A` lists all MiniClusters",
            self.name,
            self.connection.namespace
        )
    }

    pub(crate) async fn get(&self) -> Result<MiniCluster> {
        let object = self.object().await?;
        object.try_parse().with_context(|| format!("read the MiniCluster {}", self.name))
    }

    /// The MiniCluster with all its fields, those of newer operators, too.
    pub(crate) async fn object(&self) -> Result<DynamicObject> {
        let found = objects(&self.connection, false).get_opt(&self.name).await;
        let found = found.with_context(|| format!("read the MiniCluster {}", self.name))?;
        found.ok_or_else(|| self.absent())
    }

    /// Merges `patch` into the MiniCluster; `change` describes that in errors.
    pub(crate) async fn merge(&self, patch: Value, change: &str) -> Result<()> {
        self.object().await?;
        let api = objects(&self.connection, false);
        let patched = api.patch(&self.name, &PatchParams::default(), &Patch::Merge(patch)).await;
        patched.map(drop).with_context(|| change.to_owned())
    }

    /// Asks the API server to delete the MiniCluster, which exists until its pods are gone. Returns its uid; `None` if
    /// there is none.
    pub(crate) async fn delete(&self, dry_run: bool) -> Result<Option<String>> {
        let api = self.connection.api::<PartialObjectMeta<MiniCluster>>();
        match api.delete(&self.name, &DeleteParams { dry_run, ..DeleteParams::foreground() }).await
        {
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
            Ok(answer) => {
                let uid = answer.either(|going| going.metadata.uid, |gone| Some(gone.details?.uid));
                Ok(Some(uid.unwrap_or_default()))
            }
            Err(error) => {
                Err(error).with_context(|| format!("delete the MiniCluster {}", self.name))
            }
        }
    }

    /// The newest pod of each rank, by rank.
    pub(crate) async fn pods(&self) -> Result<BTreeMap<u32, Pod>> {
        let pods = self.pod_list().await?.into_iter();
        Ok(pods.filter_map(|pod| Some((rank(&pod)?, pod))).collect())
    }

    /// All pods of the Job, the newest last: a rank may have several, of which all but the last have failed.
    pub(crate) async fn pod_list(&self) -> Result<Vec<Pod>> {
        let parameters = ListParams::default().labels(&self.selector());
        let list = self.connection.api::<Pod>().list(&parameters).await;
        let mut pods = list.with_context(|| format!("list the pods of {}", self.name))?.items;
        pods.sort_by_key(|pod| pod.creation_timestamp().map(|at| at.0));
        Ok(pods)
    }

    /// The MiniCluster after each change, `None` after its deletion.
    pub(crate) fn changes(&self) -> impl Stream<Item = Result<Option<MiniCluster>>> + use<> {
        object_after(watcher(self.connection.api(), self.watch_config()).default_backoff())
    }

    fn watch_config(&self) -> watcher::Config {
        self.connection.watch_config().fields(&format!("metadata.name={}", self.name))
    }

    /// Waits until `find` returns a value for the MiniCluster, or for `None` if there is none.
    pub(crate) async fn until<T>(
        &self,
        find: impl FnMut(Option<MiniCluster>) -> Result<Option<T>>,
    ) -> Result<T> {
        Box::pin(first(self.changes(), find)).await
    }

    /// Waits until the MiniCluster with this uid is gone, by default that which exists now.
    pub(crate) async fn until_gone(&self, mut uid: Option<String>) -> Result<()> {
        let metadata = self.connection.api::<PartialObjectMeta<MiniCluster>>();
        let events = watcher(metadata, self.watch_config());
        let is_gone = |found: Option<PartialObjectMeta<MiniCluster>>| {
            let found = found.and_then(|found| found.metadata.uid);
            let is_same =
                found.is_some_and(|found| *uid.get_or_insert_with(|| found.clone()) == found);
            Ok((!is_same).then_some(()))
        };
        Box::pin(first(object_after(events.default_backoff()), is_gone)).await
    }

    fn selector(&self) -> String {
        format!("{JOB_NAME}={}", self.name)
    }

    /// The pods of `rank` or of all ranks, each after each change.
    pub(crate) fn pod_changes(
        &self,
        rank: Option<u32>,
    ) -> impl Stream<Item = watcher::Result<Pod>> + use<> {
        let index = rank.map(|rank| format!(",{COMPLETION_INDEX}={rank}")).unwrap_or_default();
        let selector = format!("{}{index}", self.selector());
        let events =
            watcher(self.connection.api(), self.connection.watch_config().labels(&selector));
        events.default_backoff().applied_objects()
    }

    /// The pod of this rank; fails unless its runner runs.
    pub(crate) async fn running_pod(&self, rank: u32) -> Result<Pod> {
        let name = &self.name;
        let mut pods = self.pods().await?;
        let Some(pod) = pods.remove(&rank) else {
            if pods.is_empty() {
                let state = self.get().await?.state().map(|state| state.to_string());
                let state = state.unwrap_or_else(|| "not reconciled yet".to_owned());
                bail!("{name} has no pods: it is {state}; see `kubectl flux explain {name}`");
            }
            let ranks: Vec<String> = pods.keys().map(ToString::to_string).collect();
            bail!("{name} has no pod of rank {rank}; there are {}", ranks.join(", "));
        };
        match runner_state(&pod, name) {
            Some(ContainerState { running: Some(_), .. }) => Ok(pod),
            Some(ContainerState { terminated: Some(_), .. }) => {
                bail!(
                    "rank {rank} of {name} has ended: `kubectl flux logs {name}` prints its output"
                )
            }
            _ => bail!(
                "rank {rank} of {name} is not running yet: `kubectl flux explain {name}` shows why"
            ),
        }
    }
}

/// MiniClusters of the namespace or of `all`, whatever fields they have.
pub(crate) fn objects(connection: &Connection, all: bool) -> Api<DynamicObject> {
    let (client, kind) = (connection.client.clone(), ApiResource::erase::<MiniCluster>(&()));
    if all {
        return Api::all_with(client, &kind);
    }
    Api::namespaced_with(client, &connection.namespace, &kind)
}

/// The object of a watch after each change, `None` after its deletion. The watcher tries again after errors: the only one
/// here is that of the first list, unless the API server is busy or starts.
fn object_after<K>(
    events: impl Stream<Item = watcher::Result<Event<K>>>,
) -> impl Stream<Item = Result<Option<K>>> {
    // `watcher::watch_object` does the same, but takes no configuration.
    let changes = events.scan((false, false), |(is_listed, has_begun), event| {
        *has_begun |= !matches!(event, Ok(Event::Init) | Err(_));
        let change = match event {
            Ok(Event::Init) => {
                *is_listed = false;
                None
            }
            Ok(Event::InitApply(found)) => {
                *is_listed = true;
                Some(Ok(Some(found)))
            }
            Ok(Event::Apply(found)) => Some(Ok(Some(found))),
            Ok(Event::InitDone) => (!*is_listed).then_some(Ok(None)),
            Ok(Event::Delete(_)) => Some(Ok(None)),
            Err(watcher::Error::InitialListFailed(error)) if !*has_begun && !is_busy(&error) => {
                Some(Err(error).context("watch the run"))
            }
            Err(_) => None,
        };
        ready(Some(change))
    });
    changes.filter_map(ready)
}

async fn first<K, T>(
    changes: impl Stream<Item = Result<K>>,
    mut find: impl FnMut(K) -> Result<Option<T>>,
) -> Result<T> {
    let mut changes = pin!(changes);
    while let Some(change) = changes.next().await {
        if let Some(found) = find(change?)? {
            return Ok(found);
        }
    }
    bail!("the watch has ended")
}

/// Acts on all `items` side by side, prints the errors, and fails if there is one.
pub(crate) async fn each<T>(items: Vec<T>, act: impl AsyncFn(T) -> Result<()>) -> ExitCode {
    let act = &act;
    let acts = items.into_iter().map(async |item| act(item).await.inspect_err(print_error).is_ok());
    if join_all(acts).await.into_iter().all(|is_done| is_done) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn is_busy(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code != 404 && is_temporary(status))
}

pub(crate) fn layout(cluster: &MiniCluster) -> Layout {
    Layout::new(cluster.spec.flux.container.mount_path.clone())
}

pub(crate) fn rank(pod: &Pod) -> Option<u32> {
    pod.labels().get(COMPLETION_INDEX)?.parse().ok()
}

/// Whether this is the name of a pod, NAME-INDEX-SUFFIX. Another MiniCluster may be named NAME-SOMETHING.
pub(crate) fn is_of_pod(text: &str, minicluster: &str) -> bool {
    let rest = text.strip_prefix(minicluster).and_then(|rest| rest.strip_prefix('-'));
    rest.and_then(|rest| rest.split('-').next()).is_some_and(|index| index.parse::<u32>().is_ok())
}

/// The status of a container of the pod. The runner, which runs Flux, has the name of its MiniCluster.
pub(crate) fn runner<'pod>(pod: &'pod Pod, name: &str) -> Option<&'pod ContainerStatus> {
    let status = pod.status.as_ref()?;
    let lists = [
        &status.container_statuses,
        &status.init_container_statuses,
        &status.ephemeral_container_statuses,
    ];
    lists.into_iter().flatten().flatten().find(|status| status.name == name)
}

pub(crate) fn runner_state<'pod>(pod: &'pod Pod, name: &str) -> Option<&'pod ContainerState> {
    runner(pod, name)?.state.as_ref()
}

pub(crate) fn is_running(pod: &Pod, container: &str) -> bool {
    runner_state(pod, container).is_some_and(|state| state.running.is_some())
}

/// Whether the container runs or has run.
pub(crate) fn has_log(pod: &Pod, container: &str) -> bool {
    runner_state(pod, container).is_some_and(|state| state.waiting.is_none())
}

#[cfg(test)]
#[test]
fn pod_names_continue_with_an_index() {
    let found = ["a-0-bcdef", "a-12-x", "a-b-0-bcdef", "a-", "a"].map(|name| is_of_pod(name, "a"));
    assert_eq!(found, [true, true, false, false, false]);
}
