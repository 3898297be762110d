//! The operators that are measured: this one, and those of others whose programs are at hand. Each runs as a process
//! beside the API server, and the kernel accounts for it.

use e2e::environment::MINICLUSTERS;
use e2e::operator_process::{ARGUMENTS, OperatorProcess};
use e2e::prelude::*;
use e2e::product::install::{self, NAME, NAMESPACE};
use nix::time::clock_getcpuclockid;
use nix::unistd::Pid;
use procfs::process::Process;
use serde::Serialize;
use std::fs;
use tempfile::NamedTempFile;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// An operator with less than this much work in [`QUIET`] has nothing to do.
const IDLE: Duration = Duration::from_millis(20);
/// How long it is watched for that.
const QUIET: Duration = Duration::from_secs(2);
/// How long it may work on after the end: an operator that is never idle is measured up to here.
const LONGEST_WORK: Duration = Duration::from_secs(30);

/// How long an operator may take to get ready.
const LONGEST_START: Duration = Duration::from_mins(10);

pub(super) struct OperatorProgram {
    program: PathBuf,
    arguments: &'static [&'static str],
    /// What is applied before it starts.
    manifests: Vec<String>,
    /// The name of its CRD.
    definition: &'static str,
    /// Where its service account is, whose name is [`NAME`].
    namespace: &'static str,
}

impl OperatorProgram {
    pub(super) fn ours(program: PathBuf) -> Result<Self> {
        // Its Deployment must not run beside the program that is measured.
        let operator = install::operator()?;
        let stopped = operator.replace("replicas: 1", "replicas: 0");
        ensure!(stopped != operator, "deploy/operator.yaml has no `replicas: 1`");
        Ok(Self {
            program,
            arguments: &ARGUMENTS,
            manifests: vec![install::definition()?, stopped],
            definition: MINICLUSTERS,
            namespace: NAMESPACE,
        })
    }

    /// Another project's operator, with the file of its CRD, whose name is `definition`.
    pub(super) fn peer(
        program: &Path,
        arguments: &'static [&'static str],
        definition_file: &Path,
        definition: &'static str,
    ) -> Result<Self> {
        let reading = || format!("reading {}", definition_file.display());
        let text = fs::read_to_string(definition_file).with_context(reading)?;
        let manifests = vec![text, include_str!("peer-account.yaml").to_owned()];
        let (program, namespace) = (program.to_owned(), "default");
        Ok(Self { program, arguments, manifests, definition, namespace })
    }

    /// Applies what the operator needs in the cluster.
    pub(super) fn install(&self, environment: &Environment) -> Result<()> {
        self.manifests.iter().try_for_each(|manifest| environment.cluster.apply(manifest, &[]))?;
        environment.await_served(self.definition)
    }

    /// Starts it with the rights of its service account, from where the cluster can be reached.
    pub(super) fn start(&self, environment: &Environment) -> Result<Operator> {
        let words = ["create", "token", NAME, "--namespace", self.namespace, "--duration=24h"];
        let token = environment.kubectl(&words)?;
        let reading = "reading the administrator's kubeconfig";
        let text = fs::read_to_string(environment.cluster.kubeconfig()).context(reading)?;
        let config = with_token(&text, token.trim()).context(reading)?;
        let kubeconfig = NamedTempFile::new().context("making a kubeconfig")?;
        fs::write(kubeconfig.path(), config).context("writing a kubeconfig")?;
        Operator::start(&self.program, self.arguments, kubeconfig)
    }
}

/// Whether the operator that runs with [`ARGUMENTS`] answers that it is ready.
async fn is_ready() -> bool {
    let asked = async {
        let mut stream = TcpStream::connect("127.0.0.1:18081").await?;
        stream.write_all(b"GET /readyz HTTP/1.0\r\n\r\n").await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        std::io::Result::Ok(answer)
    };
    asked.await.is_ok_and(|answer| answer.split(' ').nth(1) == Some("200"))
}

/// The kubeconfig with this token instead of a certificate.
fn with_token(kubeconfig: &str, token: &str) -> Result<String> {
    let mut config: Value = serde_saphyr::from_str(kubeconfig)?;
    config["users"][0]["user"] = json!({ "token": token });
    Ok(config.to_string())
}

/// A process's memory, in MiB.
#[derive(Debug, Serialize)]
pub(super) struct Memory {
    resident: f64,
    /// The part of it that is no file.
    anonymous: f64,
    /// The most that was resident.
    peak: f64,
}

#[derive(Debug)]
pub(super) struct Operator {
    process: OperatorProcess,
    pid: Pid,
    _kubeconfig: NamedTempFile,
}

impl Operator {
    fn start(program: &Path, arguments: &[&str], kubeconfig: NamedTempFile) -> Result<Self> {
        let mut command = Command::new(program);
        command.args(arguments).env("KUBECONFIG", kubeconfig.path());
        let process = OperatorProcess::start(&mut command, "operator-of-bench.log")?;
        let pid = Pid::from_raw(i32::try_from(process.id()).context("reading a process id")?);
        Ok(Self { process, pid, _kubeconfig: kubeconfig })
    }

    pub(super) fn check(&mut self) -> Result<()> {
        self.process.check()
    }

    /// The processor time of all its threads so far.
    pub(super) fn processor_time(&self) -> Result<Duration> {
        let clock = clock_getcpuclockid(self.pid).context("finding the operator's clock")?;
        Ok(clock.now().context("reading the operator's clock")?.into())
    }

    pub(super) fn memory(&self) -> Result<Memory> {
        let process = Process::new(self.pid.as_raw());
        let status = process.and_then(|it| it.status()).context("reading the operator's memory")?;
        let mebibytes = |kibibytes: Option<u64>| -> Result<f64> {
            let kibibytes = kibibytes.context("the operator has no memory")?;
            Ok(f64::from(u32::try_from(kibibytes)?) / 1024.0)
        };
        Ok(Memory {
            resident: mebibytes(status.vmrss)?,
            anonymous: mebibytes(status.rssanon)?,
            peak: mebibytes(status.vmhwm)?,
        })
    }

    /// Waits until it is ready.
    pub(super) async fn ready(&mut self) -> Result<()> {
        let begun = Instant::now();
        while !is_ready().await {
            self.check()?;
            ensure!(begun.elapsed() < LONGEST_START, "the operator does not get ready");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    /// Waits until it has nothing to do; false if it still works after [`LONGEST_WORK`].
    pub(super) async fn rest(&mut self) -> Result<bool> {
        let begun = Instant::now();
        while begun.elapsed() < LONGEST_WORK {
            self.check()?;
            let before = self.processor_time()?;
            tokio::time::sleep(QUIET).await;
            if self.processor_time()?.saturating_sub(before) < IDLE {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
