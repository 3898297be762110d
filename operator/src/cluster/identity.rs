//! Which MiniCluster it is: all that is needed to find what was made for it, whatever its
//! specification says.

use crate::crd::MiniCluster;
use flux_contract::{ClusterName, NameError};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource as _;

/// Namespace of an object that was read from a file without one.
const DEFAULT_NAMESPACE: &str = "default";

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Identity {
    pub(crate) name: ClusterName,
    pub(crate) namespace: String,
    /// Makes the MiniCluster the controller of what is made for it.
    pub(crate) owner: OwnerReference,
}

impl Identity {
    /// The identity of `object`; under another name than these nothing is ever made.
    pub(crate) fn of(object: &MiniCluster) -> Result<Self, NameError> {
        let metadata = &object.metadata;
        let name = metadata.name.clone().unwrap_or_default();
        Ok(Self {
            name: ClusterName::new(&name)?,
            namespace: metadata.namespace.clone().unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned()),
            owner: OwnerReference {
                api_version: MiniCluster::api_version(&()).into_owned(),
                kind: MiniCluster::kind(&()).into_owned(),
                name,
                uid: metadata.uid.clone().unwrap_or_default(),
                controller: Some(true),
                block_owner_deletion: Some(true),
            },
        })
    }
}
