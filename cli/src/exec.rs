//! Programs in the pods of a MiniCluster, started by exec.

use crate::minicluster::MiniClusterRef;
use crate::output::reader_gone;
use anyhow::{Context as _, Result};
use crossterm::terminal;
use futures::SinkExt as _;
use futures::future::{self, Either, OptionFuture};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use kube::api::{AttachParams, AttachedProcess, TerminalSize};
use std::io::IsTerminal as _;
use std::pin::pin;
use std::time::Duration;
use tokio::io::{
    self, AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _,
    BufReader,
};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Time after which the size of an idle terminal is sent again: load balancers drop a connection that is silent for a
/// minute or two, some sooner.
const KEEPALIVE: Duration = Duration::from_secs(15);
const BUFFER: usize = 64 << 10;
const MAX_ERROR_LENGTH: u64 = 64 << 10;

#[derive(Debug, Clone)]
pub(crate) struct Output {
    pub code: u8,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl Output {
    pub(crate) fn failure(&self) -> String {
        failure(self.code, &self.stderr)
    }
}

/// Why a program failed: its standard error or, where that is empty, its exit code.
pub(crate) fn failure(code: u8, stderr: &str) -> String {
    match stderr.trim() {
        "" => format!("it ended with code {code}"),
        text => text.to_owned(),
    }
}

pub(crate) async fn capture(target: &MiniClusterRef, pod: &str, argv: &[&str]) -> Result<Output> {
    let parameters = parameters(target);
    let mut process = start(target, pod, argv, &parameters).await?;
    let (out, err) = (process.stdout(), process.stderr());
    let reading = async { tokio::try_join!(read_all(out), read_all(err)) };
    let (code, printed) = end_of_all(process, argv, reading).await?;
    let (stdout, stderr) =
        printed.with_context(|| format!("read the output of {} in {pod}", argv[0]))?;
    Ok(Output { code, stdout, stderr: String::from_utf8_lossy(&stderr).into_owned() })
}

/// Runs a program without input in the runner of this pod, passes each line of its output to `take`, with true for
/// standard error, and returns its exit code.
pub(crate) async fn lines(
    target: &MiniClusterRef,
    pod: &str,
    argv: &[&str],
    take: impl Fn(bool, &str),
) -> Result<u8> {
    let mut process = start(target, pod, argv, &parameters(target)).await?;
    let (out, err) = (process.stdout(), process.stderr());
    let reading = async {
        tokio::try_join!(
            each_line(out, |line| take(false, line)),
            each_line(err, |line| take(true, line))
        )
    };
    let (code, read) = end_of_all(process, argv, reading).await?;
    read.with_context(|| format!("read the output of {} in {pod}", argv[0]))?;
    Ok(code)
}

/// Reads the start of a program's error output, as far as it can be read.
pub(crate) async fn error_text(from: Option<impl AsyncRead + Unpin>) -> String {
    let mut text = Vec::new();
    if let Some(from) = from {
        let _ = from.take(MAX_ERROR_LENGTH).read_to_end(&mut text).await;
    }
    String::from_utf8_lossy(&text).trim().to_owned()
}

async fn each_line(from: Option<impl AsyncRead + Unpin>, take: impl Fn(&str)) -> io::Result<()> {
    let Some(from) = from else { return Ok(()) };
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line).await? > 0 {
        take(String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']));
        line.clear();
    }
    Ok(())
}

async fn read_all(from: Option<impl AsyncRead + Unpin>) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    if let Some(mut from) = from {
        from.read_to_end(&mut all).await?;
    }
    Ok(all)
}

/// The streams that a program shares with this process, besides its outputs.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Streams<'name> {
    pub input: bool,
    /// Whether the program has a terminal, if this process has one.
    pub terminal: bool,
    /// The container in which the program runs, if that is not the runner.
    pub container: Option<&'name str>,
}

/// How much of an output has been printed, over several connections that each repeat it from its start.
#[derive(Debug, Default)]
pub(crate) struct Printed {
    bytes: usize,
    repeated: usize,
}

impl Printed {
    /// Returns the part of `data`, the next bytes of a connection, that no connection has sent before.
    fn take_new<'data>(&mut self, data: &'data [u8]) -> &'data [u8] {
        let known = (self.bytes - self.repeated).min(data.len());
        self.repeated += data.len();
        self.bytes = self.bytes.max(self.repeated);
        &data[known..]
    }
}

/// Runs a program in the runner of this pod and returns its exit code. The program has the output of this process and,
/// with `input`, also its input and its terminal.
pub(crate) async fn pass_through(
    target: &MiniClusterRef,
    pod: &str,
    argv: &[&str],
    input: bool,
) -> Result<u8> {
    let streams = Streams { input, terminal: input, container: None };
    share(target, pod, argv, streams, &mut Default::default()).await
}

/// Runs a program in this pod and returns its exit code, or 0 once nothing reads the output of this process. What is
/// `printed` of its output and its error output is not printed again.
pub(crate) async fn share(
    target: &MiniClusterRef,
    pod: &str,
    argv: &[&str],
    streams: Streams<'_>,
    printed: &mut [Printed; 2],
) -> Result<u8> {
    let has_terminal = !streams.input || std::io::stdin().is_terminal();
    let tty = streams.terminal && has_terminal && std::io::stdout().is_terminal();
    let mut parameters =
        AttachParams { stdin: streams.input, tty, stderr: !tty, ..parameters(target) };
    if let Some(container) = streams.container {
        parameters.container = Some(container.to_owned());
    }
    let mut process = start(target, pod, argv, &parameters).await?;
    let raw = (tty && streams.input).then(RawMode::enter).transpose()?;
    let sizes = tty.then(|| follow_size(&mut process)).flatten();
    let input = process.stdin().map(|to| {
        tokio::spawn(async { drop(copy(io::stdin(), to, &mut Printed::default()).await) })
    });
    let [of_output, of_errors] = printed;
    (of_output.repeated, of_errors.repeated) = (0, 0);
    let gone = Notify::new();
    let (out, err) = (process.stdout(), process.stderr());
    let output = OptionFuture::from(out.map(async |from| {
        let copied = copy(from, io::stdout(), of_output).await;
        if copied.is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
            gone.notify_one();
        }
    }));
    let errors = OptionFuture::from(err.map(|from| copy(from, io::stderr(), of_errors)));
    let ended = tokio::select! {
        ended = end_of_all(process, argv, future::join(output, errors)) => ended.map(|(code, _)| code),
        () = gone.notified() => Ok(0),
        () = reader_gone(), if !tty => Ok(0),
    };
    [input, sizes].into_iter().flatten().for_each(|task: JoinHandle<()>| task.abort());
    drop(raw);
    ended
}

pub(crate) fn parameters(target: &MiniClusterRef) -> AttachParams {
    AttachParams {
        container: Some(target.name.clone()),
        max_stdin_buf_size: Some(BUFFER),
        max_stdout_buf_size: Some(BUFFER),
        max_stderr_buf_size: Some(BUFFER),
        ..AttachParams::default()
    }
}

pub(crate) async fn start(
    target: &MiniClusterRef,
    pod: &str,
    argv: &[&str],
    parameters: &AttachParams,
) -> Result<AttachedProcess> {
    let api = target.connection.sessions();
    let process = api.exec(pod, argv.iter().copied(), parameters).await;
    process.with_context(|| format!("run {} in the pod {pod}", argv.join(" ")))
}

/// Waits for the end of a program whose streams the caller reads, and returns its exit code.
pub(crate) async fn end(process: AttachedProcess, argv: &[&str]) -> Result<u8> {
    end_of_all(process, argv, future::ready(())).await.map(|(code, ())| code)
}

/// Waits until a program has ended and `reading` has read its output. A broken connection does not end the streams
/// (`start_message_loop` of kube-client 5.0.0), but then no exit code comes.
async fn end_of_all<T>(
    mut process: AttachedProcess,
    argv: &[&str],
    reading: impl Future<Output = T>,
) -> Result<(u8, T)> {
    let status = process.take_status().context("the status of the process was taken")?;
    let (status, read) = match future::select(pin!(reading), pin!(status)).await {
        Either::Left((read, status)) => (status.await, Some(read)),
        Either::Right((None, _)) => (None, None),
        Either::Right((status, reading)) => (status, Some(reading.await)),
    };
    let (Some(status), Some(read)) = (status, read) else {
        let text = format!(
            "the connection ended before {}, which may still run in the pod",
            argv.join(" ")
        );
        return Err(io::Error::new(io::ErrorKind::ConnectionAborted, text).into());
    };
    let code = exit_code(&status).with_context(|| format!("run {}", argv.join(" ")))?;
    Ok((code, read))
}

/// The exit code, which is a cause of the status (client-go, `tools/remotecommand/v4.go`).
fn exit_code(status: &Status) -> Result<u8> {
    if status.status.as_deref() == Some("Success") {
        return Ok(0);
    }
    let causes = status.details.iter().flat_map(|details| details.causes.iter().flatten());
    let mut code = causes.filter(|cause| cause.reason.as_deref() == Some("ExitCode"));
    let code = code.find_map(|cause| cause.message.as_deref()?.parse().ok());
    code.with_context(|| {
        status.message.clone().unwrap_or_else(|| "there is no exit code".to_owned())
    })
}

/// Copies what is not `printed` without delay, until `from` ends. The error is that of `to`.
async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    printed: &mut Printed,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        to.write_all(printed.take_new(&buffer[..length])).await?;
        to.flush().await?;
    }
    // The program in the pod sees the end of its input.
    to.shutdown().await
}

/// Raw mode of the terminal of this process, until this value is dropped.
struct RawMode;

impl RawMode {
    fn enter() -> Result<Self> {
        terminal::enable_raw_mode().context("set the terminal to raw mode")?;
        Ok(Self)
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        let _ = terminal::disable_raw_mode();
    }
}

/// Sends the size of the terminal to the program, now and after each change. Repeating it keeps an idle connection
/// open.
fn follow_size(process: &mut AttachedProcess) -> Option<JoinHandle<()>> {
    let mut sizes = process.terminal_size()?;
    Some(tokio::spawn(async move {
        loop {
            let Ok((width, height)) = terminal::size() else { return };
            if sizes.send(TerminalSize { width, height }).await.is_err() {
                return;
            }
            if let Ok(false) = timeout(KEEPALIVE, size_changes()).await {
                return;
            }
        }
    }))
}

#[cfg(unix)]
async fn size_changes() -> bool {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut changes) = signal(SignalKind::window_change()) else { return false };
    changes.recv().await.is_some()
}

#[cfg(not(unix))]
async fn size_changes() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn status(text: serde_json::Value) -> Status {
        serde_json::from_value(text).unwrap()
    }

    #[test]
    fn repeated_output_is_printed_once() {
        let mut printed = Printed::default();
        let mut text = Vec::new();
        for connection in [&["ab", "c"][..], &["a"], &[], &["abcd", "ef"], &["abc", "defg"]] {
            printed.repeated = 0;
            for data in connection {
                text.extend_from_slice(printed.take_new(data.as_bytes()));
            }
        }
        assert_eq!(text, b"abcdefg");
    }

    #[test]
    fn the_exit_code_is_that_of_the_status() {
        let causes = json!([{ "reason": "ExitCode", "message": "7" }]);
        let failed = json!({ "status": "Failure", "reason": "NonZeroExitCode", "details": { "causes": causes } });
        assert_eq!(exit_code(&status(json!({ "status": "Success" }))).unwrap(), 0);
        assert_eq!(exit_code(&status(failed)).unwrap(), 7);
        let other = json!({ "status": "Failure", "message": "no such file" });
        assert_eq!(exit_code(&status(other)).unwrap_err().to_string(), "no such file");
    }
}
