//! Decides the Services. One with an address exists only while the run can have pods.

use super::change::Change;
use crate::controller::observe::Observed;
use flux_api::cluster::Cluster;
use flux_api::objects;
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt as _;
use std::net::IpAddr;

pub(super) struct ServiceChanges {
    /// That of the headless Service, then the lead's, whose address the `ConfigMap` needs, or the ends of all with
    /// an address.
    pub(super) first: Vec<Change<Service>>,
    pub(super) exposed: Vec<Change<Service>>,
    pub(super) aliases: Vec<Change<Service>>,
}

impl ServiceChanges {
    /// `is_idle` is true while the run has no pods that need an address.
    pub(super) fn of(cluster: &Cluster, live: &Observed, is_idle: bool) -> Self {
        let objects::Services { headless, lead, exposed, aliases } = objects::services(cluster);
        let change =
            |desired: Service| Change::of_service(live.services.get(&desired.name_any()), desired);
        let headless = change(headless);
        if is_idle {
            let first = [headless].into_iter().chain(ends_of_addresses(live)).collect();
            return Self { first, exposed: Vec::new(), aliases: Vec::new() };
        }
        Self {
            first: vec![headless, change(lead)],
            exposed: exposed.into_iter().map(change).collect(),
            aliases: alias_changes(live, aliases),
        }
    }

    /// True where the lead's Service is created.
    pub(super) fn has_new_address(&self) -> bool {
        matches!(self.first.get(1), Some(Change::Create(_)))
    }
}

/// The ends of all Services with an address.
pub(super) fn ends_of_addresses(live: &Observed) -> impl Iterator<Item = Change<Service>> {
    let addressed = live.services.values().filter(|service| address(service).is_some());
    addressed.map(|service| Change::end_of_service(service, &live.services))
}

/// The changes of the aliases, without those whose names other objects have.
fn alias_changes(live: &Observed, aliases: Vec<Service>) -> Vec<Change<Service>> {
    let free = aliases.into_iter().filter(|it| !live.alias_conflicts.contains(&it.name_any()));
    free.map(|it| Change::of_alias(live.services.get(&it.name_any()), it)).collect()
}

/// The cluster IP of the Service; a headless Service has none.
pub(crate) fn address(service: &Service) -> Option<IpAddr> {
    service.spec.as_ref()?.cluster_ip.as_ref()?.parse().ok()
}
