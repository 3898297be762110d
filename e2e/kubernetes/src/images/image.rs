//! An image: its layers, how to run it, and its archive in the format of `docker save`, which every tool can load.

use super::layer::{Layer, header};
use crate::architecture::Architecture;
use anyhow::{Context as _, Result, bail, ensure};
use fs_err::{self as fs, File};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use tar::EntryType;

/// How to run an image; empty fields are left out.
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
    /// The signal by which it is stopped, if that is not SIGTERM.
    #[serde(rename = "StopSignal", skip_serializing_if = "String::is_empty")]
    pub stop_signal: String,
    /// Descriptions of the image.
    #[serde(rename = "Labels", skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// An image: layers, the lowest first, and how to run it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    layers: Vec<Layer>,
    /// How to run it.
    pub config: ImageConfig,
}

impl Image {
    /// An image of these layers, the lowest first.
    pub fn new(layers: Vec<Layer>, config: ImageConfig) -> Self {
        Self { layers, config }
    }

    /// This image with one more layer on top.
    #[must_use]
    pub fn on_top(mut self, layer: Layer) -> Self {
        self.layers.push(layer);
        self
    }

    /// The image id: the SHA-256 of the configuration, which holds those of the layers.
    fn digest(&self) -> String {
        format!("{:x}", Sha256::digest(self.configuration().to_string()))
    }

    /// A name that belongs to these contents alone.
    pub fn content_name(&self) -> String {
        format!("localhost/flux-e2e/content:{}", self.digest())
    }

    /// As in the OCI image specification, `config.md`.
    fn configuration(&self) -> Value {
        let identities: Vec<_> =
            self.layers.iter().map(|layer| format!("sha256:{}", layer.digest)).collect();
        json!({
            "architecture": Architecture::of_this_machine().map_or(std::env::consts::ARCH, |it| it.image_name),
            "os": "linux",
            "created": "1970-01-01T00:00:00Z",
            "config": self.config,
            "rootfs": {"type": "layers", "diff_ids": identities},
            // One entry for each layer: buildah does not build on an image without them.
            "history": identities.iter().map(|_| json!({"created_by": "flux-e2e"})).collect::<Vec<_>>(),
        })
    }

    /// Writes the image under these names: `manifest.json`, the configuration and the layers, all plain.
    pub fn write_archive(&self, names: &[&str], writer: impl Write) -> Result<()> {
        let configuration = self.configuration().to_string();
        let configuration_name = format!("{}.json", self.digest());
        let layer_name = |layer: &Layer| format!("{}.tar", layer.digest);
        let manifest = json!([{
            "Config": configuration_name,
            "RepoTags": names.iter().map(|name| full_name(name)).collect::<Vec<_>>(),
            "Layers": self.layers.iter().map(layer_name).collect::<Vec<_>>(),
        }])
        .to_string();
        let mut archive = tar::Builder::new(writer);
        for (name, text) in [("manifest.json", &manifest), (&configuration_name, &configuration)] {
            append(&mut archive, name, text.len() as u64, text.as_bytes())?;
        }
        // Each layer once, even if the image has it twice.
        let layers = self.layers.iter().map(|layer| (layer_name(layer), layer.path()));
        for (name, path) in layers.collect::<BTreeMap<_, _>>() {
            let file = File::open(path)?;
            let length = file.metadata()?.len();
            append(&mut archive, &name, length, file)?;
        }
        archive.finish().context("finishing an image archive")
    }

    /// The image of an archive with one image, its layers unpacked into `directory`.
    pub fn from_archive(archive: &Path, directory: &Path) -> Result<Self> {
        let shown = archive.display();
        let unpacked = tar::Archive::new(File::open(archive)?).unpack(directory);
        unpacked.with_context(|| format!("reading the image archive {shown}"))?;
        let manifests: Vec<Manifest> = read(&directory.join("manifest.json"))?;
        let [manifest] = &manifests[..] else {
            bail!("{shown} holds {} images, not one", manifests.len());
        };
        let mut configuration: Value = read(&directory.join(&manifest.config))?;
        let config = serde_json::from_value(configuration["config"].take())
            .with_context(|| format!("understanding how {shown} is run"))?;
        let layers = manifest.layers.iter();
        let layers = layers.map(|layer| Layer::from_archive(&directory.join(layer)));
        Ok(Self::new(layers.collect::<Result<_>>()?, config))
    }

    /// The bytes of all files of all layers.
    pub fn size(&self) -> Result<u64> {
        let mut size = 0;
        self.each_entry(|entry| {
            size += entry.size();
            Ok(())
        })?;
        Ok(size)
    }

    /// Writes the file at `path` of the image to `to`, with its mode.
    pub fn extract(&self, path: &str, to: &Path) -> Result<()> {
        let mut found = false;
        self.each_entry(|entry| {
            if Path::new("/").join(entry.path()?) == Path::new(path) {
                entry.unpack(to).with_context(|| format!("writing {}", to.display()))?;
                found = true;
            }
            Ok(())
        })?;
        ensure!(found, "the image has no {path}");
        Ok(())
    }

    fn each_entry(
        &self,
        mut work: impl FnMut(&mut tar::Entry<'_, File>) -> Result<()>,
    ) -> Result<()> {
        for layer in &self.layers {
            let mut archive = tar::Archive::new(File::open(layer.path())?);
            for entry in archive.entries()? {
                work(&mut entry?)?;
            }
        }
        Ok(())
    }
}

/// The part of `manifest.json` that is read.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Manifest {
    config: PathBuf,
    layers: Vec<PathBuf>,
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<T> {
    serde_json::from_slice(&fs::read(path)?)
        .with_context(|| format!("understanding {}", path.display()))
}

fn append(
    archive: &mut tar::Builder<impl Write>,
    name: &str,
    length: u64,
    content: impl Read,
) -> Result<()> {
    let mut header = header(EntryType::Regular, 0o644, length);
    archive
        .append_data(&mut header, name, content)
        .with_context(|| format!("adding {name} to an image archive"))
}

/// The name as container runtimes complete it: `debian` is `docker.io/library/debian:latest`.
pub(crate) fn full_name(name: &str) -> String {
    let registry = match name.split_once('/') {
        // A first part with a dot or a port, and `localhost`, is a registry.
        Some((first, _)) if first.contains(['.', ':']) || first == "localhost" => "",
        Some(_) => "docker.io/",
        None => "docker.io/library/",
    };
    let last = name.rsplit('/').next().unwrap_or(name);
    let tag = if last.contains([':', '@']) { "" } else { ":latest" };
    format!("{registry}{name}{tag}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::layer::Source;

    #[test]
    fn what_was_written_is_read_back() {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("program");
        fs::write(&program, "text").unwrap();
        let sources = [Source::file("/bin/tool", &program), Source::link("a", "1")];
        let layer = Layer::from_sources(directory.path(), &sources).unwrap();
        let config = ImageConfig {
            environment: vec!["PATH=/bin".into()],
            entrypoint: vec!["/bin/cat".into()],
            user: "1000".into(),
            labels: [("title".to_owned(), "Tool".to_owned())].into(),
            ..ImageConfig::default()
        };
        let written = Image::new(vec![layer], config);
        let archive = directory.path().join("image.tar");
        written.write_archive(&["tool"], File::create(&archive).unwrap()).unwrap();

        let unpacked = tempfile::tempdir().unwrap();
        let image = Image::from_archive(&archive, unpacked.path()).unwrap();
        assert_eq!(image.digest(), written.digest());
        assert_eq!(image.config, written.config);
        assert_eq!(image.size().unwrap(), 4);
        image.extract("/bin/tool", &directory.path().join("copy")).unwrap();
        assert_eq!(fs::read_to_string(directory.path().join("copy")).unwrap(), "text");
        let absent = image.extract("/bin/other", &program).unwrap_err().to_string();
        assert!(absent.contains("/bin/other"), "{absent}");
    }
}
