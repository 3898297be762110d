//! What installs the operator, as typed objects and in several formats.
//!
//! `objects.rs` lists each object once, and a format writes them down. `deploy/` holds what the formats
//! give without options; a test compares the two.

mod chart;
mod faults;
mod images;
mod installation;
mod kustomize;
mod names;
mod objects;
mod options;
mod plain;
mod rbac;
mod workload;

use crate::crd::definition::DefinitionError;

pub use faults::{check, check_images};
pub use images::{AGENT_IMAGE, ARM_VIEW_IMAGE, ImageNames, OPERATOR_IMAGE, VIEW_IMAGE};
pub use installation::{Format, Installation, NAME, NAMESPACE};
pub use rbac::{cluster_role, leader_role, role};
pub use workload::{deployment, metrics_service};

/// First line of each file.
const HEADER: &str = "# Written by `flux-operator manifests`; changes here are lost.\n";

/// A file's path below the directory that is written to, and its text.
pub type File = (String, String);

impl Format {
    /// The files that install an operator.
    pub fn files(self, installation: &Installation) -> Result<Vec<File>, ManifestError> {
        match self {
            Self::Plain => plain::files(installation),
            Self::Kustomize => kustomize::files(installation),
            Self::Helm => chart::files(installation),
        }
    }
}

/// Why the manifests cannot be written down.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The definition of MiniCluster.
    #[error("make the CustomResourceDefinition")]
    Definition {
        /// Why.
        #[source]
        source: DefinitionError,
    },
    /// An object YAML cannot express.
    #[error("write {part} as YAML")]
    Write {
        /// What the object belongs to.
        part: &'static str,
        /// Why.
        #[source]
        source: serde_saphyr::ser::Error,
    },
}

/// The files for `kubectl apply -f`.
///
/// `crd.yaml` is the API: the definition and the roles of those who use it. It has to be there first
/// and outlives an operator. An operator for one namespace comes without it, and with nothing else
/// that is in no namespace: a tenant may apply it.
pub fn files(installation: &Installation) -> Result<Vec<File>, ManifestError> {
    Format::Plain.files(installation)
}
