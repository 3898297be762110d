//! Two files for `kubectl apply -f`.

use super::installation::Installation;
use super::objects::{Part, documents, objects};
use super::{File, HEADER, ManifestError};

/// What is there before an operator, and outlives it.
const API: &[Part] = &[Part::Definition, Part::UserRoles];

/// What comes and goes with an operator.
const OPERATOR: &[Part] = &[
    Part::Namespace,
    Part::ClusterRole,
    Part::Role,
    Part::Operator,
    Part::PodDisruptionBudget,
    Part::NetworkPolicy,
    Part::ServiceMonitor,
];

/// `crd.yaml`, which an operator for one namespace comes without, and `operator.yaml`.
pub(super) fn files(installation: &Installation) -> Result<Vec<File>, ManifestError> {
    let objects = objects(installation)?;
    let file = |name: &str, parts| (name.to_owned(), documents(&objects, parts));
    let all = [file("crd.yaml", API), file("operator.yaml", OPERATOR)];
    let written = all.into_iter().filter(|(_, text)| !text.is_empty());
    Ok(written.map(|(name, text)| (name, format!("{HEADER}{text}"))).collect())
}
