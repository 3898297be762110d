//! `burst`: what it makes in two clusters, and what it deletes.

use crate::scene::{MINICLUSTERS, Scene};
use serde_json::{Value, json};

const SERVICES: &str = "/api/v1/namespaces/default/services";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const JOB: &str = "/apis/batch/v1/namespaces/default/jobs/root";

/// A cluster in which `root` runs, and another one, the context `far`.
async fn two_clusters() -> (Scene, Scene) {
    let (first, second) = (Scene::new().await, Scene::new().await);
    let config = |scene: &Scene| std::fs::read_to_string(scene.path("kubeconfig")).unwrap();
    let server = config(&second).split('\'').nth(1).unwrap().to_owned();
    let clusters = format!("clusters: [{{name: far, cluster: {{server: '{server}'}}}}, ");
    let contexts = "contexts: [{name: far, context: {cluster: far, user: test}}, ";
    let both = config(&first).replace("clusters: [", &clusters).replace("contexts: [", contexts);
    first.file("kubeconfig", &both);
    first.minicluster("root", "Running", "Running", None);
    let clusters = json!({ "bursting": { "clusters": [{ "name": "burst-0", "size": 2 }] } });
    first.change("root", |root| root["spec"]["flux"] = clusters);
    first.pod("root", 0, "a", "running");
    let volume = json!({ "name": "root-curve", "secret": { "secretName": "root-curve-x" } });
    let job =
        json!({ "spec": { "template": { "spec": { "containers": [], "volumes": [volume] } } } });
    let addresses = json!([
        { "type": "InternalIP", "address": "10.0.0.7" }, { "type": "ExternalIP", "address": "203.0.113.7" },
    ]);
    for (path, mut object) in [
        (JOB, job),
        (&*format!("{SECRETS}/root-curve-x"), json!({ "data": { "curve.cert": "Y2VydA==" } })),
        ("/api/v1/nodes/node", json!({ "status": { "addresses": addresses } })),
    ] {
        object["metadata"] = json!({ "name": path.rsplit('/').next() });
        first.endpoint.server.put(path, object);
    }
    (first, second)
}

#[tokio::test]
async fn a_burst_is_made_in_both_clusters_and_taken_down() {
    let (first, second) = two_clusters().await;
    let line = "burst root --to far --output json";
    let burst = first.start(&line.split(' ').collect::<Vec<_>>());
    burst.reports("created burst-0 with the Secret burst-0-certificate in far").await;
    second.change("burst-0", |new| new["status"] = json!({ "state": "Starting" }));
    burst.reports("burst-0: Starting").await;
    let joined = json!({ "state": "Running", "readyBrokers": 2 });
    second.change("burst-0", |new| new["status"] = joined);
    let ended = burst.end().await;
    assert_eq!(ended.code, 0, "{ended:?}");
    let report: Value = serde_json::from_str(&ended.out).unwrap();
    let expected = json!({
        "lead": "root", "service": "root-burst-0", "address": "203.0.113.7", "port": 30001, "context": "far",
        "name": "burst-0", "secret": "burst-0-certificate", "size": 2, "readyBrokers": 2,
    });
    assert_eq!(report, expected);
    let new = second.get("burst-0").unwrap();
    assert_eq!(new["spec"]["flux"]["bursting"]["leadBroker"]["port"], 30001);
    let secret = second.endpoint.server.get(&format!("{SECRETS}/burst-0-certificate")).unwrap();
    assert_eq!(secret["data"]["curve.cert"], "Y2VydA==");
    assert_eq!(secret["metadata"]["ownerReferences"][0]["uid"], new["metadata"]["uid"]);
    let service = first.endpoint.server.get(&format!("{SERVICES}/root-burst-0")).unwrap();
    assert_eq!(service["metadata"]["ownerReferences"][0]["name"], "root");
    first.each_ends(&[(line, 1, "exists in the namespace default of far")]).await;
    // The Secret of the lead stays.
    first.each_ends(&[("burst root --to far --down", 0, "deleted the Service root-burst-0")]).await;
    assert_eq!(first.endpoint.server.paths(SERVICES), [""; 0]);
    assert_eq!(first.endpoint.server.paths(SECRETS).len(), 1);
    let left = [MINICLUSTERS, SECRETS].map(|path| second.endpoint.server.paths(path).len());
    assert_eq!(left, [0, 0]);
    first.each_ends(&[("burst root --to far --down", 0, "")]).await;
}

#[tokio::test]
async fn what_others_made_is_used_or_left() {
    let (first, second) = two_clusters().await;
    let labels = json!({ "batch.kubernetes.io/job-name": "root", "batch.kubernetes.io/job-completion-index": "0" });
    first.endpoint.server.put(&format!("{SERVICES}/mine"), json!({
        "metadata": { "name": "mine" },
        "spec": { "type": "NodePort", "selector": labels, "ports": [{ "port": 8050, "nodePort": 30093 }] },
    }));
    let lines = [
        ("burst root --to far --dry-run", 0, "port: 30093"),
        ("burst root --to far --dry-run --address lead.example", 0, "address: lead.example"),
        ("burst root --to far --detach", 0, "burst-0 is created in far"),
        ("burst root --to far --down", 0, "deleted the MiniCluster burst-0"),
    ];
    first.each_ends(&lines).await;
    assert_eq!(first.endpoint.server.paths(SERVICES).len(), 1);
    second.minicluster("burst-0", "Running", "Running", None);
    let line = ("burst root --to far --down", 1, "has not made the MiniCluster burst-0");
    first.each_ends(&[line]).await;
    assert!(second.get("burst-0").is_some());
}

#[tokio::test]
async fn a_burst_that_cannot_be_is_refused_before_anything_is_made() {
    let (first, second) = two_clusters().await;
    let lines = [
        ("burst root --to nowhere", 1, "use the context nowhere"),
        ("burst root --to far --name other", 1, "has no hosts of other"),
        ("burst root --to far --size 3", 1, "give --size 1 to 2"),
        ("burst root --to far --dry-run", 1, "no Service of type NodePort or LoadBalancer yet"),
        ("burst root --to far --address :1", 2, "give HOST"),
        ("burst nosuch --to far", 1, "there is no MiniCluster nosuch"),
    ];
    first.each_ends(&lines).await;
    first.endpoint.server.remove(JOB);
    first.each_ends(&[("burst root --to far", 1, "no Job with a certificate")]).await;
    assert_eq!(first.endpoint.server.paths(SERVICES), [""; 0]);
    assert_eq!(second.endpoint.server.paths(MINICLUSTERS), [""; 0]);
}
