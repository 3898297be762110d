//! Container images made from files, without a registry and without a container engine.
//!
//! An image is the same bytes whenever its files are: no time, no name of this machine and no order of a
//! directory listing goes into it. So a cluster that holds it already can tell.

mod archive;
mod debian;
mod layer;
mod libraries;
mod names;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

pub use self::{
    debian::debian,
    layer::{Layer, Source},
    libraries::with_libraries,
    names::full_name,
};
use crate::cache::hexadecimal;

/// What an image says about how to run it; empty fields are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageConfig {
    /// `NAME=value`, in order.
    pub environment: Vec<String>,
    /// The program and its first arguments.
    pub entrypoint: Vec<String>,
    /// Further arguments, which a pod's `args` replace.
    pub command: Vec<String>,
    /// User name or number, with `:GROUP` if need be.
    pub user: String,
    /// Where the program starts.
    pub working_directory: String,
    /// For people and tools.
    pub labels: BTreeMap<String, String>,
}

/// An image: layers, the lowest first, and how to run it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    layers: Vec<Layer>,
    config: ImageConfig,
}

/// Whether an image had to be brought to the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loading {
    /// It was brought there.
    Loaded,
    /// The very same image was there; at most its names are new.
    WasThere,
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

    /// How to run it.
    pub fn config(&self) -> &ImageConfig {
        &self.config
    }

    /// The image id: the SHA-256 of the configuration, which holds those of the layers.
    pub fn digest(&self) -> String {
        hexadecimal(&Sha256::digest(self.configuration().to_string()))
    }

    /// A name that belongs to these contents alone.
    pub fn content_name(&self) -> String {
        format!("localhost/flux-e2e/content:{}", self.digest())
    }

    /// As in the OCI image specification, `config.md`.
    fn configuration(&self) -> Value {
        let config = &self.config;
        let mut run = serde_json::Map::new();
        let mut set = |key: &str, value: Value| {
            let empty = match &value {
                Value::Array(list) => list.is_empty(),
                Value::Object(map) => map.is_empty(),
                Value::String(text) => text.is_empty(),
                Value::Null | Value::Bool(_) | Value::Number(_) => false,
            };
            if !empty {
                run.insert(key.to_owned(), value);
            }
        };
        set("Env", json!(config.environment));
        set("Entrypoint", json!(config.entrypoint));
        set("Cmd", json!(config.command));
        set("User", json!(config.user));
        set("WorkingDir", json!(config.working_directory));
        set("Labels", json!(config.labels));
        let identities: Vec<_> =
            self.layers.iter().map(|layer| format!("sha256:{}", layer.digest())).collect();
        json!({
            "architecture": architecture(),
            "os": "linux",
            "created": "1970-01-01T00:00:00Z",
            "config": run,
            "rootfs": {"type": "layers", "diff_ids": identities},
        })
    }
}

/// Go's name for this machine's architecture, which is what images use.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(directory: &std::path::Path, text: &str) -> Image {
        let layer =
            Layer::from_sources(directory, &[Source::content("greeting", text, 0o644)]).unwrap();
        let config = ImageConfig {
            environment: vec!["PATH=/bin".into()],
            entrypoint: vec!["/bin/cat".into()],
            user: "1000".into(),
            labels: [("purpose".to_owned(), "test".to_owned())].into(),
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
}
