//! Builds the Services of all pods, of the lead, of its API and of the sidecars, for the cluster's default IP family.

use super::meta::{
    first_of_each, headless_label, job_selector, lead_selector, object_labels, object_meta,
    shared_meta,
};
use crate::cluster::{Cluster, Sidecar};
use flux_contract::{OVERLAY_PORT, Rest};
use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt as _;
use std::collections::BTreeMap;

/// The Services of a MiniCluster, which follow from its specification.
#[derive(Debug, Clone, PartialEq)]
pub struct Services {
    /// The headless Service, which gives the pods their DNS names.
    pub headless: Service,
    /// The Service of the lead, whose address is in the agents' configuration.
    pub lead: Service,
    /// The Services for users: `<name>-rest` with `flux.rest`, and `<name>-<sidecar>` for each sidecar with ports.
    pub exposed: Vec<Service>,
    /// The sidecars' Services again, with only the sidecar's name, which another MiniCluster may already have.
    pub aliases: Vec<Service>,
}

/// The Services of `cluster`.
pub fn services(cluster: &Cluster) -> Services {
    let exposed = |sidecar: &&Sidecar| sidecar.container.ports.is_some();
    let named = |name: fn(&Cluster, &str) -> String| -> Vec<Service> {
        let sidecars = cluster.sidecars.iter().filter(exposed);
        sidecars.map(|it| of_sidecar(cluster, it, &name(cluster, &it.container.name))).collect()
    };
    let mut aliases = named(|_, name| name.to_owned());
    // The name of a container may begin with a digit, but not that of a Service in all releases of Kubernetes.
    aliases.retain(|it| it.name_any().starts_with(|c: char| c.is_ascii_lowercase()));
    Services {
        headless: headless(cluster),
        lead: lead(cluster),
        exposed: (cluster.flux.rest.iter().map(|rest| instance_api(cluster, rest)))
            .chain(named(|cluster, name| cluster.name.sidecar_service(name)))
            .collect(),
        aliases,
    }
}

/// The headless Service, named as the pods' subdomain. With `flux.minimalService` it has only the lead. With
/// `network.headlessName` it has the pods of all MiniClusters with this name.
fn headless(cluster: &Cluster) -> Service {
    let is_shared = cluster.shares_headless_service();
    let selector = match (is_shared, cluster.minimal_service) {
        (false, false) => object_labels(&cluster.name),
        (false, true) => lead_selector(cluster),
        (true, false) => headless_label(cluster),
        (true, true) => first_of_each(headless_label(cluster)),
    };
    let ports = vec![port("flux", OVERLAY_PORT.into())];
    let mut service = service(cluster, &cluster.headless_name, selector, ports);
    if is_shared {
        service.metadata = shared_meta(cluster);
    }
    let spec = service.spec.get_or_insert_default();
    (spec.type_, spec.cluster_ip) = (None, Some("None".to_owned()));
    service
}

/// The Service of the lead, whose address is known before the pod exists, so that workers need no DNS.
fn lead(cluster: &Cluster) -> Service {
    let ports = vec![port("flux", OVERLAY_PORT.into())];
    service(cluster, &cluster.name.lead_service(), lead_selector(cluster), ports)
}

/// The Service of the instance's API, which has only a ready lead.
fn instance_api(cluster: &Cluster, rest: &Rest) -> Service {
    let port = ServicePort {
        target_port: Some(IntOrString::Int(rest.port.into())),
        app_protocol: rest.tls.then(|| "https".to_owned()),
        ..if rest.tls { port("https", 443) } else { port("http", 80) }
    };
    let name = cluster.name.rest_service();
    let mut service = service(cluster, &name, lead_selector(cluster), vec![port]);
    service.spec.get_or_insert_default().publish_not_ready_addresses = None;
    service
}

fn of_sidecar(cluster: &Cluster, sidecar: &Sidecar, name: &str) -> Service {
    // A Service with several ports needs names for them.
    let ports = sidecar.container.ports.iter().flatten().map(|it| it.container_port);
    let ports = ports.map(|number| port(&format!("port-{number}"), number));
    service(cluster, name, job_selector(cluster), ports.collect())
}

/// A Service that publishes addresses of unready pods, because brokers need each other's names to become ready, and
/// because readiness does not concern sidecars.
fn service(
    cluster: &Cluster,
    name: &str,
    selector: BTreeMap<String, String>,
    ports: Vec<ServicePort>,
) -> Service {
    Service {
        metadata: object_meta(cluster, name),
        spec: Some(ServiceSpec {
            type_: Some("ClusterIP".to_owned()),
            ports: Some(ports),
            publish_not_ready_addresses: Some(true),
            selector: Some(selector),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

fn port(name: &str, number: i32) -> ServicePort {
    ServicePort {
        name: Some(name.to_owned()),
        port: number,
        protocol: Some("TCP".to_owned()),
        target_port: Some(IntOrString::Int(number)),
        ..ServicePort::default()
    }
}
