//! `cp`: copies files to or from a rank. The agent in the pod packs and unpacks them as Flux's user.

use crate::exec::{self, failure};
use crate::minicluster::name;
use crate::prelude::*;
use crate::rank_pod::RankPod;
use flux_transfer::{Copied, Destination, TransferError, pack, unpack};
use futures::FutureExt as _;
use futures::future::{Either, ready, select};
use indicatif::{HumanBytes, ProgressBar, ProgressFinish, ProgressStyle};
use kube::api::AttachParams;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio_util::io::SyncIoBridge;

#[derive(Debug, Args)]
pub(crate) struct Cp {
    /// File or directory to copy: a local path, `NAME:PATH` for the lead, or `NAME[RANK]:PATH`
    from: String,
    /// Destination: an existing directory to copy into, or the path of the copy
    to: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Location {
    Local(PathBuf),
    Pod { name: String, rank: u32, path: String },
}

impl Location {
    /// The text before the colon is the name of a MiniCluster. On Windows a single letter is a drive.
    fn parse(text: &str) -> Result<Self> {
        let local = Self::Local(text.into());
        let Some((pod, path)) = text.split_once(':') else { return Ok(local) };
        let (cluster, rank) = pod.split_once('[').unwrap_or((pod, "0]"));
        let is_drive = cfg!(windows) && pod.len() == 1;
        let Some(name) = name(cluster).ok().filter(|_| !is_drive) else { return Ok(local) };
        let rank = rank.strip_suffix(']').and_then(|rank| rank.parse().ok());
        let rank = rank.with_context(|| format!("{pod} has no valid rank: use NAME[RANK]:PATH"))?;
        let path = if path.is_empty() { "." } else { path };
        Ok(Self::Pod { name, rank, path: path.to_owned() })
    }
}

/// The name of the copy of `path`; `None` for a directory without a name, as `.`.
fn base_name(path: &str) -> Option<String> {
    let name = Path::new(path).file_name()?;
    Some(name.to_string_lossy().into_owned())
}

impl Cp {
    pub(crate) async fn execute(&self, connection: Connection) -> Result<()> {
        let (from, to) = (&self.from, &self.to);
        let pod = async |name: &str, rank| {
            RankPod::find(MiniClusterRef::new(connection, name), rank).await
        };
        let copied = match (Location::parse(from)?, Location::parse(to)?) {
            (Location::Local(from), Location::Pod { name, rank, path }) => {
                upload(&pod(&name, rank).await?, from, &path).await
            }
            (Location::Pod { name, rank, path }, Location::Local(to)) => {
                download(&pod(&name, rank).await?, &path, to).await
            }
            (Location::Local(_), Location::Local(_)) => {
                bail!("neither {from} nor {to} is in a pod: write one of them as NAME:PATH")
            }
            (Location::Pod { .. }, Location::Pod { .. }) => {
                bail!("both {from} and {to} are in pods: copy to this machine first")
            }
        };
        let Copied { entries, bytes } = copied.with_context(|| format!("copy {from} to {to}"))?;
        print_stderr(&format!("copied {entries} files and directories, {}", HumanBytes(bytes)));
        Ok(())
    }
}

async fn upload(pod: &RankPod, from: PathBuf, to: &str) -> Result<Copied> {
    let name =
        base_name(&std::path::absolute(&from).unwrap_or_else(|_| from.clone()).to_string_lossy());
    // The content of `.` goes into the destination, not a directory with its name.
    let name = name.filter(|_| from.file_name().is_some());
    let argv = [pod.agent.as_str(), "unpack", to];
    let name = name.iter().flat_map(|name| ["--name", name]);
    let argv: Vec<&str> = pod.as_user(&argv).into_iter().chain(name).collect();
    let parameters = AttachParams { stdin: true, ..exec::parameters(&pod.target) };
    let mut process = exec::start(&pod.target, &pod.name, &argv, &parameters).await?;
    let errors = tokio::spawn(exec::error_text(process.stderr()));
    let stream = SyncIoBridge::new(process.stdin().context("the agent has no input")?);
    let packing = spawn_blocking(move || {
        let skipped = |path: &Path| {
            let path = path.display();
            print_stderr(&format!("skipped {path}: only files, directories and links are copied"));
        };
        pack(&from, progress().wrap_write(stream), skipped)
    });
    // Packing does not end by itself when the agent ends early.
    let (code, packed) = match select(packing, pin!(exec::end(process, &argv))).await {
        // The agent waits for more data and would not end.
        Either::Left((
            Ok(Err(error @ (TransferError::Read { .. } | TransferError::Kind { .. }))),
            _,
        )) => return Err(error.into()),
        Either::Left((packed, end)) => (end.await?, ready(packed).left_future()),
        Either::Right((code, packing)) => (code?, packing.right_future()),
    };
    let stderr = errors.await.unwrap_or_default();
    ensure!(code == 0, "{}", failure(code, &stderr));
    Ok(packed.await.context("pack the files")??)
}

async fn download(pod: &RankPod, from: &str, to: PathBuf) -> Result<Copied> {
    let argv = pod.as_user(&[pod.agent.as_str(), "pack", from]);
    let parameters = exec::parameters(&pod.target);
    let mut process = exec::start(&pod.target, &pod.name, &argv, &parameters).await?;
    let errors = tokio::spawn(exec::error_text(process.stderr()));
    let stream = SyncIoBridge::new(process.stdout().context("the agent has no output")?);
    let destination = Destination { path: to, name: base_name(from) };
    let unpacked: JoinHandle<Result<Copied, TransferError>> = spawn_blocking(move || {
        let mut stream = progress().wrap_read(stream);
        let copied = unpack(&mut stream, &destination)?;
        // The agent can only end when its last block has been read.
        let _ = io::copy(&mut stream, &mut io::sink());
        Ok(copied)
    });
    let unpacked = unpacked.await.context("unpack the files")?;
    // After an error on this side nothing reads the stream, so the agent does not end.
    if let Err(
        error @ (TransferError::Write { .. }
        | TransferError::Outside { .. }
        | TransferError::Kind { .. }),
    ) = unpacked
    {
        return Err(error.into());
    }
    let code = exec::end(process, &argv).await?;
    let stderr = errors.await.unwrap_or_default();
    ensure!(code == 0, "{}", failure(code, &stderr));
    if !stderr.is_empty() {
        print_stderr(&stderr);
    }
    Ok(unpacked?)
}

/// A bar that shows on a terminal how many bytes of the stream it wraps have been copied.
fn progress() -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {bytes} in {elapsed}, {bytes_per_sec}");
    let bar = ProgressBar::new_spinner().with_finish(ProgressFinish::AndClear);
    style.map(|style| bar.clone().with_style(style)).unwrap_or(bar)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pod_paths_have_a_name_and_an_optional_rank() {
        let in_pod = |name: &str, rank, path: &str| Location::Pod {
            name: name.to_owned(),
            rank,
            path: path.to_owned(),
        };
        for (text, location) in [
            ("hello:/data/a", in_pod("hello", 0, "/data/a")),
            ("hello[12]:a:b", in_pod("hello", 12, "a:b")),
            ("minicluster/x[1]:/y", in_pod("x", 1, "/y")),
            ("hello:", in_pod("hello", 0, ".")),
        ] {
            assert_eq!(Location::parse(text).unwrap(), location, "{text}");
        }
        for text in ["a", "./a:b", "/a:b", "A:b", ":a", "../x:y"] {
            assert_eq!(Location::parse(text).unwrap(), Location::Local(text.into()), "{text}");
        }
        for text in ["hello[x]:a", "hello[-1]:a", "hello[]:a"] {
            let error = Location::parse(text).unwrap_err().to_string();
            assert!(error.contains("NAME[RANK]"), "{error}");
        }
    }

    #[test]
    fn copies_keep_the_name_of_their_source() {
        let names = ["/data/a", "/data/", "a/..", ".", "/"].map(base_name);
        assert_eq!(names, [Some("a".to_owned()), Some("data".to_owned()), None, None, None]);
    }
}
