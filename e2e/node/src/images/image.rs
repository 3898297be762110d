//! An image: its layers and how to run it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::layer::Layer;
use crate::architecture::Architecture;

/// What an image says about how to run it; empty fields are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ImageConfig {
    /// `NAME=value`, in order.
    #[serde(rename = "Env", skip_serializing_if = "Vec::is_empty")]
    pub environment: Vec<String>,
    /// The program and its first arguments.
    #[serde(rename = "Entrypoint", skip_serializing_if = "Vec::is_empty")]
    pub entrypoint: Vec<String>,
    /// Further arguments, which a pod's `args` replace.
    #[serde(rename = "Cmd", skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// User name or number, with `:GROUP` if need be.
    #[serde(rename = "User", skip_serializing_if = "String::is_empty")]
    pub user: String,
    /// What it says of itself.
    #[serde(rename = "Labels", skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// An image: layers, the lowest first, and how to run it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    pub(super) layers: Vec<Layer>,
    config: ImageConfig,
}

impl Image {
    /// An image of these layers, the lowest first.
    pub fn new(layers: Vec<Layer>, config: ImageConfig) -> Self {
        Self { layers, config }
    }

    /// This image with one more layer on top, run another way.
    #[must_use]
    pub fn on_top(&self, layer: Layer, config: ImageConfig) -> Self {
        let layers = self.layers.iter().cloned().chain([layer]).collect();
        Self { layers, config }
    }

    /// This image with further variables, `NAME=value`.
    #[must_use]
    pub fn with_variables(mut self, variables: &[&str]) -> Self {
        self.config.environment.extend(variables.iter().map(|it| (*it).to_owned()));
        self
    }

    /// How to run it.
    pub fn config(&self) -> &ImageConfig {
        &self.config
    }

    /// The image id: the SHA-256 of the configuration, which holds those of the layers.
    pub fn digest(&self) -> String {
        format!("{:x}", Sha256::digest(self.configuration().to_string()))
    }

    /// A name that belongs to these contents alone.
    pub fn content_name(&self) -> String {
        format!("localhost/flux-e2e/content:{}", self.digest())
    }

    /// As in the OCI image specification, `config.md`.
    pub(super) fn configuration(&self) -> Value {
        let identities: Vec<_> =
            self.layers.iter().map(|layer| format!("sha256:{}", layer.digest())).collect();
        json!({
            "architecture": Architecture::image_name_of_this_machine(),
            "os": "linux",
            "created": "1970-01-01T00:00:00Z",
            "config": self.config,
            "rootfs": {"type": "layers", "diff_ids": identities},
            // One entry a layer: buildah builds on no image without.
            "history": identities.iter().map(|_| json!({"created_by": "flux-e2e"})).collect::<Vec<_>>(),
        })
    }
}

/// The name with registry and tag, as container runtimes complete it: `debian` is
/// `docker.io/library/debian:latest`.
pub(crate) fn full_name(name: &str) -> String {
    let (first, rest) = name.split_once('/').unwrap_or(("", name));
    // A first part with a dot or a port, and `localhost`, is a registry.
    let is_registry = first.contains(['.', ':']) || first == "localhost";
    let mut full = match (is_registry, first.is_empty()) {
        (true, _) => name.to_owned(),
        (false, true) => format!("docker.io/library/{name}"),
        (false, false) => format!("docker.io/{name}"),
    };
    let last = rest.rsplit('/').next().unwrap_or(rest);
    if !last.contains([':', '@']) {
        full.push_str(":latest");
    }
    full
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::layer::Source;

    fn sample(directory: &std::path::Path, text: &str) -> Image {
        let layer = Layer::from_sources(directory, &[Source::link("greeting", text)]).unwrap();
        let config = ImageConfig {
            environment: vec!["PATH=/bin".into()],
            entrypoint: vec!["/bin/cat".into()],
            user: "1000".into(),
            ..ImageConfig::default()
        };
        Image::new(vec![layer], config)
    }

    #[test]
    fn the_configuration_holds_what_was_given_and_nothing_empty() {
        let directory = tempfile::tempdir().unwrap();
        let mut configuration = sample(directory.path(), "hello").configuration();
        configuration["architecture"] = json!("any");
        insta::assert_snapshot!(format!("{configuration:#}"));
    }

    #[test]
    fn an_image_is_known_by_its_contents() {
        let directory = tempfile::tempdir().unwrap();
        let first = sample(directory.path(), "hello");
        assert_eq!(first.digest(), sample(directory.path(), "hello").digest());
        assert_ne!(first.digest(), sample(directory.path(), "bye").digest());
        let renamed = first.on_top(first.layers[0].clone(), first.config.clone());
        assert_ne!(first.content_name(), renamed.content_name());
    }

    #[test]
    fn short_names_are_completed_and_full_ones_are_kept() {
        for (name, full) in [
            ("debian", "docker.io/library/debian:latest"),
            ("debian:12", "docker.io/library/debian:12"),
            ("someone/app", "docker.io/someone/app:latest"),
            ("ghcr.io/a/b:1", "ghcr.io/a/b:1"),
            ("localhost/a", "localhost/a:latest"),
            ("host:5000/a", "host:5000/a:latest"),
            ("a@sha256:00", "docker.io/library/a@sha256:00"),
        ] {
            assert_eq!(full_name(name), full);
        }
    }
}
