//! The Services: of all pods, of the lead, of the sidecars.

use super::meta::{job_selector, lead_selector, object_meta};
use crate::cluster::{Cluster, Sidecar};
use flux_contract::OVERLAY_PORT;
use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// Gives the pods their names: the pods' subdomain.
///
/// Addresses are published before the pods are ready, because brokers need each other's names to
/// become ready. With `flux.minimalService` it holds the lead only.
pub(super) fn headless(cluster: &Cluster) -> Service {
    let network = &cluster.network;
    Service {
        metadata: object_meta(cluster, &network.headless_name),
        spec: Some(ServiceSpec {
            cluster_ip: Some("None".to_owned()),
            ports: Some(vec![port("flux", OVERLAY_PORT)]),
            publish_not_ready_addresses: Some(true),
            selector: Some(if network.minimal_service {
                lead_selector(cluster)
            } else {
                job_selector(cluster)
            }),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

/// Gives the lead an address that is known before its pod exists, so that workers need no DNS.
pub(super) fn lead(cluster: &Cluster) -> Service {
    Service {
        metadata: object_meta(cluster, &cluster.name.lead_service()),
        spec: Some(ServiceSpec {
            type_: Some("ClusterIP".to_owned()),
            ports: Some(vec![port("flux", OVERLAY_PORT)]),
            publish_not_ready_addresses: Some(true),
            selector: Some(lead_selector(cluster)),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

/// One Service for each sidecar with ports, named as the sidecar.
pub(super) fn sidecars(cluster: &Cluster) -> Vec<Service> {
    let exposed = |sidecar: &&Sidecar| !sidecar.container.ports.is_empty();
    cluster.sidecars.iter().filter(exposed).map(|sidecar| of_sidecar(cluster, sidecar)).collect()
}

fn of_sidecar(cluster: &Cluster, sidecar: &Sidecar) -> Service {
    // More than one port needs names; with names from the numbers, one needs no special case.
    let ports =
        sidecar.container.ports.iter().map(|&number| port(&format!("port-{number}"), number));
    Service {
        metadata: object_meta(cluster, &sidecar.container.name),
        spec: Some(ServiceSpec {
            type_: Some("ClusterIP".to_owned()),
            ports: Some(ports.collect()),
            selector: Some(job_selector(cluster)),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

fn port(name: &str, number: u16) -> ServicePort {
    ServicePort {
        name: Some(name.to_owned()),
        port: i32::from(number),
        protocol: Some("TCP".to_owned()),
        target_port: Some(IntOrString::Int(i32::from(number))),
        ..ServicePort::default()
    }
}
