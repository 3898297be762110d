//! The MiniCluster of a `run`, from the options of the command line.

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use flux_api::cluster::QUEUE_LABEL;
use flux_api::crd::{Container, MiniCluster, MiniClusterSpec};
use kube::ResourceExt as _;
use std::io::Read as _;
use std::path::PathBuf;

/// The characters of generated suffixes, which are hard to confuse: those of Kubernetes.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX_LENGTH: usize = 5;
/// Largest length of the part of a generated name that comes from the image.
const MAX_STEM_LENGTH: usize = 30;

/// The options of `run` that describe the MiniCluster.
#[derive(Debug, Clone, Args)]
pub(super) struct RunSpec {
    /// Image in which the command runs
    #[arg(required_unless_present = "file")]
    image: Option<String>,
    /// File with a MiniCluster, or - for standard input; the other options change it
    #[arg(long, short, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Number of pods
    #[arg(long, value_name = "NUMBER")]
    size: Option<i32>,
    /// Number of tasks of the command [default: one for each pod]
    #[arg(long, short, value_name = "NUMBER")]
    tasks: Option<i32>,
    /// Name of the MiniCluster [default: the name of the image or of the MiniCluster in the file, and a random suffix]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Environment variable of the command
    #[arg(long, short, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// Working directory of the command
    #[arg(long, short, value_name = "PATH")]
    workdir: Option<String>,
    /// Kueue queue in which to wait
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,
    /// Run a shell, or the command, in this terminal, on the lead of a new instance
    #[arg(long, short)]
    pub interactive: bool,
    /// The command with its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

impl RunSpec {
    /// Makes the MiniCluster; `random` chooses the suffix of its name.
    pub(super) fn minicluster(
        &self,
        random: &mut dyn FnMut() -> Result<u32, getrandom::Error>,
    ) -> Result<MiniCluster> {
        let mut cluster = match &self.file {
            Some(file) => read(file)?,
            None => of_image(),
        };
        let stem = match (&self.name, &cluster.metadata.name, &self.image) {
            (None, Some(name), _) => name.clone(),
            (None, None, image) => stem(image.as_deref().unwrap_or_default()),
            (Some(_), ..) => String::new(),
        };
        cluster.metadata.name = Some(match &self.name {
            Some(name) => name.clone(),
            None => format!("{stem}-{}", suffix(random)?),
        });
        self.change(&mut cluster)?;
        Ok(cluster)
    }

    fn change(&self, cluster: &mut MiniCluster) -> Result<()> {
        if let Some(queue) = &self.queue {
            cluster.labels_mut().insert(QUEUE_LABEL.to_owned(), queue.clone());
        }
        let spec = &mut cluster.spec;
        spec.size = self.size.unwrap_or(spec.size);
        // Without a file there is one task for each pod.
        let tasks = if self.file.is_some() { spec.tasks } else { spec.size };
        spec.tasks = self.tasks.unwrap_or(tasks);
        spec.interactive |= self.interactive;
        let runner = runner(&mut spec.containers)?;
        runner.image = self.image.clone().or_else(|| runner.image.take());
        for variable in &self.env {
            let no_value = || format!("--env {variable:?} has no value: use --env NAME=VALUE");
            let (name, value) = variable.split_once('=').with_context(no_value)?;
            runner.environment.insert(name.to_owned(), value.to_owned());
        }
        runner.working_dir = self.workdir.clone().or_else(|| runner.working_dir.take());
        if self.interactive {
            runner.command = None;
        } else if !self.command.is_empty() {
            let words = self.command.iter().map(String::as_str);
            runner.command = Some(shlex::try_join(words).context("quote the command")?);
        }
        let runs = spec.interactive || runner.command.is_some();
        ensure!(runs, "there is no command: write it after --, or use --interactive");
        Ok(())
    }
}

/// The container that runs Flux.
fn runner(containers: &mut [Container]) -> Result<&mut Container> {
    let marked = containers.iter().position(|container| container.run_flux == Some(true));
    let at = marked.or_else(|| containers.iter().position(|it| it.run_flux.is_none()));
    match at {
        Some(at) => Ok(&mut containers[at]),
        None => bail!("spec.containers: no container has runFlux: true"),
    }
}

fn of_image() -> MiniCluster {
    let mut spec =
        MiniClusterSpec { containers: vec![Container::default()], ..MiniClusterSpec::default() };
    spec.logging.quiet = true;
    let mut cluster = MiniCluster::new("", spec);
    cluster.metadata.name = None;
    cluster
}

fn read(file: &PathBuf) -> Result<MiniCluster> {
    let mut text = String::new();
    if file.as_os_str() == "-" {
        std::io::stdin().read_to_string(&mut text).context("read the standard input")?;
    } else {
        text = std::fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
    }
    let cluster: MiniCluster = serde_saphyr::from_str(&text)
        .with_context(|| format!("read the MiniCluster in {}", file.display()))?;
    Ok(cluster)
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

fn suffix(random: &mut dyn FnMut() -> Result<u32, getrandom::Error>) -> Result<String> {
    let mut number = random().context("choose a random name")? as usize;
    let mut letters = String::new();
    for _ in 0..SUFFIX_LENGTH {
        letters.push(char::from(LETTERS[number % LETTERS.len()]));
        number /= LETTERS.len();
    }
    Ok(letters)
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

    fn made(words: &[&str]) -> Result<MiniCluster> {
        let words = [&["run"], words].concat();
        Line::try_parse_from(words).unwrap().spec.minicluster(&mut || Ok(0))
    }

    #[test]
    fn an_image_and_a_command_are_a_minicluster() {
        let options = "example/lammps:2 --size=4 -t8 -eA=1=2 --queue night";
        let words: Vec<&str> = options.split(' ').chain(["--", "sh", "-c", "exit 7"]).collect();
        let cluster = made(&words).unwrap();
        assert_eq!(cluster.name_any(), "lammps-bbbbb");
        assert_eq!((cluster.spec.size, cluster.spec.tasks), (4, 8));
        let container = &cluster.spec.containers[0];
        assert_eq!(container.command.as_deref(), Some("sh -c 'exit 7'"));
        assert_eq!(container.environment["A"], "1=2");
        assert_eq!(cluster.labels()[QUEUE_LABEL], "night");
        assert!(cluster.spec.logging.quiet);
    }

    #[test]
    fn an_interactive_instance_has_no_command_of_its_own() {
        let cluster = made(&["ubuntu", "-i", "--name", "mine", "--", "bash"]).unwrap();
        assert_eq!((cluster.name_any().as_str(), cluster.spec.interactive), ("mine", true));
        assert_eq!(cluster.spec.containers[0].command, None);
    }

    #[test]
    fn incomplete_command_lines_are_refused() {
        for (words, expected) in [
            (&["ubuntu"][..], "there is no command"),
            (&["ubuntu", "-eA", "--", "true"], "NAME=VALUE"),
            (&["-f", "/no/such", "--", "true"], "read /no/such"),
        ] {
            let error = made(words).unwrap_err().to_string();
            assert!(error.contains(expected), "{words:?}: {error}");
        }
    }

    #[test]
    fn image_names_become_names_of_miniclusters() {
        let names =
            ["ghcr.io/a/LAMMPS_x:latest", "7zip@sha256:0", "localhost:5000/", "ubuntu"].map(stem);
        assert_eq!(names, ["lammps-x", "zip", "flux", "ubuntu"]);
    }
}
