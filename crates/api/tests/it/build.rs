//! All objects that are built of a few MiniClusters, with a snapshot for each file of `clusters`.

use crate::support::{built, cluster, documents};
use flux_contract::invocation::REPLACED_VARIABLES;
use flux_testkit::job_policy;
use flux_testkit::job_policy::Verdict::{self, Count, FailJob, Ignore};
use flux_testkit::samples::{hello, stored};
use k8s_openapi::api::batch::v1::{JobSpec, PodFailurePolicyRule};
use k8s_openapi::api::core::v1::Service;
use serde_json::json;

#[test]
fn objects_of_each_cluster_are_as_recorded() {
    insta::glob!("clusters/*.yaml", |path| {
        let object = serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let documents = documents(&cluster(&stored(object)));
        let texts: Vec<_> = documents.iter().map(|d| serde_saphyr::to_string(d).unwrap()).collect();
        insta::assert_snapshot!(texts.join("---\n"));
    });
}

/// What the Job controller does with a pod whose `container` ended with `code`.
fn verdict(job: &JobSpec, container: &str, code: i32, disrupted: bool) -> Verdict {
    let disruption = json!([{ "type": "DisruptionTarget", "status": "True" }]);
    let state = json!({ "terminated": { "exitCode": code } });
    let status = json!({
        "phase": "Failed", "conditions": if disrupted { disruption } else { json!([]) },
        "containerStatuses": [{ "name": container, "state": state }],
    });
    job_policy::verdict(&json!(job), &json!({ "status": status }))
}

#[test]
fn failed_commands_fail_the_job_and_lost_pods_are_replaced() {
    let (_, desired) = built(&cluster(&hello(&json!({}))));
    let job = desired.job.spec.unwrap();
    for code in [1, 7, 69, 72, 77, 143] {
        assert_eq!(verdict(&job, "hello", code, false), FailJob, "{code}");
    }
    assert_eq!(verdict(&job, "hello", 143, true), FailJob, "the command has run");
    assert_eq!(verdict(&job, "hello", 75, false), Ignore, "it was stopped");
    assert_eq!(verdict(&job, "another", 75, false), Count);
    for code in [2, 137, 255] {
        assert_eq!(verdict(&job, "hello", code, false), Count, "{code}");
        assert_eq!(verdict(&job, "hello", code, true), Ignore, "{code}");
    }
    let rules = &job.pod_failure_policy.as_ref().unwrap().rules;
    let ordered = |rule: &PodFailurePolicyRule| {
        rule.on_exit_codes.as_ref().is_none_or(|codes| codes.values.is_sorted())
    };
    assert!(rules.iter().all(ordered), "the API server refuses {rules:?}");
    assert_eq!((job.backoff_limit, job.max_failed_indexes), (None, Some(0)));
    assert!(job.backoff_limit_per_index.is_some_and(|limit| limit > 0));
    let runner = &job.template.spec.as_ref().unwrap().containers[0];
    let variables: Vec<_> = runner.env.iter().flatten().map(|it| it.name.as_str()).collect();
    assert!(REPLACED_VARIABLES.iter().all(|(name, _)| variables.contains(name)), "{variables:?}");
}

#[test]
fn a_repeatable_command_has_the_backoff_of_kubernetes() {
    let spec = json!({ "backoffLimit": 3, "deadlineSeconds": 60 });
    let (_, desired) = built(&cluster(&hello(&spec)));
    let job = desired.job.spec.unwrap();
    assert_eq!(verdict(&job, "hello", 72, false), FailJob, "a passed deadline is for good");
    assert_eq!((job.backoff_limit, job.backoff_limit_per_index), (Some(3), None));
    assert_eq!([false, true].map(|it| verdict(&job, "hello", 7, it)), [Count, Ignore]);
    let runner = &job.template.spec.as_ref().unwrap().containers[0];
    let variables: Vec<_> = runner.env.iter().flatten().map(|it| it.name.as_str()).collect();
    assert!(REPLACED_VARIABLES.iter().all(|(name, _)| !variables.contains(name)), "{variables:?}");
}

#[test]
fn another_container_fails_the_job_only_by_its_own_failure() {
    let sidecar =
        json!({ "image": "nginx", "name": "web", "runFlux": false, "command": "sleep 9" });
    let containers = json!([{ "image": "app", "command": "echo hello", "runFlux": true }, sidecar]);
    let (_, desired) = built(&cluster(&hello(&json!({ "containers": containers }))));
    let job = desired.job.spec.unwrap();
    for container in ["web", "flux-agent"] {
        assert_eq!(verdict(&job, container, 1, false), FailJob, "{container}");
        for code in [2, 76, 137, 143, 255] {
            assert_eq!(verdict(&job, container, code, false), Count, "{container} {code}");
        }
    }
}

#[test]
fn each_service_selects_the_pods_that_it_is_for() {
    let spec = json!({
        "services": [{ "image": "db", "name": "db" }],
        "containers": [
            { "image": "app", "command": "echo hello", "runFlux": true },
            { "image": "web", "name": "web", "runFlux": false, "ports": [80] },
        ],
    });
    for (minimal, by_headless) in [(false, [true, true, true]), (true, [true, false, false])] {
        let mut spec = spec.clone();
        spec["flux"] = json!({ "minimalService": minimal });
        let cluster = cluster(&hello(&spec));
        let (services, desired) = built(&cluster);
        let template = desired.job.spec.unwrap().template.metadata.unwrap().labels.unwrap();
        // The labels of the Job controller are among those of a pod.
        let pod = |index: &str| {
            let mut labels = template.clone();
            labels.insert("batch.kubernetes.io/job-name".to_owned(), "hello".to_owned());
            labels.insert("batch.kubernetes.io/job-completion-index".to_owned(), index.to_owned());
            labels
        };
        let pods = [pod("0"), pod("1"), desired.services_pod.unwrap().metadata.labels.unwrap()];
        let selected = |service: &Service| {
            let selector = service.spec.as_ref().unwrap().selector.clone().unwrap();
            pods.each_ref().map(|pod| selector.iter().all(|(key, it)| pod.get(key) == Some(it)))
        };
        assert_eq!(selected(&services.headless), by_headless);
        assert_eq!(selected(&services.lead), [true, false, false]);
        assert_eq!(selected(&services.exposed[0]), [true, true, false]);
        assert_eq!(selected(&services.aliases[0]), [true, true, false]);
    }
}
