//! Running tasks on the broker they are placed on.

use crate::environment::rc1_fault;
use crate::output::{Stream, strerror};
use crate::protocol::JobSpec;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};

#[derive(Serialize, Deserialize)]
pub(crate) enum Order {
    Start(Box<TaskOrder>),
    /// End the tasks of a job, those that ignore SIGTERM after the kill timeout.
    Cancel(u64),
    Signal(u64, i32),
}

#[derive(Serialize, Deserialize)]
pub(crate) struct TaskOrder {
    pub(crate) job: u64,
    pub(crate) task: u32,
    /// The job as submitted, with the environment of the task but for `FLUX_URI`.
    pub(crate) spec: JobSpec,
}

impl TaskOrder {
    fn file(&self, name: Option<&String>) -> Option<PathBuf> {
        name.map(|name| Path::new(&self.spec.directory).join(name))
    }

    /// Where a stream goes: into the pipe of the watching client, or into a file, which the first task begins.
    fn open(&self, path: Option<PathBuf>) -> std::io::Result<Stdio> {
        let Some(path) = path else { return Ok(Stdio::piped()) };
        if self.task == 0 {
            File::create(&path)?;
        }
        OpenOptions::new().append(true).create(true).open(path).map(Stdio::from)
    }
}

#[derive(Serialize, Deserialize)]
pub(crate) enum Happened {
    Output(Stream, String),
    NotStarted(i32, String),
    /// It ended with this status, as wait(2) has it.
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
            tokio::spawn(follow(child, report));
            process
        }
        Err(error) => {
            let code = if error.kind() == ErrorKind::NotFound { 127 } else { 126 };
            let program = order.spec.command.first().map_or("batch script", String::as_str);
            let note =
                format!("task {}: start failed: {program}: {}", order.task, strerror(&error));
            let text = format!("flux-shell[0]: FATAL: {note}\n");
            let file = order.file(order.spec.error.as_ref());
            match file.map(|path| OpenOptions::new().append(true).open(path)) {
                Some(file) => drop(file.and_then(|mut file| file.write_all(text.as_bytes()))),
                None => report(Happened::Output(Stream::Error, text)),
            }
            report(Happened::NotStarted(code, note));
            None
        }
    }
}

fn command(order: &TaskOrder, rundir: &str) -> std::io::Result<Command> {
    let spec = &order.spec;
    let output = order.open(order.file(spec.output.as_ref()))?;
    let error = order.open(order.file(spec.error.as_ref()))?;
    let mut words = spec.command.clone();
    if let Some(script) = &spec.script {
        // The instance of a batch job runs rc1 like any other.
        if rc1_fault(&spec.environment, true).is_some() {
            return Err(Error::from_raw_os_error(nix::libc::ENOENT));
        }
        let path = format!("{rundir}/script-{}", order.job);
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o700).open(&path)?;
        file.write_all(script.as_bytes())?;
        words.insert(0, path);
    }
    let (program, arguments) = words.split_first().ok_or(ErrorKind::InvalidInput)?;
    // As by the shell that starts tasks, it is looked up in the task's own `PATH`.
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(&spec.environment);
    command.current_dir(&spec.directory).process_group(0);
    command.stdin(if spec.no_input { Stdio::null() } else { Stdio::piped() });
    command.stdout(output).stderr(error);
    Ok(command)
}

async fn follow(mut child: Child, report: impl Fn(Happened)) {
    // A task's input stays open, as long as nobody attaches to it.
    let _input = child.stdin.take();
    let output = read(child.stdout.take(), Stream::Output, &report);
    let error = read(child.stderr.take(), Stream::Error, &report);
    let (status, (), ()) = tokio::join!(child.wait(), output, error);
    report(Happened::Ended(status.map_or(1 << 8, ExitStatus::into_raw)));
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
