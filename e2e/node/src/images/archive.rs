//! An image as the archive that `docker save` writes, which every tool that loads images reads.

use std::{
    collections::BTreeSet,
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail, ensure};
use fs_err::{self as fs, File};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::json;
use tar::EntryType;

use super::{
    image::{Image, ImageConfig, full_name},
    layer::{Layer, header},
};

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
            let file = File::open(layer.path())?;
            let length = file.metadata()?.len();
            append(&mut archive, &layer_name(layer), length, file)?;
        }
        archive.finish().context("finishing an image archive")
    }
}

/// The part of `manifest.json` that is read.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Manifest {
    config: PathBuf,
    layers: Vec<PathBuf>,
}

/// The part of an image's configuration that is read.
#[derive(Debug, Deserialize)]
struct Configuration {
    config: ImageConfig,
}

impl Image {
    /// The image of an archive with one image, its layers unpacked into `directory`.
    pub fn from_archive(archive: &Path, directory: &Path) -> Result<Self> {
        let shown = archive.display();
        let unpacked = tar::Archive::new(File::open(archive)?).unpack(directory);
        unpacked.with_context(|| format!("reading the image archive {shown}"))?;
        let manifests: Vec<Manifest> = read(&directory.join("manifest.json"))?;
        let [manifest] = &manifests[..] else {
            bail!("{shown} holds {} images, not one", manifests.len());
        };
        let Configuration { config } = read(&directory.join(&manifest.config))?;
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

fn read<T: DeserializeOwned>(path: &Path) -> Result<T> {
    serde_json::from_slice(&fs::read(path)?)
        .with_context(|| format!("understanding {}", path.display()))
}

fn append(
    archive: &mut tar::Builder<impl Write>,
    name: &str,
    length: u64,
    content: impl std::io::Read,
) -> Result<()> {
    let mut header = header(EntryType::Regular, 0o644, length);
    archive
        .append_data(&mut header, name, content)
        .with_context(|| format!("adding {name} to an image archive"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::layer::Source;

    #[test]
    fn an_archive_names_the_image_and_holds_each_layer_once_and_is_the_same_each_time() {
        let directory = tempfile::tempdir().unwrap();
        let layer = Layer::from_sources(directory.path(), &[Source::link("a", "1")]).unwrap();
        let image = Image::new(vec![layer.clone(), layer.clone()], ImageConfig::default());
        let [bytes, again] = [(); 2].map(|()| {
            let mut bytes = Vec::new();
            image.write_archive(&["debian:12"], &mut bytes).unwrap();
            bytes
        });
        assert_eq!(bytes, again);
        let unpacked = tempfile::tempdir().unwrap();
        tar::Archive::new(&bytes[..]).unpack(unpacked.path()).unwrap();
        let mut archive = tar::Archive::new(&bytes[..]);
        let entries = archive.entries().unwrap().map(|entry| entry.unwrap());
        let names: Vec<_> = entries.map(|it| it.path().unwrap().display().to_string()).collect();
        let configuration = format!("{}.json", image.digest());
        let layer = format!("{}.tar", layer.digest());
        assert_eq!(names, ["manifest.json", &configuration, &layer]);
        let expected = json!([{
            "Config": configuration,
            "RepoTags": ["docker.io/library/debian:12"],
            "Layers": [layer, layer],
        }]);
        let manifest: serde_json::Value = read(&unpacked.path().join("manifest.json")).unwrap();
        assert_eq!(manifest, expected);
    }

    #[test]
    fn what_was_written_is_read_back() {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("program");
        fs::write(&program, "text").unwrap();
        let sources = [Source::file("/bin/tool", &program), Source::link("a", "1")];
        let layer = Layer::from_sources(directory.path(), &sources).unwrap();
        let config = ImageConfig {
            entrypoint: vec!["/bin/tool".to_owned()],
            user: "1:2".to_owned(),
            labels: [("title".to_owned(), "Tool".to_owned())].into(),
            ..ImageConfig::default()
        };
        let written = Image::new(vec![layer], config);
        let archive = directory.path().join("image.tar");
        written.write_archive(&["tool"], File::create(&archive).unwrap()).unwrap();

        let unpacked = tempfile::tempdir().unwrap();
        let image = Image::from_archive(&archive, unpacked.path()).unwrap();
        assert_eq!(image.digest(), written.digest());
        assert_eq!(image.config(), written.config());
        assert_eq!(image.size().unwrap(), 4);
        image.extract("/bin/tool", &directory.path().join("copy")).unwrap();
        assert_eq!(fs::read_to_string(directory.path().join("copy")).unwrap(), "text");
        let absent = image.extract("/bin/other", &program).unwrap_err().to_string();
        assert!(absent.contains("/bin/other"), "{absent}");
    }
}
