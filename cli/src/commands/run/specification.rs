//! The MiniCluster of a `run`, from the options of the command line.
//!
//! It has only what the user has set, so that the operator's defaults apply to the rest.

use super::options::{Options, pair};
use crate::commands::validate::checker;
use crate::output::print_remarks;
use crate::random_name::random_name;
use anyhow::{Context as _, Result, bail, ensure};
use clap::{Args, ValueHint};
use flux_api::cluster::QUEUE_LABEL;
use flux_api::crd::MiniCluster;
use flux_api::offline::{Document, Findings, Remark};
use kube::Resource as _;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const MAX_STEM_LENGTH: usize = 30;
/// What `run` has made and could not delete goes so many seconds after its end.
const LEFTOVER_SECONDS: i64 = 3600;
/// An interactive instance that `run` has made ends after so many seconds without a job and a session.
const IDLE_SECONDS: i64 = 1800;

#[derive(Debug, Clone, Args)]
pub(super) struct RunSpec {
    /// Image in which the command runs
    #[arg(required_unless_present = "file")]
    image: Option<String>,
    /// File with a MiniCluster, or - for standard input; the other options change it
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: Option<PathBuf>,
    /// Number of pods
    #[arg(long, short, value_name = "NUMBER")]
    size: Option<i32>,
    /// Number of tasks of the command [default: one for each pod]
    #[arg(long, short, value_name = "NUMBER")]
    tasks: Option<i32>,
    /// Name of the MiniCluster [default: the name of the image or of the MiniCluster in the file, and a random suffix]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Environment variable of the command
    #[arg(long, short, value_name = "NAME=VALUE", value_parser = pair)]
    env: Vec<(String, String)>,
    /// Working directory of the command
    #[arg(long, short, value_name = "PATH")]
    workdir: Option<String>,
    /// Kueue queue in which to wait
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,
    /// Run a shell, or the command, in this terminal, on the lead of a new instance
    #[arg(long, short)]
    pub interactive: bool,
    /// Also print the lines of the lead's broker and agent, even if logging.quiet is set
    #[arg(long)]
    pub broker: bool,
    #[command(flatten)]
    options: Options,
    /// The command with its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

#[derive(Debug)]
pub(super) struct Made {
    pub object: Value,
    /// Whether nobody else can have given a MiniCluster this name.
    pub has_random_name: bool,
    source: PathBuf,
}

impl Made {
    pub(super) fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// Lets the operator delete what is left if this process cannot: the MiniCluster after its end, and an interactive one
    /// that nobody uses.
    pub(super) fn limit_leftovers(&mut self) {
        let spec = &mut self.object["spec"];
        if spec["ttlSecondsAfterFinished"].is_null() && spec["cleanup"] != true {
            spec["ttlSecondsAfterFinished"] = json!(LEFTOVER_SECONDS);
        }
        if spec["interactive"] == true && spec["idleDeadlineSeconds"].is_null() {
            spec["idleDeadlineSeconds"] = json!(IDLE_SECONDS);
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        let text = serde_json::to_string(&self.object).context("write JSON")?;
        let Findings { faults, .. } = checker().findings(&self.source, &text);
        // The lines are those of a text that the user has not seen.
        ensure_none(faults.into_iter().map(|fault| Remark { line: None, ..fault }))
    }

    pub(super) fn check_namespace(&self, namespace: &str) -> Result<()> {
        let own = self.object["metadata"]["namespace"].as_str().unwrap_or(namespace);
        ensure!(
            own == namespace,
            "{}: metadata.namespace is {own}, and the namespace of this command is {namespace}: use --namespace {own}",
            self.source.display()
        );
        Ok(())
    }
}

impl RunSpec {
    pub(super) fn minicluster(
        &self,
        random: &mut dyn FnMut() -> Result<u32, getrandom::Error>,
    ) -> Result<Made> {
        let mut object = match &self.file {
            Some(file) => read(file)?,
            None => of_image(),
        };
        let name = match &self.name {
            Some(name) => name.clone(),
            None => random_name(&self.stem(&object["metadata"]), random)?,
        };
        let metadata = &mut object["metadata"];
        metadata["name"] = json!(name);
        metadata.as_object_mut().map(|metadata| metadata.remove("generateName"));
        if let Some(queue) = &self.queue {
            metadata["labels"][QUEUE_LABEL] = json!(queue);
        }
        self.change(&mut object["spec"])?;
        let source = self.file.clone().unwrap_or_else(|| PathBuf::from("the command line"));
        Ok(Made { object, has_random_name: self.name.is_none(), source })
    }

    fn stem(&self, metadata: &Value) -> String {
        let named = metadata["name"].as_str();
        let generated = metadata["generateName"].as_str().map(|name| name.trim_end_matches('-'));
        match named.or(generated) {
            Some(name) => name.to_owned(),
            None => stem(self.image.as_deref().unwrap_or_default()),
        }
    }

    fn change(&self, spec: &mut Value) -> Result<()> {
        if let Some(size) = self.size {
            spec["size"] = json!(size);
        }
        // Without a file there is one task for each pod.
        let tasks = if self.file.is_some() { None } else { self.size };
        if let Some(tasks) = self.tasks.or(tasks) {
            spec["tasks"] = json!(tasks);
        }
        if self.interactive {
            spec["interactive"] = json!(true);
        }
        if self.broker {
            spec["logging"]["quiet"] = json!(false);
        }
        self.options.change_spec(spec);
        let is_interactive = spec["interactive"] == true;
        let runner = runner(&mut spec["containers"])?;
        if let Some(image) = &self.image {
            runner["image"] = json!(image);
        }
        for (name, value) in &self.env {
            runner["environment"][name] = json!(value);
        }
        if let Some(workdir) = &self.workdir {
            runner["workingDir"] = json!(workdir);
        }
        self.options.change_container(runner);
        if self.interactive {
            runner.as_object_mut().map(|runner| runner.remove("command"));
        } else if !self.command.is_empty() {
            let argv = self.command.iter().map(String::as_str);
            runner["command"] = json!(shlex::try_join(argv).context("quote the command")?);
        }
        let has_command = runner["command"].is_string();
        if has_command && runner["launcher"] != true {
            self.options.request_gpus(spec);
        }
        let runs = is_interactive || has_command;
        ensure!(runs, "there is no command: write it after --, or use --interactive");
        Ok(())
    }
}

fn runner(containers: &mut Value) -> Result<&mut Value> {
    let containers = containers.as_array_mut().context("spec.containers: missing")?;
    let marked = containers.iter().position(|container| container["runFlux"] == true);
    let at = marked.or_else(|| containers.iter().position(|it| it["runFlux"].is_null()));
    at.map(|at| &mut containers[at]).context("spec.containers: no container has runFlux: true")
}

fn of_image() -> Value {
    json!({
        "apiVersion": MiniCluster::api_version(&()), "kind": MiniCluster::kind(&()), "metadata": {},
        "spec": { "containers": [{}], "logging": { "quiet": true } },
    })
}

fn read(file: &Path) -> Result<Value> {
    let documents = match checker().documents_of(file, &mut std::io::stdin())? {
        Ok(documents) => documents,
        Err(Findings { faults, .. }) => {
            ensure_none(faults.into_iter())?;
            Vec::new()
        }
    };
    let kinds = documents.iter().map(|it| it.value["kind"].as_str().unwrap_or("nothing"));
    let kinds = kinds.collect::<Vec<_>>().join(", ");
    let Document { findings, value, object, .. } = match &documents[..] {
        [document] if document.is_checked() => document,
        _ => bail!("{} has {kinds}: give `run` a file with one MiniCluster", file.display()),
    };
    print_remarks(&findings.notes);
    // The options may still mend other faults.
    let is_shape = |fault: &&Remark| object.is_none() || fault.message.contains("no such field");
    ensure_none(findings.faults.iter().filter(is_shape).cloned())?;
    Ok(value.clone())
}

fn ensure_none(faults: impl Iterator<Item = Remark>) -> Result<()> {
    let faults: Vec<_> = faults.collect();
    print_remarks(&faults);
    ensure!(faults.is_empty(), "nothing was created: correct these faults ({})", faults.len());
    Ok(())
}

/// The part of an image's name that can begin a name: `lammps` for `registry/lammps:1`.
fn stem(image: &str) -> String {
    let name = image.rsplit('/').next().unwrap_or_default();
    let name = name.split([':', '@']).next().unwrap_or_default();
    let lower = name.to_ascii_lowercase().replace(|it: char| !it.is_ascii_alphanumeric(), "-");
    let stem: String = lower
        .trim_start_matches(|it: char| !it.is_ascii_lowercase())
        .chars()
        .take(MAX_STEM_LENGTH)
        .collect();
    if stem.is_empty() { "flux".to_owned() } else { stem }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        spec: RunSpec,
    }

    fn made(line: &str) -> Result<Made> {
        let words = shlex::split(&format!("run {line}")).unwrap();
        Line::try_parse_from(words).unwrap().spec.minicluster(&mut || Ok(0))
    }

    #[test]
    fn options_are_fields_of_a_minicluster() {
        let lines = [
            "example/lammps:2 -s4 -t8 -eA=1=2 --queue night -w /d -- sh -c 'exit 7'",
            "a --cpu 4 --memory 8Gi --gpus 2 --gpus amd.com/gpu=1 --time 1h30m --service-account me \
             --image-pull-secret key --node-selector gpu=yes --rest --volume data:/data --volume /scratch:/s:ro \
             --volume secret/token:/t -- x",
            "ubuntu -i --name mine -- bash",
        ];
        insta::assert_yaml_snapshot!(lines.map(|line| {
            let made = made(line).unwrap();
            made.check().unwrap();
            made.object
        }));
    }

    #[test]
    fn lines_of_flux_are_asked_for() {
        let quiet = |line: &str| made(line).unwrap().object["spec"]["logging"]["quiet"].clone();
        assert_eq!([quiet("a -- x"), quiet("a --broker -- x")], [json!(true), json!(false)]);
    }

    #[test]
    fn the_job_of_a_command_asks_for_the_gpus_of_its_pods() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str, container: Value, flux: Value| {
            let mut object = of_image();
            object["metadata"]["name"] = json!("a");
            (object["spec"]["containers"], object["spec"]["flux"]) = (json!([container]), flux);
            let path = directory.path().join(name);
            std::fs::write(&path, object.to_string()).unwrap();
            format!("-f {} --gpus 1", path.display())
        };
        let launcher = json!({ "image": "a", "command": "b", "launcher": true });
        let given = json!({ "optionFlags": "-g 1" });
        for (line, flags) in [
            ("a --gpus 2 -- x", Some("--exclusive")),
            ("a -s2 -t8 --gpus 2 -- x", Some("--exclusive")),
            ("a -s2 -t0 --gpus 2 -- x", Some("--exclusive")),
            ("a -s4 -t2 --gpus 2 -- x", Some("-g 2")),
            ("a -s2 --gpus 0 -- x", None),
            ("a -s2 -- x", None),
            ("a -i --gpus 2", None),
            (&file("launcher", launcher, json!({})), None),
            (&file("given", json!({ "image": "a", "command": "b" }), given), Some("-g 1")),
        ] {
            let made = made(line).unwrap();
            made.check().unwrap();
            assert_eq!(made.object["spec"]["flux"]["optionFlags"].as_str(), flags, "{line}");
        }
    }

    #[test]
    fn incomplete_command_lines_are_refused() {
        for (line, expected) in
            [("ubuntu", "there is no command"), ("-f /no/such -- true", "read /no/such")]
        {
            let error = made(line).unwrap_err().to_string();
            assert!(error.contains(expected), "{line}: {error}");
        }
        let no_value = Line::try_parse_from(["run", "ubuntu", "-eA", "--", "true"]).err().unwrap();
        assert!(no_value.to_string().contains("NAME=VALUE"), "{no_value}");
    }

    #[test]
    fn image_names_become_names_of_miniclusters() {
        let names =
            ["ghcr.io/a/LAMMPS_x:latest", "7zip@sha256:0", "localhost:5000/", "ubuntu"].map(stem);
        assert_eq!(names, ["lammps-x", "zip", "flux", "ubuntu"]);
    }
}
