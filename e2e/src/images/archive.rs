//! Writes an image as the archive that `docker save` writes, which every tool that loads images reads.

use std::{collections::BTreeSet, fs::File, io::Write};

use anyhow::{Context as _, Result};
use serde_json::json;
use tar::{EntryType, Header};

use super::{image::Image, layer::Layer, names::full_name};

impl Image {
    /// Writes the image under these names: `manifest.json`, the configuration and the layers, all plain.
    pub fn write_archive(&self, names: &[&str], writer: impl Write) -> Result<()> {
        let configuration = self.configuration().to_string();
        let configuration_name = format!("{}.json", self.digest());
        let layer_name = |layer: &Layer| format!("{}.tar", layer.digest());
        let manifest = json!([{
            "Config": configuration_name,
            "RepoTags": names.iter().map(|name| full_name(name)).collect::<Vec<_>>(),
            "Layers": self.layers.iter().map(layer_name).collect::<Vec<_>>(),
        }])
        .to_string();
        let mut archive = tar::Builder::new(writer);
        append(&mut archive, "manifest.json", manifest.len() as u64, manifest.as_bytes())?;
        let length = configuration.len() as u64;
        append(&mut archive, &configuration_name, length, configuration.as_bytes())?;
        let mut written = BTreeSet::new();
        for layer in &self.layers {
            if !written.insert(layer.digest()) {
                continue;
            }
            let path = layer.path();
            let reading = || format!("reading the layer {}", path.display());
            let file = File::open(path).with_context(reading)?;
            let length = file.metadata().with_context(reading)?.len();
            append(&mut archive, &layer_name(layer), length, file)?;
        }
        archive.finish().context("finishing an image archive")
    }
}

fn append(
    archive: &mut tar::Builder<impl Write>,
    name: &str,
    length: u64,
    content: impl std::io::Read,
) -> Result<()> {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Regular);
    header.set_mode(0o644);
    header.set_mtime(0);
    header.set_size(length);
    archive
        .append_data(&mut header, name, content)
        .with_context(|| format!("adding {name} to an image archive"))
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;
    use crate::images::{image::ImageConfig, layer::Source};

    fn bytes(image: &Image, names: &[&str]) -> Vec<u8> {
        let mut bytes = Vec::new();
        image.write_archive(names, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn an_archive_names_the_image_and_holds_each_layer_once() {
        let directory = tempfile::tempdir().unwrap();
        let sources = [Source::link("a", "1")];
        let layer = Layer::from_sources(directory.path(), &sources).unwrap();
        let image = Image::new(vec![layer.clone(), layer.clone()], ImageConfig::default());
        let bytes = bytes(&image, &["debian:12"]);
        let mut archive = tar::Archive::new(bytes.as_slice());
        let mut names = Vec::new();
        let mut manifest = String::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            names.push(entry.path().unwrap().display().to_string());
            if names.len() == 1 {
                entry.read_to_string(&mut manifest).unwrap();
            }
        }
        let configuration = format!("{}.json", image.digest());
        let layer = format!("{}.tar", layer.digest());
        assert_eq!(names, ["manifest.json", &configuration, &layer]);
        let expected = json!([{
            "Config": configuration,
            "RepoTags": ["docker.io/library/debian:12"],
            "Layers": [layer, layer],
        }]);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&manifest).unwrap(), expected);
    }

    #[test]
    fn an_archive_is_the_same_each_time() {
        let directory = tempfile::tempdir().unwrap();
        let sources = [Source::link("a", "1")];
        let layer = Layer::from_sources(directory.path(), &sources).unwrap();
        let image = Image::new(vec![layer], ImageConfig::default());
        assert_eq!(bytes(&image, &["x"]), bytes(&image, &["x"]));
    }
}
