//! The images of the examples of workflow engines and other programs: a Debian with what their `Dockerfile` installs.
//! Each is made when its example is run.

use crate::cache::{self, Cache};
use crate::cluster::Cluster;
use crate::images::debian::debian;
use crate::images::image::Image;
use crate::images::layer::{Layer, Source};
use crate::product::{checkout, python};
use crate::progress;
use crate::{packages, programs};
use anyhow::{Context as _, Result};
use fs_err as fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use walkdir::WalkDir;

/// An example with this file has an image with Python and the packages that it names.
const REQUIREMENTS: &str = "requirements.txt";
/// The example whose image has Java and the libraries that its `pom.xml` names.
const NEXTFLOW: &str = "nextflow";
/// The example whose services need this image too, made of Debian's package.
const MERLIN: &str = "merlin";
const REDIS: (&str, &str) = ("redis:7", "redis-server");
/// The Python of Debian 12, where it looks for what pip installs, and the first line of programs that pip installs.
const PYTHON_VERSION: &str = "3.11";
const PYTHON_PACKAGES: &str = "/usr/local/lib/python3.11/dist-packages";
const PYTHON_PROGRAM: &str = "#!/usr/bin/python3";

/// Why the image of this example cannot be made here.
pub(crate) fn obstacle(example: &str) -> Result<Option<&'static str>> {
    let is_other = || !python::version().is_ok_and(|version| version == PYTHON_VERSION);
    let reason = "its image is made with this machine's Python, which has to be 3.11";
    Ok((requirements(example)?.is_file() && is_other()).then_some(reason))
}

/// Makes the image of this example and loads it, if it is one of these.
pub(crate) fn load(example: &str, cluster: &Cluster) -> Result<()> {
    let scratch = tempfile::tempdir().context("making a directory for image layers")?;
    if example == MERLIN {
        cluster.load_image(&debian(&Cache::locate()?, &[REDIS.1])?, &[REDIS.0])?;
    }
    let image = match example {
        NEXTFLOW => nextflow(scratch.path())?,
        _ if requirements(example)?.is_file() => with_packages(example, scratch.path())?,
        _ => return Ok(()),
    };
    let name = format!("{example}-example:1");
    progress::step(&format!("loading {name}"), || cluster.load_image(&image, &[&name]))
}

fn requirements(example: &str) -> Result<PathBuf> {
    Ok(checkout()?.join("examples").join(example).join(REQUIREMENTS))
}

fn with_packages(example: &str, scratch: &Path) -> Result<Image> {
    let requirements = requirements(example)?;
    let what = format!("installing the packages of the example {example}");
    let packages = progress::long_step(&what, "1 min", || python::packages(&requirements))?;
    let system = debian(&Cache::locate()?, &["python3"])?;
    let mut sources = files(&packages, PYTHON_PACKAGES)?;
    let data = packages.join("share");
    if data.is_dir() {
        sources.extend(files(&data, "/usr/local/share")?);
    }
    sources.extend(programs_of(&packages.join("bin"), scratch)?);
    let layer = Layer::from_sources(scratch, &sources)?;
    Ok(system.on_top(layer))
}

/// The scripts that pip installed, as they are in the image: they name the Python of this machine.
fn programs_of(directory: &Path, scratch: &Path) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    for entry in WalkDir::new(directory).into_iter().filter_map(Result::ok) {
        let Ok(script) = fs::read_to_string(entry.path()) else { continue };
        if let Some((_, rest)) = script.split_once('\n').filter(|_| script.starts_with("#!")) {
            let changed = scratch.join(entry.file_name());
            fs::write(&changed, format!("{PYTHON_PROGRAM}\n{rest}"))?;
            sources
                .push(Source::file(Path::new("/usr/local/bin").join(entry.file_name()), &changed));
        }
    }
    Ok(sources)
}

fn nextflow(scratch: &Path) -> Result<Image> {
    let (cache, example) = (Cache::locate()?, checkout()?.join("examples").join(NEXTFLOW));
    packages::ensure(packages::MAVEN)?;
    let pom = example.join("pom.xml");
    let key = cache::key(NEXTFLOW, "1", &[("pom", &fs::read(&pom)?)]);
    let libraries = progress::long_step("fetching Nextflow", "30 s", || {
        cache.artefact(&key, |directory| {
            let mut maven = Command::new("mvn");
            maven.args(["--batch-mode", "--quiet", "dependency:copy-dependencies", "--file"]);
            maven.arg(&pom).arg(format!("-DoutputDirectory={}", directory.display()));
            programs::run(&mut maven).map(drop)
        })
    })?;
    let system = debian(&cache, &["openjdk-17-jre-headless"])?;
    let mut sources = files(&libraries, "/opt/nextflow")?;
    sources.push(Source::file("/usr/local/bin/nextflow", &example.join("nextflow.sh")));
    let layer = Layer::from_sources(scratch, &sources)?;
    Ok(system.on_top(layer))
}

/// All files of a directory, at `place` of an image.
fn files(directory: &Path, place: &str) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    for entry in WalkDir::new(directory) {
        let entry = entry?;
        if entry.file_type().is_file() {
            let path = Path::new(place).join(entry.path().strip_prefix(directory)?);
            sources.push(Source::file(path, entry.path()));
        }
    }
    Ok(sources)
}
