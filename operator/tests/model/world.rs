//! A simulated cluster with the operator, on which actions are played.

use crate::action::{Action, Fate, NodeFate, SERVICES_POD, SMALLEST, Tampering};
use crate::support::role;
use crate::support::world::{CLUSTER, CONFIG, JOB, PODS, SECRETS, control, new_operator};
use flux_contract::{Exit, labels};
use flux_operator::metrics::Metrics;
use flux_testkit::agent::End;
use flux_testkit::clock::Clock;
use flux_testkit::collector::collect;
use flux_testkit::field_path::set;
use flux_testkit::kubelet::{Kubelet, Kubernetes};
use flux_testkit::nodes::pods_on;
use flux_testkit::objects::{
    condition, index_of, is_broker, is_finished, is_over, is_ready, is_suspended,
};
use flux_testkit::queue;
use flux_testkit::server::Server;
use flux_testkit::store::Store;
use json_patch::merge;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

const CLUSTERS: &str = "/apis/flux-framework.org/v1alpha2/namespaces/work/miniclusters";

pub(crate) const SOMEBODY: &str = "example.org/somebody";

/// Time in which all tasks run until they wait: the paused clock advances only then.
const MOMENT: Duration = Duration::from_millis(1);
/// Longest time between two steps of the simulation.
const LONGEST_STEP: Duration = Duration::from_mins(1);
/// Nothing is due any more when nothing has happened for longer than a pause: of an operator that has
/// nothing to complain of, while all pods are there.
const CALM: Duration = Duration::from_secs(70);
/// The same for every pause.
const QUIET: Duration = Duration::from_mins(11);
/// After this time it should.
const PATIENCE: Duration = Duration::from_hours(5);

/// A cluster with the operator in it.
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) clock: Clock,
    pub(crate) kubernetes: Kubernetes,
    /// True while the queue admits Jobs.
    admits: bool,
    /// The version at which the simulated controllers had nothing to do.
    idle_since: Option<u64>,
    operator: Option<JoinHandle<()>>,
    /// Of the operators so far.
    pub(crate) metrics: Arc<Metrics>,
    /// Somebody has taken a name, or an object from its MiniCluster, or its label from it: no watch brings
    /// that, so the operator finds out when it looks the next time.
    pub(crate) unheard: bool,
    /// Somebody has deleted a Secret, which is made once: pods that come later wait for it.
    pub(crate) lacks_secret: bool,
}

impl World {
    pub(crate) fn new() -> Self {
        let server = role::server();
        let clock = server.with(|memory| memory.store.clock);
        server.with(|memory| memory.store.has_queue = true);
        server.deliver_all_except(&[]);
        let mut world = Self {
            server,
            clock,
            kubernetes: Kubernetes::default(),
            admits: true,
            idle_since: None,
            operator: None,
            metrics: Arc::new(Metrics::default()),
            unheard: false,
            lacks_secret: false,
        };
        world.restart();
        world
    }

    /// Ends the operator and begins another, which remembers nothing. What the first has asked for may
    /// still have its effect.
    pub(crate) fn restart(&mut self) {
        if let Some(operator) = self.operator.take() {
            operator.abort();
        }
        let clock = self.clock;
        let mut context = new_operator(&self.server, &self.metrics);
        context.clock = Box::new(move || clock.now());
        self.operator = Some(tokio::spawn(control(Arc::new(context))));
    }

    pub(crate) fn store<T>(&self, work: impl FnOnce(&mut Store) -> T) -> T {
        self.server.with(|memory| work(&mut memory.store))
    }

    pub(crate) async fn happen(&mut self, action: Action) {
        self.server.note(&format!("{action:?}"));
        match action {
            Action::Create(fields) => self.create(fields),
            Action::Edit(path, value) => self.edit(path, value),
            Action::DeleteCluster { foreground } => {
                let policy = if foreground { "Foreground" } else { "Background" };
                let _ =
                    self.store(|it| it.delete(CLUSTER, &json!({ "propagationPolicy": policy })));
            }
            Action::Pod(index, fate) => self.befall(index, fate),
            Action::Node(number, fate) => self.befall_node(number, fate),
            Action::Tidy => self.tidy(),
            Action::CommandEnds(code) => self.end_command(code),
            Action::Remove(path) => self.remove(path),
            Action::Tamper(path, how) => self.tamper(path, how),
            Action::Occupy { path, predecessor } => self.occupy(path, predecessor),
            Action::Vacate(path) => self.vacate(path),
            Action::Queue { admits } => (self.admits, self.idle_since) = (admits, None),
            Action::Restart => self.restart(),
            Action::Fail(fault) => self.server.with(|memory| memory.faults.requests.push(fault)),
            Action::Lag(kinds) => self.server.deliver_all_except(kinds),
            Action::CatchUp => self.server.deliver_all_except(&[]),
            Action::Answers(number) => {
                self.server.limit_answers(Some(number));
                tokio::time::sleep(MOMENT).await;
            }
            Action::Act => self.act().await,
            Action::ClusterActs => self.cluster_acts(),
            Action::Wait(seconds) => {
                for _ in 0..seconds {
                    self.act().await;
                    self.cluster_acts();
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
                self.act().await;
            }
        }
        // The next request of the operator waits for an answer.
        self.server.limit_answers(Some(0));
    }

    /// Lets the operator run until it waits.
    async fn act(&self) {
        self.server.limit_answers(None);
        tokio::time::sleep(MOMENT).await;
    }

    /// Lets the simulated controllers do one step each, if an object has changed since they found nothing to do, or
    /// the time may have made something due.
    fn cluster_acts(&mut self) {
        self.server.with(|memory| {
            let store = &mut memory.store;
            let before = store.version;
            let is_due = has_deadline(store)
                || lacks_pods(store)
                || self.kubernetes.kubelet.nodes.is_any_lost();
            if self.idle_since == Some(before) && !is_due {
                return;
            }
            queue::direct(store, self.admits);
            self.kubernetes.act(store);
            collect(store);
            self.idle_since = Some(store.version).filter(|after| *after == before);
        });
    }

    /// Lets operator and controllers work without faults until nothing is due. Returns an error if that never
    /// comes.
    pub(crate) async fn settle(&mut self) -> Result<(), String> {
        self.server.note("settle");
        self.server.with(|memory| memory.faults.requests.clear());
        self.kubernetes.kubelet.nodes.find_all();
        self.idle_since = None;
        self.server.deliver_all_except(&[]);
        let (begin, mut quiet, mut step) =
            (self.clock.now(), Duration::ZERO, Duration::from_secs(1));
        while quiet < CALM
            || self.store(|store| has_deadline(store) || (quiet < QUIET && is_uneasy(store)))
        {
            let before = self.store(|store| store.version);
            self.act().await;
            self.cluster_acts();
            tokio::time::sleep(step).await;
            if self.store(|store| store.version) == before {
                quiet += step;
                step = (step * 2).min(LONGEST_STEP);
            } else {
                (quiet, step) = (Duration::ZERO, Duration::from_secs(1));
            }
            if self.clock.now().duration_since(begin).unsigned_abs() > PATIENCE {
                return Err(format!("something still happens after {PATIENCE:?}"));
            }
        }
        Ok(())
    }

    pub(crate) fn create(&mut self, fields: &str) {
        let mut object: Value = serde_saphyr::from_str(SMALLEST).unwrap();
        merge(&mut object, &serde_saphyr::from_str(fields).unwrap());
        // There may be one.
        let _ = self.store(|store| store.create(CLUSTERS, &object));
    }

    fn edit(&self, path: &str, value: Value) {
        self.store(|store| {
            let Some(mut object) = store.get(CLUSTER).cloned() else { return };
            set(&mut object["spec"], path, 0, value);
            store.replace(CLUSTER, &object).unwrap();
        });
    }

    fn pod(&self, index: u64) -> Option<(String, Arc<Value>)> {
        self.store(|store| store.select(PODS, |pod| is_broker(pod) && index_of(pod) == index).pop())
    }

    fn befall(&mut self, index: u64, fate: Fate) {
        let Some((path, pod)) = self.pod(index) else { return };
        // The end of a pod on a lost node is not reported.
        let lost = self.kubernetes.kubelet.nodes.are_lost_to(&pod);
        let runs = !lost && !is_over(&pod) && pod["status"]["phase"] == "Running";
        let starts =
            !lost && pod["status"]["phase"] == "Pending" && !pod["spec"]["nodeName"].is_null();
        self.store(|store| {
            let end = match fate {
                Fate::Deleted => {
                    let _ = store.delete(&path, &Value::Null);
                    return;
                }
                Fate::DeletedAtStart => {
                    let _ = store.delete(&path, &Value::Null);
                    if starts {
                        Kubelet::end(store, &path, &End { code: 2, message: None });
                    }
                    return;
                }
                Fate::Evicted => return Kubelet::evict(store, &path),
                Fate::Refused if runs || starts => return Kubelet::refuse(store, &path),
                Fate::Refused => return,
                Fate::Killed => End::killed(),
                Fate::Ended(code) => match Exit::from_code(code) {
                    Some(exit) => End::of_agent(exit, index == 0 && is_ready(&pod)),
                    None if index == 0 && is_ready(&pod) => End::of_command(code),
                    None => End { code, message: None },
                },
            };
            if runs {
                Kubelet::end(store, &path, &end);
            }
        });
    }

    fn befall_node(&mut self, number: usize, fate: NodeFate) {
        self.idle_since = None;
        let nodes = &mut self.kubernetes.kubelet.nodes;
        self.server.with(|memory| {
            let store = &mut memory.store;
            match fate {
                NodeFate::Lost => nodes.lose(number, store),
                NodeFate::Back => drop(nodes.find(number)),
                NodeFate::Rebooted if nodes.find(number) => {
                    for (path, pod) in pods_on(number, store) {
                        if pod["status"]["phase"] == "Running" {
                            Kubelet::end(store, &path, &End { code: 255, message: None });
                        }
                    }
                }
                NodeFate::Rebooted => {}
                NodeFate::GivenUp => nodes.give_up(number, store),
                NodeFate::Drained => {
                    for (path, _) in pods_on(number, store) {
                        Kubelet::evict(store, &path);
                    }
                }
            }
        });
    }

    fn end_command(&mut self, code: i32) {
        let runs = |pod: &Value| is_ready(pod) && !self.kubernetes.kubelet.nodes.are_lost_to(pod);
        if let Some((path, _)) = self.pod(0).filter(|(_, pod)| runs(pod)) {
            let end = End::of_command(code);
            self.store(|store| Kubelet::end(store, &path, &end));
        }
    }

    fn tidy(&self) {
        self.store(|store| {
            for (path, _) in store.select(PODS, is_over) {
                let _ = store.delete(&path, &Value::Null);
            }
        });
    }

    fn remove(&mut self, path: &str) {
        self.lacks_secret |= path == SECRETS;
        self.store(|store| {
            let secret = store.inside(SECRETS).next().map(|(path, _)| path.clone());
            let path = if path == SECRETS { secret } else { Some(path.to_owned()) };
            if let Some(path) = path.filter(|path| is_ours(store, path)) {
                let _ = store.delete(&path, &json!({ "propagationPolicy": "Background" }));
            }
        });
    }

    fn tamper(&mut self, path: &str, how: Tampering) {
        self.unheard |= matches!(how, Tampering::Disowned | Tampering::Unlabelled);
        let changes = match (how, kind_of(path)) {
            (Tampering::Changed, "Job") => {
                json!({ "spec": { "completions": 2, "parallelism": 2 } })
            }
            (Tampering::Changed, "Service") => {
                json!({ "spec": { "ports": [], "selector": { "app": "other" } } })
            }
            (Tampering::Changed, "ConfigMap") => json!({ "data": { "theirs": "1" } }),
            (Tampering::Suspended | Tampering::Resumed, "Job") => {
                json!({ "spec": { "suspend": how == Tampering::Suspended } })
            }
            // Pods cannot be changed; the pods of a disowned Job would go on as if it were ours.
            (Tampering::Changed | Tampering::Suspended | Tampering::Resumed, _)
            | (Tampering::Disowned, "Job") => return,
            (Tampering::Unlabelled, _) => {
                json!({ "metadata": { "labels": { labels::MANAGED_BY: null } } })
            }
            (Tampering::Disowned, _) => json!({ "metadata": { "ownerReferences": null } }),
            (Tampering::Labelled, _) => json!({ "metadata": { "labels": { "theirs": "1" } } }),
        };
        self.store(|store| {
            if is_ours(store, path) {
                let _ = store.merge(path, &changes);
            }
        });
    }

    fn occupy(&mut self, path: &str, predecessor: bool) {
        self.unheard = true;
        self.store(|store| {
            if store.get(path).is_some() {
                return;
            }
            let (collection, name) = path.rsplit_once('/').unwrap();
            let kind = kind_of(path);
            let version = if kind == "Job" { "batch/v1" } else { "v1" };
            let mut object = json!({
                "apiVersion": version, "kind": kind, "spec": { "template": {}, "containers": [] },
                "metadata": { "name": name, "namespace": "work", "annotations": { SOMEBODY: "true" } },
            });
            if predecessor {
                object["metadata"]["ownerReferences"] = json!([{
                    "apiVersion": "flux-framework.org/v1alpha2", "kind": "MiniCluster", "name": "hello",
                    "uid": "of-the-one-before", "controller": true,
                }]);
            }
            store.create(collection, &object).unwrap();
        });
    }

    fn vacate(&self, path: &str) {
        self.store(|store| {
            if !is_ours(store, path) {
                let _ = store.delete(path, &Value::Null);
            }
        });
    }
}

/// The kind of one of [`OBJECTS`](crate::action::OBJECTS).
fn kind_of(path: &str) -> &'static str {
    match path {
        JOB => "Job",
        CONFIG => "ConfigMap",
        SERVICES_POD => "Pod",
        _ => "Service",
    }
}

/// True while the operator may try something again, or the Job may make a pod again.
fn is_uneasy(store: &Store) -> bool {
    let progressing =
        store.get(CLUSTER).and_then(|cluster| condition(&cluster["status"], "Progressing"));
    let calm = ["Running", "Finished", "NotRunAgain", "ChangeRefused", "Invalid", "Suspended"];
    let is_calm = progressing.is_some_and(|it| calm.iter().any(|reason| it["reason"] == *reason));
    (store.get(CLUSTER).is_some() && !is_calm) || lacks_pods(store)
}

fn job_under_way(store: &Store) -> Option<&Value> {
    store.get(JOB).filter(|job| owned_by_cluster(job).is_some() && !is_finished(job))
}

/// True while the Job has fewer pods than it should.
fn lacks_pods(store: &Store) -> bool {
    let active = job_under_way(store).filter(|job| !is_suspended(job));
    let size = active.and_then(|job| job["spec"]["parallelism"].as_u64());
    let pods = store.inside(PODS).filter(|(_, pod)| is_broker(pod) && !is_over(pod));
    let pods = pods.count() as u64;
    size.is_some_and(|size| pods < size)
}

/// True while the Job waits for a deadline that comes.
fn has_deadline(store: &Store) -> bool {
    let active = job_under_way(store).filter(|job| !is_suspended(job));
    let deadline = active.and_then(|job| job["spec"]["activeDeadlineSeconds"].as_u64());
    deadline.is_some_and(|seconds| Duration::from_secs(seconds) < PATIENCE)
}

fn is_ours(store: &Store, path: &str) -> bool {
    store.get(path).is_some_and(|object| owned_by_cluster(object).is_some())
}

/// The uid of the MiniCluster that the operator made `object` for.
pub(crate) fn owned_by_cluster(object: &Value) -> Option<&str> {
    if object["metadata"]["annotations"][SOMEBODY].is_string() {
        return None;
    }
    let owner = &object["metadata"]["ownerReferences"][0];
    (owner["kind"] == "MiniCluster").then(|| owner["uid"].as_str()).flatten()
}
