//! Checks whether the agent can run rc1 and rc3 in place of Flux, and finds the files of that Flux.

use crate::plan::broker::attribute;
use crate::rc::task::Task;
use crate::system::environment::Environment;
use crate::system::root::Root;
use crate::system::subcommand::{RC, call};
use crate::system::words::shown;
use crate::view::follow;
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// SHA-256 of the rc files whose steps are in `steps.toml`.
const COMPARED: [(&str, &[&str]); 3] = [
    (
        "rc1.py",
        &[
            // flux-core 0.82
            "e7147659fc57d03b63475f90110279b43bb3511f80510c472509349e5b41e675",
            // flux-core 0.83.0
            "a92c3a538517888821aeb6d0adac380f09cf6009c0146893e67d317f4cce5e7c",
            // flux-core 0.83.1 to 0.85
            "087fcefa1d41d8d79967cac7947a11c02e68c1915ad085f9eecaa677efec5742",
            // flux-core 0.86 and 0.87
            "bebbe3cb3c126033db16731d565198c37dc976e7c4c2d7b5d5dad0227409fc0e",
            // flux-core 0.88
            "4b7ad29d909e397384770bcdc5a45c4b9967d20d5be29d8a278e848ad36747fc",
        ],
    ),
    (
        "rc3.py",
        &[
            // flux-core 0.81 to 0.86: without `--no-cache`, which their `flux dump` takes
            "997bb877d964dbbf1625d561751c6b1443042f9a12865d1c25d722085276cd8b",
            // flux-core 0.87 and 0.88
            "faa5456358286ad5418fcdf202e602870caef0f67e2dd9c566fe195b53f899e4",
        ],
    ),
    // flux-sched 0.49 to 0.54: reads the two variables below, and nothing else
    ("rc1.d/fluxion.py", &["1c2f835c18a58238f4291655587d53c9d3bd8c41d7fd26b80e16154278e83950"]),
];

/// Variables that change what Flux's rc files do.
const VARIABLES: [&str; 8] = [
    "FLUX_MODPROBE_PATH",
    "FLUX_MODPROBE_PATH_APPEND",
    "FLUX_MODPROBE_DISABLE",
    "FLUX_RC_EXTRA",
    "FLUX_SCHED_MODULE",
    "FLUXION_RESOURCE_OPTIONS",
    "FLUXION_QMANAGER_OPTIONS",
    "SLURM_JOB_ID",
];

/// Directories of rc files: those of the package, and those of users.
const RC_DIRECTORIES: [&str; 2] = ["libexec/flux/modprobe", "etc/flux/modprobe"];
/// Directories of the files that describe modules.
const MODULE_DIRECTORIES: [&str; 2] = ["share/flux/modprobe", "etc/flux/modprobe"];

/// The options with which the broker of this `flux` runs the agent as its rc1 and rc3. The error is why Flux has to run its
/// own.
pub(crate) fn options(
    flux: &Path,
    root: &Root,
    agent: &Path,
    environment: &Environment,
    broker_toml: &str,
) -> Result<Vec<String>, String> {
    let prefix = Prefix::of(flux, root)?;
    prefix.check_rc_files()?;
    prefix.modules()?;
    if let Some(name) = VARIABLES.iter().find(|name| environment.contains_key(OsStr::new(name))) {
        return Err(format!("{name} is set"));
    }
    let config: Value = toml::from_str(broker_toml).map_err(|error| error.message().to_owned())?;
    check_config(&config)?;
    let option = |(name, stage): (&str, &str)| {
        let argv = [call(agent, RC), vec![stage.into(), prefix.path.display().to_string()]];
        // The broker passes the command line to a shell.
        attribute(&format!("broker.{name}={}", shown(&argv.concat())))
    };
    Ok([("rc1_path", "start"), ("rc3_path", "end")].map(option).to_vec())
}

/// Refuses a configuration of the broker that changes modules beyond the choice among alternatives.
pub(super) fn check_config(config: &Value) -> Result<(), String> {
    let modules = config.get("modules").and_then(Value::as_object);
    let other = modules.into_iter().flatten().find(|(key, _)| *key != "alternatives");
    if let Some((key, _)) = other {
        return Err(format!("the broker's configuration has modules.{key}"));
    }
    match config.get("fake-resources") {
        Some(_) => Err("the broker's configuration has fake-resources".to_owned()),
        None => Ok(()),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModuleFile {
    #[serde(default)]
    modules: Vec<Task>,
}

/// The directory in which Flux is installed, below a root.
#[derive(Debug)]
pub(crate) struct Prefix {
    pub(super) path: PathBuf,
    root: Root,
}

impl Prefix {
    pub(super) fn new(path: PathBuf, root: Root) -> Self {
        Self { path, root }
    }

    /// The prefix of the program `flux`, which may be a link of a Spack view.
    fn of(flux: &Path, root: &Root) -> Result<Self, String> {
        if flux.is_relative() {
            return Err("Flux is the image's own".to_owned());
        }
        let program = follow(flux, &|path| Some(root.at(path)))?;
        let path = program.parent().and_then(Path::parent).unwrap_or(&program);
        Ok(Self::new(path.to_owned(), root.clone()))
    }

    /// The program.
    pub(super) fn flux(&self) -> String {
        self.path.join("bin/flux").display().to_string()
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.at(self.path.join(path))
    }

    /// Refuses rc files that are not among [`COMPARED`]: files of other releases, and files of users.
    fn check_rc_files(&self) -> Result<(), String> {
        let mut files =
            ["rc1.py", "rc3.py"].map(|name| self.at(RC_DIRECTORIES[0]).join(name)).to_vec();
        for directory in RC_DIRECTORIES {
            for stage in ["rc1.d", "rc3.d"] {
                files.extend(files_in(&self.at(directory).join(stage), "py")?);
            }
        }
        for file in files {
            let text = read(&file)?;
            let digest = format!("{:x}", Sha256::digest(text));
            let is_compared = |(name, digests): &(&str, &[&str])| {
                file.ends_with(name) && digests.contains(&digest.as_str())
            };
            if !COMPARED.iter().any(is_compared) {
                return Err(format!("{} is of an unknown release, or changed", file.display()));
            }
        }
        Ok(())
    }

    /// The modules in the files of Flux and of users, in their order.
    pub(super) fn modules(&self) -> Result<Vec<Task>, String> {
        let mut files = vec![self.at(MODULE_DIRECTORIES[0]).join("modprobe.toml")];
        for directory in MODULE_DIRECTORIES {
            files.extend(files_in(&self.at(directory).join("modprobe.d"), "toml")?);
        }
        let mut modules: Vec<Task> = Vec::new();
        for file in files {
            let text = String::from_utf8_lossy(&read(&file)?).into_owned();
            let parsed: Result<ModuleFile, _> = toml::from_str(&text);
            let parsed =
                parsed.map_err(|error| format!("{}: {}", file.display(), error.message()))?;
            for module in parsed.modules {
                if modules.iter().any(|other| other.name == module.name) {
                    return Err(format!("{}: {} is there twice", file.display(), module.name));
                }
                modules.push(module);
            }
        }
        Ok(modules)
    }

    /// The scripts of `rc1.d` or `rc3.d`, by name.
    pub(super) fn scripts(&self, stage: &str) -> Result<Vec<PathBuf>, String> {
        files_in(&self.at("etc/flux").join(stage), "")
    }
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    fs::read(file).map_err(|error| format!("read {}: {error}", file.display()))
}

/// The files in `directory` with this extension, sorted by name; none if there is no such directory. An empty extension
/// matches every file.
fn files_in(directory: &Path, extension: &str) -> Result<Vec<PathBuf>, String> {
    let failed = |error: io::Error| format!("read directory {}: {error}", directory.display());
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        if extension.is_empty() || path.extension() == Some(OsStr::new(extension)) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(prefix: &Prefix, path: &str, text: &str) {
        let path = prefix.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn rc_files_of_unknown_releases_are_refused() {
        let pod = tempfile::tempdir().unwrap();
        let root = Root::new(pod.path());
        let prefix = Prefix::new("/opt/flux".into(), root.clone());
        let refusal = |root: &Root| {
            options(Path::new("/view/bin/flux"), root, Path::new("/agent"), &Environment::new(), "")
                .unwrap_err()
        };
        assert!(refusal(&root).contains("/view"), "there is no Flux");
        write(&prefix, "bin/flux", "");
        std::os::unix::fs::symlink("opt/flux", pod.path().join("view")).unwrap();
        assert!(refusal(&root).contains("rc1.py: No such file"));
        write(&prefix, "libexec/flux/modprobe/rc1.py", "import flux\n");
        assert!(refusal(&root).ends_with("rc1.py is of an unknown release, or changed"));
        let own = options(Path::new("flux"), &root, Path::new("/agent"), &Environment::new(), "");
        assert_eq!(own.unwrap_err(), "Flux is the image's own");
    }

    #[test]
    fn modules_are_read_from_all_files_and_unknown_keys_refused() {
        let pod = tempfile::tempdir().unwrap();
        let prefix = Prefix::new("/opt/flux".into(), Root::new(pod.path()));
        write(
            &prefix,
            "share/flux/modprobe/modprobe.toml",
            "[[modules]]\nname = \"kvs\"\nranks = \">0\"\n",
        );
        write(&prefix, "etc/flux/modprobe/modprobe.d/own.toml", "[[modules]]\nname = \"own\"\n");
        let modules = prefix.modules().unwrap();
        assert_eq!(modules.iter().map(|module| &*module.name).collect::<Vec<_>>(), ["kvs", "own"]);
        assert!(modules[0].ranks.contain(1) && !modules[0].ranks.contain(0));
        for (text, why) in [
            ("[[modules]]\nname = \"a\"\ndisabled = true\n", "unknown field `disabled`"),
            ("[kvs]\nranks = \"0\"\n", "unknown field `kvs`"),
            ("[[modules]]\nname = \"kvs\"\n", "kvs is there twice"),
            ("[[modules]]\nname = \"a\"\nranks = \"some\"\n", "\"some\" is no set of ranks"),
        ] {
            write(&prefix, "share/flux/modprobe/modprobe.d/more.toml", text);
            let refusal = prefix.modules().unwrap_err();
            assert!(refusal.contains(why) && refusal.contains("more.toml"), "{refusal}");
        }
    }

    #[test]
    fn only_the_choice_among_alternatives_may_be_configured() {
        for (config, why) in [
            ("[modules.alternatives]\nsched = \"sched-simple\"\n", None),
            ("[modules.kvs]\nranks = \"0\"\n", Some("the broker's configuration has modules.kvs")),
            (
                "[fake-resources]\nnnodes = 2\n",
                Some("the broker's configuration has fake-resources"),
            ),
        ] {
            let config: Value = toml::from_str(config).unwrap();
            assert_eq!(check_config(&config).err().as_deref(), why);
        }
    }
}
