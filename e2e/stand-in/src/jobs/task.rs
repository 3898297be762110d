//! Running tasks on the broker they are placed on.

use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};

use super::spec::JobSpec;
use crate::broker::program::rc1_fault;
use crate::failure::strerror;
use crate::front::find_program;
use crate::output::Stream;

/// What the job manager wants of a broker.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Start a task.
    Start(Box<TaskOrder>),
    /// Signal the tasks of a job.
    Signal(u64, i32),
    /// Append to an output file of a job.
    Write(WriteOrder),
}

/// A task to start.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct TaskOrder {
    /// The job.
    pub(crate) job: u64,
    /// Task rank.
    pub(crate) task: u32,
    /// The job as submitted, with the environment of the task but for `FLUX_URI`.
    pub(crate) spec: JobSpec,
}

/// Text for an output file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct WriteOrder {
    /// The file.
    pub(crate) path: String,
    /// The text.
    pub(crate) text: String,
    /// Whether this is the first text: the file is emptied.
    pub(crate) first: bool,
}

/// What happened to a task.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Happened {
    /// It wrote something.
    Output(Stream, String),
    /// It could not be started: exit code and reason.
    NotStarted(i32, String),
    /// It ended with this code, 128+N after a signal.
    Ended(i32),
}

/// Starts a task and returns its process id. Its broker is at `uri` and lets it put scripts into
/// `rundir`; what happens goes to `report`.
pub(crate) fn start(
    order: &TaskOrder,
    uri: &str,
    rundir: &str,
    report: impl Fn(Happened) + Send + Sync + 'static,
) -> Option<u32> {
    let started =
        command(order, rundir).and_then(|mut command| command.env("FLUX_URI", uri).spawn());
    match started {
        Ok(child) => {
            let process = child.id();
            tokio::spawn(follow(child, order.spec.input.clone(), report));
            process
        }
        Err(error) => {
            let code = if error.kind() == ErrorKind::NotFound { 127 } else { 126 };
            let program = order.spec.command.first().map_or("batch script", String::as_str);
            report(Happened::NotStarted(code, format!("{program}: {}", strerror(&error))));
            None
        }
    }
}

fn command(order: &TaskOrder, rundir: &str) -> std::io::Result<Command> {
    let mut words = order.spec.command.clone();
    if let Some(script) = &order.spec.script {
        // The instance of a batch job runs rc1 like any other.
        if rc1_fault(&order.spec.environment, true).is_some() {
            return Err(not_found());
        }
        let path = format!("{rundir}/script-{}", order.job);
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o700).open(&path)?;
        file.write_all(script.as_bytes())?;
        words.insert(0, path);
    }
    let (program, arguments) = words.split_first().ok_or(ErrorKind::InvalidInput)?;
    // As the shell that starts tasks does, it is looked up in the task's own `PATH`.
    let path = crate::front::path(&order.spec.environment);
    let program = find_program(path, program).ok_or_else(not_found)?;
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(&order.spec.environment);
    command.current_dir(&order.spec.directory).process_group(0);
    // A task's input stays open, as long as nobody attaches to it.
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command)
}

fn not_found() -> std::io::Error {
    std::io::Error::from_raw_os_error(nix::libc::ENOENT)
}

async fn follow(mut child: Child, input: Option<String>, report: impl Fn(Happened)) {
    let mut pipe = child.stdin.take();
    let feed = async {
        if let (Some(text), Some(mut pipe)) = (&input, pipe.take_if(|_| input.is_some())) {
            // A task that does not read its input closes the pipe.
            drop(pipe.write_all(text.as_bytes()).await);
        }
    };
    let read_output = read(child.stdout.take(), Stream::Output, &report);
    let read_error = read(child.stderr.take(), Stream::Error, &report);
    let (status, (), (), ()) = tokio::join!(child.wait(), read_output, read_error, feed);
    report(Happened::Ended(status.map_or(1, exit_code)));
}

async fn read(pipe: Option<impl AsyncRead + Unpin>, stream: Stream, report: &impl Fn(Happened)) {
    let Some(pipe) = pipe else { return };
    let mut reader = BufReader::new(pipe);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).await.is_ok_and(|count| count > 0) {
        report(Happened::Output(stream, String::from_utf8_lossy(&line).into_owned()));
        line.clear();
    }
}

/// The code a shell would give: 128+N after signal N.
pub(crate) fn exit_code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
}

/// Appends to an output file of a job; the error is for the log.
pub(crate) fn write(order: &WriteOrder) -> Result<(), String> {
    let mut options = std::fs::OpenOptions::new();
    options.create(true).write(true).truncate(order.first).append(!order.first);
    let mut file = options
        .open(&order.path)
        .map_err(|error| format!("{}: {}", order.path, strerror(&error)))?;
    file.write_all(order.text.as_bytes()).map_err(|error| format!("{}: {error}", order.path))
}
