//! The side of the lead: its certificate, its Service, and the address at which it is reached from outside.

use crate::minicluster::MiniClusterRef;
use anyhow::{Context as _, Result};
use flux_api::crd::MiniCluster;
use flux_contract::labels::{COMPLETION_INDEX, JOB_NAME};
use flux_contract::{CURVE_SECRET_KEY, OVERLAY_PORT};
use k8s_openapi::ByteString;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Node, Secret, Service, ServicePort, ServiceSpec};
use kube::api::ListParams;
use kube::runtime::wait::await_condition;
use kube::{Api, Resource as _, ResourceExt as _};
use serde_json::json;

/// The label of all objects that `burst` makes; its value is the name of the MiniCluster with the lead.
pub(super) const BURST_OF: &str = "flux-framework.org/burst-of";

/// A host name or address, and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) host: String,
    pub(super) port: Option<u16>,
}

/// Reads `HOST`, `HOST:PORT` or `[ADDRESS]:PORT`.
pub(super) fn address(text: &str) -> Result<Address, String> {
    let is_ipv6 = text.matches(':').count() > 1 && !text.starts_with('[');
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !is_ipv6 && !text.ends_with(']') => {
            let port = port.parse::<u16>().ok().filter(|port| *port > 0);
            (host, Some(port.ok_or("the port is a number from 1 to 65535")?))
        }
        _ => (text, None),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    if host.is_empty() {
        Err("give HOST or HOST:PORT".to_owned())
    } else {
        Ok(Address { host, port })
    }
}

/// The certificate of the present run, from the Secret that the pods mount: one of the user's, or the operator's.
pub(super) async fn read_certificate(lead: &MiniClusterRef) -> Result<ByteString> {
    let name = &lead.name;
    let job = lead.connection.api::<Job>().get_opt(name).await;
    let job = job.with_context(|| format!("read the Job {name}"))?;
    let pod = job.and_then(|job| job.spec?.template.spec);
    let volumes = pod.into_iter().flat_map(|pod| pod.volumes.unwrap_or_default());
    let volume = volumes.into_iter().find(|volume| volume.name == format!("{name}-curve"));
    let secret = volume.and_then(|volume| volume.secret?.secret_name);
    let secret = secret.with_context(|| format!("{name} has no Job with a certificate yet"))?;
    let found = lead.connection.api::<Secret>().get(&secret).await;
    let found =
        found.with_context(|| format!("read the certificate of {name}, the Secret {secret}"))?;
    let certificate = found.data.and_then(|mut data| data.remove(CURVE_SECRET_KEY));
    certificate.with_context(|| format!("the Secret {secret} has no key {CURVE_SECRET_KEY}"))
}

pub(super) fn service_name(lead: &str, burst: &str) -> String {
    format!("{lead}-{burst}")
}

/// A Service of the lead alone, which goes with its MiniCluster.
pub(super) fn new_service(lead: &MiniCluster, burst: &str, type_: &str) -> Result<Service> {
    let name = lead.name_any();
    let new = json!({
        "metadata": {
            "name": service_name(&name, burst), "labels": { BURST_OF: name }, "ownerReferences": [lead.owner_ref(&())],
        },
        "spec": {
            "type": type_, "publishNotReadyAddresses": true, "selector": { JOB_NAME: name, COMPLETION_INDEX: "0" },
            "ports": [{ "name": "flux", "port": OVERLAY_PORT }],
        },
    });
    serde_json::from_value(new).context("make the Service")
}

/// A Service by which the lead is reached from outside: the one for this burst, or one that users have made.
pub(super) async fn service(lead: &MiniClusterRef, burst: &str) -> Result<Option<Service>> {
    let services = lead.connection.api::<Service>().list(&ListParams::default()).await;
    let services = services.context("list Services")?.items;
    let own = service_name(&lead.name, burst);
    let fits = |it: &Service| {
        leads_to(it, &lead.name) && (!it.labels().contains_key(BURST_OF) || it.name_any() == own)
    };
    Ok(services.into_iter().find(fits))
}

fn leads_to(service: &Service, lead: &str) -> bool {
    service.spec.as_ref().is_some_and(|spec| {
        let selects = |(label, value): (&str, &str)| {
            spec.selector.as_ref().and_then(|it| it.get(label)).is_some_and(|it| it == value)
        };
        matches!(spec.type_.as_deref(), Some("NodePort" | "LoadBalancer"))
            && [(JOB_NAME, lead), (COMPLETION_INDEX, "0")].into_iter().all(selects)
            && port_of(spec).is_some()
    })
}

fn port_of(spec: &ServiceSpec) -> Option<&ServicePort> {
    spec.ports.iter().flatten().find(|port| port.port == i32::from(OVERLAY_PORT))
}

/// Where the lead is reached: at the `given` address, else by its `service`.
pub(super) async fn reached(
    lead: &MiniClusterRef,
    service: Option<&Service>,
    given: Option<&Address>,
) -> Result<Address> {
    if let Some(given) = given.filter(|given| given.port.is_some()) {
        return Ok(given.clone());
    }
    let service = service.with_context(|| {
        format!(
            "{} has no Service of type NodePort or LoadBalancer yet: give --address HOST:PORT",
            lead.name
        )
    })?;
    let name = service.name_any();
    let spec = service.spec.as_ref().with_context(|| format!("the Service {name} is empty"))?;
    let is_node_port = spec.type_.as_deref() == Some("NodePort");
    let port = port_of(spec).and_then(|it| if is_node_port { it.node_port } else { Some(it.port) });
    let port = port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0);
    let port = Some(port.with_context(|| format!("the Service {name} has no node port"))?);
    let host = match given {
        Some(given) => given.host.clone(),
        None if is_node_port => node_address(lead).await?,
        None => balancer_address(lead, &name).await?,
    };
    Ok(Address { host, port })
}

/// The address of the lead's node: the external one, else the internal one.
async fn node_address(lead: &MiniClusterRef) -> Result<String> {
    let pods = lead.pods().await?;
    let node = pods.get(&0).and_then(|pod| pod.spec.as_ref()?.node_name.clone());
    let node = node.with_context(|| format!("the lead of {} is on no node yet", lead.name))?;
    let nodes: Api<Node> = Api::all(lead.connection.client.clone());
    let remedy = || format!("read the address of the node {node}; or give --address HOST");
    let found = nodes.get(&node).await.with_context(remedy)?;
    let all = found.status.and_then(|status| status.addresses).unwrap_or_default();
    let of_type = |type_: &str| all.iter().find(|it| it.type_ == type_);
    let found = of_type("ExternalIP").or_else(|| of_type("InternalIP"));
    let found = found.map(|it| it.address.clone());
    found.with_context(|| format!("the node {node} has no address: give --address HOST"))
}

/// The address of the Service's load balancer, once it has one.
async fn balancer_address(lead: &MiniClusterRef, name: &str) -> Result<String> {
    let has_address = |service: Option<&Service>| service.and_then(ingress).is_some();
    let waits = format!("wait for the load balancer of the Service {name}");
    let found = await_condition(lead.connection.api(), name, has_address).await;
    let found = found.with_context(|| waits.clone())?;
    found.as_ref().and_then(ingress).with_context(|| format!("{waits}: it is gone"))
}

fn ingress(service: &Service) -> Option<String> {
    let balancer = service.status.as_ref()?.load_balancer.as_ref()?;
    let first = balancer.ingress.as_ref()?.first()?;
    first.ip.clone().or_else(|| first.hostname.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_port_or_none() {
        for (text, host, port) in [
            ("1.2.3.4", "1.2.3.4", None),
            ("lead.example:30093", "lead.example", Some(30093)),
            ("fd00::1", "fd00::1", None),
            ("[fd00::1]", "fd00::1", None),
            ("[fd00::1]:8050", "fd00::1", Some(8050)),
        ] {
            assert_eq!(address(text), Ok(Address { host: host.to_owned(), port }), "{text}");
        }
        for wrong in ["", ":1", "a:", "a:0", "a:x"] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_service_leads_out_by_its_type_selector_and_port() {
        let service = |type_: &str, index: &str, port: u16| -> Service {
            let selector = json!({ JOB_NAME: "root", COMPLETION_INDEX: index });
            let spec = json!({ "type": type_, "selector": selector, "ports": [{ "port": port }] });
            serde_json::from_value(json!({ "spec": spec })).unwrap()
        };
        for (service, leads) in [
            (service("NodePort", "0", 8050), true),
            (service("LoadBalancer", "0", 8050), true),
            (service("ClusterIP", "0", 8050), false),
            (service("NodePort", "1", 8050), false),
            (service("NodePort", "0", 80), false),
        ] {
            assert_eq!(leads_to(&service, "root"), leads, "{service:?}");
            assert!(!leads_to(&service, "other"));
        }
    }
}
