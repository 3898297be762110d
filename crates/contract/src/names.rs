//! All names that are derived from the name of a MiniCluster.

use serde_with::{DeserializeFromStr, SerializeDisplay};
use std::fmt;
use std::str::FromStr;

/// Label and annotation keys, and the fixed values that go with them.
pub mod labels {
    /// The MiniCluster a pod belongs to. Users' selectors rely on it.
    pub const NAME: &str = "app.kubernetes.io/name";
    /// On all objects of the operator; informers select by it.
    pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
    /// Value of [`MANAGED_BY`].
    pub const MANAGED_BY_VALUE: &str = "flux-operator";
    /// The label that the scale subresource's selector uses; kept for existing autoscalers.
    pub const HPA_SELECTOR: &str = "hpa-selector";
    /// Index of a pod within the MiniCluster: `0` is the lead.
    pub const JOB_INDEX: &str = "job-index";
    /// Value of [`JOB_INDEX`] on the pod of `spec.services`.
    pub const SERVICES_INDEX: &str = "services";
    /// Set by the Job controller on every pod of an Indexed Job (KEP-4017, stable since 1.32).
    pub const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";
    /// Set by the Job controller on every pod of a Job.
    pub const JOB_NAME: &str = "batch.kubernetes.io/job-name";
    /// Set by the Job controller on every pod of a Job: the uid of that Job.
    pub const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";
    /// Annotation of a MiniCluster without pods because no job needs one: a new value starts it again.
    pub const RESUME: &str = "flux-framework.org/resume";
    /// Name of the headless Service that several MiniClusters share, on that Service and on their pods, which it selects.
    pub const HEADLESS_NAME: &str = "flux-framework.org/headless-name";
    /// The namespace, as a label: kept because users' selectors may rely on it.
    pub const NAMESPACE: &str = "namespace";
    /// Kept because users' selectors may rely on it; the value is [`APP_VALUE`].
    pub const APP: &str = "app";
    /// Value of [`APP`].
    pub const APP_VALUE: &str = "flux-operator";
}

/// Why a text is not a valid name of a MiniCluster.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Not a DNS label as Services need it (RFC 1035).
    #[error(
        "name {0:?} is not a DNS label: use lower-case letters, digits and '-', starting with a letter and not ending with '-'"
    )]
    Label(String),
    /// Too long for the names derived from it.
    #[error("name {0:?} has {length} characters, at most {limit} fit the names derived from it", length = .0.len(), limit = ClusterName::LIMIT)]
    Length(String),
}

/// The name of a MiniCluster. All names derived from it are valid.
#[derive(Debug, Clone, PartialEq, Eq, Hash, SerializeDisplay, DeserializeFromStr)]
pub struct ClusterName(String);

impl ClusterName {
    /// Longest name: a pod's host name `<name>-<index>` with an index of ten digits has at most the 63 characters of a DNS
    /// label, and so has every derived Service name.
    pub const LIMIT: usize = 52;

    /// Checks `name` against the rules for the names derived from it.
    pub fn new(name: &str) -> Result<Self, NameError> {
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let starts = name.starts_with(|c: char| c.is_ascii_lowercase());
        if !starts || name.ends_with('-') || !name.chars().all(fits) {
            return Err(NameError::Label(name.to_owned()));
        }
        if name.len() > Self::LIMIT {
            return Err(NameError::Length(name.to_owned()));
        }
        Ok(Self(name.to_owned()))
    }

    /// The name itself; also the Job's name and the runner container's.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The Secret with the CURVE certificate of one `run`; each run has a Secret of its own.
    pub fn curve_secret(&self, run: &str) -> String {
        format!("{}-curve-{run}", self.0)
    }

    /// The Secret with the tokens of the API. Its name contains the beginning of the `fingerprint` of the full one, so a
    /// Secret of this name always contains tokens that belong together.
    pub fn rest_secret(&self, fingerprint: &str) -> String {
        format!("{}-rest-{:.10}", self.0, fingerprint)
    }

    /// The Service in front of the ports of the container `sidecar`.
    pub fn sidecar_service(&self, sidecar: &str) -> String {
        format!("{}-{sidecar}", self.0)
    }

    /// Host name of the pod with `index`, set by the Job controller for an Indexed Job.
    pub fn pod_hostname(&self, index: u32) -> String {
        format!("{}-{index}", self.0)
    }
}

/// Defines a function for each name that is the MiniCluster's with a suffix.
macro_rules! suffixed {
    ($($(#[$doc:meta])* $name:ident = $suffix:literal;)*) => {
        impl ClusterName {
            $($(#[$doc])* pub fn $name(&self) -> String {
                format!("{self}-{}", $suffix)
            })*
        }
    };
}

suffixed! {
    /// The volume with the CURVE certificate.
    curve_volume = "curve";
    /// The volume with the certificate of the API.
    rest_tls_volume = "rest-tls";
    /// The volume with the munge key.
    munge_volume = "munge";
    /// The volume in memory that only the runner mounts.
    private_volume = "private";
    /// The volume with the agent's image.
    agent_image_volume = "agent-bin";
    /// The volume with the view's image.
    view_image_volume = "view-image";
    /// The volume with links to the packages of the view's image.
    software_volume = "view-software";
    /// The `ConfigMap` that holds `agent.toml`.
    agent_config_map = "agent";
    /// The Service in front of the lead broker.
    lead_service = "lead";
    /// The Service in front of the API of the instance.
    rest_service = "rest";
    /// The pod of `spec.services`.
    services_pod = "services";
}

impl fmt::Display for ClusterName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl FromStr for ClusterName {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        Self::new(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_name_fits_every_derived_name() {
        let name = ClusterName::new(&"a".repeat(ClusterName::LIMIT)).unwrap();
        for derived in [
            name.curve_volume(),
            name.rest_tls_volume(),
            name.agent_image_volume(),
            name.agent_config_map(),
            name.lead_service(),
            name.services_pod(),
            name.pod_hostname(i32::MAX.unsigned_abs()),
        ] {
            assert!(derived.len() <= 63, "{derived}");
        }
        let error = ClusterName::new(&"a".repeat(60)).unwrap_err().to_string();
        assert!(error.contains("60 characters") && error.contains("52"), "{error}");
    }

    #[test]
    fn names_that_are_not_dns_labels_are_refused() {
        for name in ["", "-a", "a-", "0a", "A", "a_b", "a.b", "ä"] {
            assert!(ClusterName::new(name).is_err(), "{name:?}");
        }
        assert!(ClusterName::new("flux-sample-0").is_ok());
    }
}
