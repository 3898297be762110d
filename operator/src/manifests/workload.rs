//! The operator itself: account, Deployment and the Service of its metrics.

use super::installation::{Installation, NAME, labels};
use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec, DeploymentStrategy},
        core::v1::{
            Capabilities, Container, ContainerPort, HTTPGetAction, LocalObjectReference,
            PodSecurityContext, PodSpec, PodTemplateSpec, Probe, ResourceRequirements,
            SeccompProfile, SecurityContext, Service, ServiceAccount, ServicePort, ServiceSpec,
        },
    },
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{LabelSelector, ObjectMeta},
        util::intstr::IntOrString,
    },
};
use std::collections::BTreeMap;

/// Name and number of the port of `/metrics`.
pub(super) const METRICS: (&str, i32) = ("metrics", 8080);

/// Name and number of the port of `/healthz` and `/readyz`.
const HEALTH: (&str, i32) = ("health", 8081);

/// The uid of the operator image.
const USER: i64 = 65_532;

/// The account the operator acts as.
pub(super) fn service_account(installation: &Installation) -> ServiceAccount {
    ServiceAccount { metadata: installation.own(NAME), ..ServiceAccount::default() }
}

/// The operator. Several may run: the Lease decides which one acts.
pub fn deployment(installation: &Installation) -> Deployment {
    Deployment {
        metadata: installation.own(NAME),
        spec: DeploymentSpec {
            // One that stands by can be kept while the other is evicted.
            replicas: Some(if installation.pod_disruption_budget { 2 } else { 1 }),
            selector: LabelSelector { match_labels: Some(labels()), ..LabelSelector::default() },
            // The old one gives the Lease back before the new one asks for it.
            strategy: Some(DeploymentStrategy {
                type_: Some("Recreate".to_owned()),
                ..DeploymentStrategy::default()
            }),
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta { labels: Some(labels()), ..ObjectMeta::default() }),
                spec: Some(pod(installation)),
            },
            ..DeploymentSpec::default()
        },
        ..Deployment::default()
    }
}

/// Where a Prometheus finds the metrics.
pub fn metrics_service(installation: &Installation) -> Service {
    let (name, number) = METRICS;
    Service {
        metadata: installation.own(&format!("{NAME}-metrics")),
        spec: Some(ServiceSpec {
            selector: Some(labels()),
            ports: Some(vec![ServicePort {
                name: Some(name.to_owned()),
                port: number,
                target_port: Some(IntOrString::String(name.to_owned())),
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

/// A pod that Pod Security `restricted` admits.
fn pod(installation: &Installation) -> PodSpec {
    let secrets = installation.image_pull_secrets.iter();
    let secrets = secrets.map(|name| LocalObjectReference { name: name.clone() }).collect();
    PodSpec {
        image_pull_secrets: Some(secrets).filter(|secrets: &Vec<_>| !secrets.is_empty()),
        service_account_name: Some(NAME.to_owned()),
        enable_service_links: Some(false),
        node_selector: Some(BTreeMap::from([("kubernetes.io/os".to_owned(), "linux".to_owned())])),
        security_context: Some(PodSecurityContext {
            run_as_non_root: Some(true),
            run_as_user: Some(USER),
            run_as_group: Some(USER),
            seccomp_profile: Some(SeccompProfile {
                type_: "RuntimeDefault".to_owned(),
                localhost_profile: None,
            }),
            ..PodSecurityContext::default()
        }),
        containers: vec![container(installation)],
        ..PodSpec::default()
    }
}

fn container(installation: &Installation) -> Container {
    Container {
        name: NAME.to_owned(),
        image: Some(installation.images.operator()),
        image_pull_policy: Some("IfNotPresent".to_owned()),
        args: Some(arguments(installation)),
        ports: Some(vec![port(METRICS), port(HEALTH)]),
        liveness_probe: Some(probe("/healthz", 10)),
        readiness_probe: Some(probe("/readyz", 5)),
        resources: Some(ResourceRequirements {
            requests: Some(quantities([("cpu", "10m"), ("memory", "32Mi")])),
            limits: Some(quantities([("cpu", "1"), ("memory", "256Mi")])),
            claims: None,
        }),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            read_only_root_filesystem: Some(true),
            run_as_non_root: Some(true),
            capabilities: Some(Capabilities { add: None, drop: Some(vec!["ALL".to_owned()]) }),
            ..SecurityContext::default()
        }),
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        ..Container::default()
    }
}

fn arguments(installation: &Installation) -> Vec<String> {
    let Installation { images, install, watch_namespace, .. } = installation;
    let mut arguments = vec![
        "run".to_owned(),
        "--leader-elect=true".to_owned(),
        format!("--agent-image={}", images.agent()),
        format!("--view-image={}", images.view()),
        format!("--install={:?}", install.unwrap_or_default()),
    ];
    arguments.extend(watch_namespace.iter().map(|namespace| format!("--namespace={namespace}")));
    arguments
}

fn port((name, number): (&str, i32)) -> ContainerPort {
    ContainerPort {
        name: Some(name.to_owned()),
        container_port: number,
        protocol: Some("TCP".to_owned()),
        ..ContainerPort::default()
    }
}

fn probe(path: &str, period_seconds: i32) -> Probe {
    let (name, _) = HEALTH;
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some(path.to_owned()),
            port: IntOrString::String(name.to_owned()),
            ..HTTPGetAction::default()
        }),
        period_seconds: Some(period_seconds),
        ..Probe::default()
    }
}

fn quantities<const N: usize>(list: [(&str, &str); N]) -> BTreeMap<String, Quantity> {
    list.map(|(name, quantity)| (name.to_owned(), Quantity(quantity.to_owned()))).into()
}
