//! Running tasks on the broker they are placed on.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc::UnboundedSender;

use crate::broker::core::News;
use crate::broker::program::rc1_fault;
use crate::front::find_program;
use crate::output::Stream;

/// A task to start.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct TaskOrder {
    /// The job.
    pub(crate) job: u64,
    /// Task rank.
    pub(crate) task: u32,
    /// Command and arguments.
    pub(crate) command: Vec<String>,
    /// Text of a batch script, to be run instead of a command of its own.
    pub(crate) script: Option<String>,
    /// Working directory.
    pub(crate) directory: String,
    /// The whole environment but for `FLUX_URI`.
    pub(crate) environment: BTreeMap<String, String>,
    /// Standard input; none leaves it open and empty.
    pub(crate) input: Option<String>,
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

/// News of a task.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Report {
    /// The job.
    pub(crate) job: u64,
    /// Task rank.
    pub(crate) task: u32,
    /// What happened.
    pub(crate) news: Happened,
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

/// What runs a task: where news go, and where scripts may be put.
#[derive(Debug, Clone)]
pub(crate) struct Runner {
    /// For news.
    pub(crate) reports: UnboundedSender<News>,
    /// The broker's `local-uri`.
    pub(crate) uri: String,
    /// The broker's `rundir`.
    pub(crate) rundir: String,
}

impl Runner {
    /// Starts a task and returns its process id. A task that cannot be started is reported.
    pub(crate) fn start(&self, order: &TaskOrder) -> Option<u32> {
        let report = |news| {
            drop(self.reports.send(News::Task(Report { job: order.job, task: order.task, news })));
        };
        match self.command(order).and_then(|mut command| command.spawn()) {
            Ok(child) => {
                let process = child.id();
                let input = order.input.clone();
                tokio::spawn(follow(child, input, order.job, order.task, self.reports.clone()));
                process
            }
            Err(error) => {
                let code = if error.kind() == ErrorKind::NotFound { 127 } else { 126 };
                let program = order.command.first().map_or("batch script", String::as_str);
                let reason = crate::failure::strerror(&error);
                report(Happened::NotStarted(code, format!("{program}: {reason}")));
                None
            }
        }
    }

    fn command(&self, order: &TaskOrder) -> std::io::Result<Command> {
        let mut words = order.command.clone();
        if let Some(script) = &order.script {
            // The instance of a batch job runs rc1 like any other.
            if rc1_fault(&order.environment, true).is_some() {
                return Err(ErrorKind::NotFound.into());
            }
            let path = format!("{}/script-{}", self.rundir, order.job);
            let mut options = std::fs::OpenOptions::new();
            let mut file =
                options.write(true).create(true).truncate(true).mode(0o700).open(&path)?;
            file.write_all(script.as_bytes())?;
            words.insert(0, path);
        }
        let (program, arguments) =
            words.split_first().ok_or_else(|| std::io::Error::from(ErrorKind::InvalidInput))?;
        // As the shell that starts tasks does, it is looked up in the task's own `PATH`.
        let path = crate::front::path(&order.environment);
        let program = find_program(path, program).ok_or(ErrorKind::NotFound)?;
        let mut command = Command::new(program);
        command.args(arguments).env_clear().envs(&order.environment).env("FLUX_URI", &self.uri);
        command.current_dir(&order.directory);
        // A task's input stays open, as long as nobody attaches to it.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0);
        Ok(command)
    }
}

async fn follow(
    mut child: Child,
    input: Option<String>,
    job: u64,
    task: u32,
    reports: UnboundedSender<News>,
) {
    let mut pipe = child.stdin.take();
    let feed = async {
        if let (Some(text), Some(mut pipe)) = (&input, pipe.take_if(|_| input.is_some())) {
            // A task that does not read its input closes the pipe.
            drop(pipe.write_all(text.as_bytes()).await);
        }
    };
    let output = child.stdout.take();
    let error = child.stderr.take();
    let read_output = read(output, Stream::Output, job, task, &reports);
    let read_error = read(error, Stream::Error, job, task, &reports);
    let (status, (), (), ()) = tokio::join!(child.wait(), read_output, read_error, feed);
    let code = status.map_or(1, exit_code);
    drop(reports.send(News::Task(Report { job, task, news: Happened::Ended(code) })));
}

async fn read(
    pipe: Option<impl AsyncRead + Unpin>,
    stream: Stream,
    job: u64,
    task: u32,
    reports: &UnboundedSender<News>,
) {
    let Some(pipe) = pipe else { return };
    let mut reader = BufReader::new(pipe);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).await.is_ok_and(|count| count > 0) {
        let text = String::from_utf8_lossy(&line).into_owned();
        drop(reports.send(News::Task(Report { job, task, news: Happened::Output(stream, text) })));
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
        .map_err(|error| format!("{}: {}", order.path, crate::failure::strerror(&error)))?;
    file.write_all(order.text.as_bytes()).map_err(|error| format!("{}: {error}", order.path))
}
