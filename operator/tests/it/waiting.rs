//! Requests to the API server for MiniClusters that wait, counted in paused time.

use crate::prelude::*;
use jiff::Timestamp;
use tokio::time::sleep;

const CLUSTERS: &str = "/apis/flux-framework.org/v1alpha2/namespaces/work/miniclusters";
const JOBS: &str = "/apis/batch/v1/namespaces/work/jobs";

/// Number of MiniClusters that wait.
const CROWD: usize = 100;
/// Most requests in a second, however many wait.
const PEAK: usize = 5;
/// Most requests per second on average, of a thousand that wait.
const BUDGET: usize = 5;
/// Time until the pauses between checks have their full length.
const CALM: Duration = Duration::from_mins(7);
/// Time in which requests are counted: two of the longest pauses.
const MEASURED: Duration = Duration::from_mins(10);
/// Time after the start of a Job in which its pods are not checked.
const START: Duration = Duration::from_secs(6);
/// Time in which a single MiniCluster is read and written.
const SOON: Duration = Duration::from_secs(2);
const FULL: &str = "0/1 nodes are available: 1 Insufficient cpu.";

/// An operator, and MiniClusters whose Jobs it has created.
struct Crowd {
    server: Server,
    jobs: JobController,
}

impl Crowd {
    async fn new(count: usize, size: usize, labels: Value) -> Self {
        let server = role::server();
        server.deliver_all_except(&[]);
        let clock = server.with(|memory| {
            memory.store.has_queue = true;
            memory.store.clock
        });
        let mut context = new_operator(&server, &Arc::default());
        context.clock = Box::new(move || clock.now());
        tokio::spawn(control(Arc::new(context)));
        let mut crowd = Self { server, jobs: JobController::default() };
        // All watches have begun.
        sleep(SOON).await;
        for number in 0..count {
            crowd.create(&name(number), size, labels.clone());
        }
        sleep(SOON).await;
        crowd.run_jobs();
        sleep(START).await;
        crowd
    }

    fn create(&self, name: &str, size: usize, labels: Value) {
        let mut object = serde_json::to_value(hello(&json!({ "size": size }))).unwrap();
        object["metadata"]["name"] = json!(name);
        object["metadata"]["uid"] = Value::Null;
        object["metadata"]["labels"] = labels;
        self.server.put(&format!("{CLUSTERS}/{name}"), object);
    }

    /// Lets the Job controller create pods and write the status.
    fn run_jobs(&mut self) {
        for _ in 0..2 {
            self.server.with(|memory| self.jobs.sync(&mut memory.store));
        }
    }

    fn set_pods(&self, status: impl Fn(u64) -> Value) {
        self.server.with(|memory| {
            for (path, pod) in memory.store.select(PODS, is_broker) {
                let mut status = status(index_of(&pod));
                if let Some(runner) = status.pointer_mut("/containerStatuses/0/name") {
                    *runner = pod["metadata"]["labels"]["batch.kubernetes.io/job-name"].clone();
                }
                memory.store.set_status(&path, status);
            }
        });
    }

    /// The requests of the next `time`, without watches and the request about image volumes.
    async fn requests(&self, time: Duration) -> Requests {
        let before = self.server.journal().len();
        sleep(time).await;
        let journal = self.server.journal().split_off(before);
        let of_crowd =
            |line: &&String| !line.contains("watch=true") && !line.contains(" /version ");
        Requests(journal.iter().filter(of_crowd).cloned().collect())
    }

    fn status(&self, name: &str) -> Value {
        self.server.get(&format!("{CLUSTERS}/{name}")).unwrap()["status"].clone()
    }

    fn message(&self, name: &str, type_: &str) -> String {
        let status = self.status(name);
        let mut conditions = status["conditions"].as_array().unwrap().iter();
        let found = conditions.find(|it| it["type"] == type_).unwrap();
        found["message"].as_str().unwrap().to_owned()
    }

    /// Number of MiniClusters whose condition has `message`.
    fn count(&self, type_: &str, message: &str) -> usize {
        let names = (0..CROWD).map(name);
        names.filter(|name| self.message(name, type_).contains(message)).count()
    }
}

/// Lines of the server's journal.
struct Requests(Vec<String>);

impl Requests {
    fn most(&self) -> usize {
        let mut seconds = BTreeMap::new();
        for line in &self.0 {
            let second: Timestamp = line.split(' ').next().unwrap().parse().unwrap();
            *seconds.entry(second).or_default() += 1;
        }
        seconds.into_values().max().unwrap_or_default()
    }

    fn with(&self, words: &[&str]) -> Self {
        let has = |line: &&String| words.iter().all(|word| line.contains(word));
        Self(self.0.iter().filter(has).cloned().collect())
    }

    fn of_whole_pods(&self) -> usize {
        let pods = self.with(&[&format!("GET {PODS}")]).0;
        pods.iter().filter(|line| !line.ends_with("of metadata")).count()
    }
}

fn name(number: usize) -> String {
    format!("hello-{number}")
}

fn unscheduled(message: &str) -> Value {
    let condition = json!({ "type": "PodScheduled", "status": "False", "message": message });
    json!({ "phase": "Pending", "conditions": [condition] })
}

/// A pod with a node, without a reason why it does not start.
fn silent() -> Value {
    json!({ "phase": "Pending", "conditions": [{ "type": "PodScheduled", "status": "True" }] })
}

/// The lead is ready, and the others are as `others` says.
fn led(others: Value) -> impl Fn(u64) -> Value {
    move |index| if index > 0 { others.clone() } else { ready("") }
}

#[tokio::test(start_paused = true)]
async fn many_waiting_for_nodes_read_nothing_and_write_slowly() {
    let crowd = Crowd::new(CROWD, 2, json!({})).await;
    crowd.set_pods(|_| unscheduled(FULL));
    sleep(CALM).await;
    let told = format!("has no node: {FULL}; and 1 more pod is not ready");
    assert_eq!(crowd.count("Progressing", &told), CROWD);
    let rest = crowd.requests(MEASURED).await;
    assert_eq!(rest.0, [""; 0]);
    // Another reason, for all of them at once, while one starts.
    crowd.set_pods(|_| unscheduled("0/2 nodes are available: 2 Insufficient cpu."));
    crowd.create("starts", 2, json!({}));
    let change = crowd.requests(SOON).await;
    assert!(crowd.server.get(&format!("{JOBS}/starts")).is_some());
    assert_eq!(change.with(&["PATCH", "starts/status"]).0.len(), 1, "it does not wait");
    let rest = crowd.requests(CALM).await;
    assert_eq!(crowd.count("Progressing", "0/2 nodes"), CROWD);
    assert!(rest.most() <= PEAK, "{}", rest.most());
    assert_eq!(rest.of_whole_pods(), 0);
}

#[tokio::test(start_paused = true)]
async fn many_workers_without_a_node_are_checked_at_a_limited_rate() {
    check_many_waiting_workers(unscheduled(FULL), "has no node").await;
}

#[tokio::test(start_paused = true)]
async fn many_workers_without_a_volume_are_checked_at_a_limited_rate() {
    check_many_waiting_workers(silent(), "FailedMount").await;
}

/// Counts the requests for many MiniClusters whose workers have the status `others`, and wait for the reason `told`.
async fn check_many_waiting_workers(others: Value, told: &str) {
    let mut crowd = Crowd::new(CROWD, 3, json!({})).await;
    crowd.set_pods(led(others.clone()));
    crowd.run_jobs();
    for (path, pod) in crowd.server.with(|memory| memory.store.select(PODS, is_broker)) {
        let name = path.rsplit('/').next().unwrap();
        let event = json!({
            "metadata": { "name": name }, "involvedObject": { "uid": pod["metadata"]["uid"] },
            "type": "Warning", "reason": "FailedMount", "message": "no such claim",
            "lastTimestamp": "2026-01-01T00:00:00Z",
        });
        crowd.server.put(&format!("/api/v1/namespaces/work/events/{name}"), event);
    }
    sleep(CALM).await;
    assert_eq!(crowd.count("Progressing", told), CROWD);
    let rest = crowd.requests(MEASURED).await;
    let seconds = usize::try_from(MEASURED.as_secs()).unwrap();
    assert!(rest.most() <= PEAK, "{told}: {}", rest.most());
    let all = rest.0.len();
    assert!((CROWD..=BUDGET * seconds * CROWD / 1000).contains(&all), "{told}: {all}");
    assert_eq!(rest.of_whole_pods(), 0, "{told}");
    // A new reason is found by the checks that list pods: at least every other one.
    crowd.set_pods(led(unscheduled("another reason")));
    sleep(MEASURED + CALM).await;
    assert_eq!(crowd.count("Progressing", "another reason"), CROWD, "{told}");
}

#[tokio::test(start_paused = true)]
async fn a_large_waiting_minicluster_costs_as_much_as_a_small() {
    let mut costs = Vec::new();
    for (size, is_silent) in [(3, false), (3, true), (80, false), (80, true)] {
        let mut crowd = Crowd::new(1, size, json!({})).await;
        crowd.set_pods(led(if is_silent { silent() } else { unscheduled(FULL) }));
        crowd.run_jobs();
        sleep(CALM).await;
        costs.push(crowd.requests(4 * MEASURED).await.0.len());
    }
    assert!((1..=10).contains(&costs[0]), "{costs:?}");
    assert_eq!(costs[..2], costs[2..]);
}

/// A check of refused pods reads Events and the namespace.
#[tokio::test(start_paused = true)]
async fn refused_pods_are_checked_less_and_less_often() {
    let crowd = Crowd::new(1, 2, json!({})).await;
    let job = format!("{JOBS}/{}", name(0));
    crowd.server.change(&job, |job| job["status"]["active"] = json!(0));
    let first = crowd.requests(CALM).await.with(&["/events?"]).0.len();
    assert!((2..=5).contains(&first), "{first}");
    let rest = crowd.requests(MEASURED).await.0.len();
    assert!((1..=3).contains(&rest), "{rest}");
    crowd.server.change(&job, |job| job["status"]["active"] = json!(1));
    assert_eq!(crowd.requests(SOON).await.with(&["/events?"]).0.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn many_in_a_queue_ask_for_nothing() {
    let crowd = Crowd::new(CROWD, 2, json!({ "kueue.x-k8s.io/queue-name": "team" })).await;
    sleep(CALM).await;
    assert_eq!(crowd.count("Suspended", "waits in the queue team"), CROWD);
    assert_eq!(crowd.requests(MEASURED).await.0, [""; 0]);
}
