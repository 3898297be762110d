//! `cp`: files to and from a rank. The agent in the pod packs and unpacks them, as Flux's user.

use crate::connection::Connection;
use crate::exec;
use crate::instance::Place;
use crate::output::complain;
use crate::target::Target;
use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use flux_transfer::{Copied, Destination, TransferError, pack, unpack};
use futures::FutureExt as _;
use futures::future::{Either, ready, select};
use indicatif::{HumanBytes, ProgressBar, ProgressFinish, ProgressStyle};
use kube::api::AttachParams;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::ExitCode;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio_util::io::SyncIoBridge;

/// Bytes of an error that are kept.
const LONGEST_ERROR: u64 = 64 << 10;

/// `cp`.
#[derive(Debug, Args)]
pub(crate) struct Cp {
    /// A file or directory: a path here, or `NAME:PATH`, or `NAME[RANK]:PATH`
    from: String,
    /// Where it goes: into a directory that is there, or it becomes this
    to: String,
}

/// One side of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Side {
    Here(PathBuf),
    There { name: String, rank: u32, path: String },
}

impl Side {
    /// A path on this machine that has a colon has a slash before it.
    fn parse(text: &str) -> Result<Self> {
        let Some((place, path)) = text.split_once(':').filter(|(place, _)| is_place(place)) else {
            return Ok(Self::Here(text.into()));
        };
        let (name, rank) = match place.strip_suffix(']').and_then(|it| it.split_once('[')) {
            Some((name, rank)) => {
                let rank = rank.parse();
                (name, rank.with_context(|| format!("{place} names no rank: use NAME[RANK]:PATH"))?)
            }
            None => (place, 0),
        };
        let path = if path.is_empty() { "." } else { path };
        Ok(Self::There { name: name.to_owned(), rank, path: path.to_owned() })
    }
}

/// Whether that stands before the colon of a path in a pod. One letter is a drive of Windows.
fn is_place(text: &str) -> bool {
    let is_drive = cfg!(windows) && text.len() == 1;
    let name = text.split('[').next().unwrap_or_default();
    let fits = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '-' || it == '.';
    !is_drive && !name.is_empty() && !name.starts_with('.') && name.chars().all(fits)
}

/// What a path is called where it is copied to; nothing for a directory that has no name, as `.`.
fn base_name(path: &str) -> Option<String> {
    let name = Path::new(path).file_name()?;
    Some(name.to_string_lossy().into_owned())
}

impl Cp {
    pub(crate) async fn execute(&self, connection: Connection) -> Result<ExitCode> {
        let copied = match (Side::parse(&self.from)?, Side::parse(&self.to)?) {
            (Side::Here(from), Side::There { name, rank, path }) => {
                let place = Place::of(Target::new(connection, &name), rank).await?;
                upload(&place, from, &path).await
            }
            (Side::There { name, rank, path }, Side::Here(to)) => {
                let place = Place::of(Target::new(connection, &name), rank).await?;
                download(&place, &path, to).await
            }
            (Side::Here(_), Side::Here(_)) => {
                bail!(
                    "neither {} nor {} is in a MiniCluster: use NAME:PATH for one",
                    self.from,
                    self.to
                )
            }
            (Side::There { .. }, Side::There { .. }) => {
                bail!("both {} and {} are in a MiniCluster: copy it here first", self.from, self.to)
            }
        };
        let Copied { entries, bytes } =
            copied.with_context(|| format!("copy {} to {}", self.from, self.to))?;
        complain(&format!("copied {entries} files and directories, {}", HumanBytes(bytes)));
        Ok(ExitCode::SUCCESS)
    }
}

async fn upload(place: &Place, from: PathBuf, to: &str) -> Result<Copied> {
    let name =
        base_name(&std::path::absolute(&from).unwrap_or_else(|_| from.clone()).to_string_lossy());
    // What is in `.` goes into the directory, and not a directory of that name.
    let name = name.filter(|_| from.file_name().is_some());
    let words = [place.agent.as_str(), "unpack", to];
    let name = name.iter().flat_map(|name| ["--name", name]);
    let words: Vec<&str> = place.as_user(&words).into_iter().chain(name).collect();
    let parameters = AttachParams { stdin: true, ..exec::parameters(&place.target) };
    let mut process = exec::start(&place.target, &place.pod_name(), &words, &parameters).await?;
    let errors = text_of(process.stderr());
    let stream = SyncIoBridge::new(process.stdin().context("there is no way in")?);
    let packing = spawn_blocking(move || {
        let skipped = |path: &Path| complain(&format!("left out {}: no file", path.display()));
        pack(&from, progress().wrap_write(stream), skipped)
    });
    // Who packs does not learn that the other side has ended, which takes nothing any more.
    let (code, packed) = match select(packing, pin!(exec::end(process, &words))).await {
        // The other side, which waits for more, would not end.
        Either::Left((
            Ok(Err(error @ (TransferError::Read { .. } | TransferError::Kind { .. }))),
            _,
        )) => return Err(error.into()),
        Either::Left((packed, end)) => (end.await?, ready(packed).left_future()),
        Either::Right((code, packing)) => (code?, packing.right_future()),
    };
    let errors = errors.await.unwrap_or_default();
    ensure!(code == 0, "{}", failure(&errors, code));
    Ok(packed.await.context("pack the files")??)
}

async fn download(place: &Place, from: &str, to: PathBuf) -> Result<Copied> {
    let words = place.as_user(&[place.agent.as_str(), "pack", from]);
    let parameters = exec::parameters(&place.target);
    let mut process = exec::start(&place.target, &place.pod_name(), &words, &parameters).await?;
    let errors = text_of(process.stderr());
    let stream = SyncIoBridge::new(process.stdout().context("there is no way out")?);
    let destination = Destination { path: to, name: base_name(from) };
    let unpacked: JoinHandle<Result<Copied, TransferError>> = spawn_blocking(move || {
        let mut stream = progress().wrap_read(stream);
        let copied = unpack(&mut stream, &destination)?;
        // The other side writes to the end of its last block.
        let _ = io::copy(&mut stream, &mut io::sink());
        Ok(copied)
    });
    let unpacked = unpacked.await.context("unpack the files")?;
    // Where nothing is taken any more, the other side does not end.
    if let Err(
        error @ (TransferError::Write { .. }
        | TransferError::Outside { .. }
        | TransferError::Kind { .. }),
    ) = unpacked
    {
        return Err(error.into());
    }
    let code = exec::end(process, &words).await?;
    let errors = errors.await.unwrap_or_default();
    ensure!(code == 0, "{}", failure(&errors, code));
    if !errors.trim().is_empty() {
        complain(&errors);
    }
    Ok(unpacked?)
}

fn failure(errors: &str, code: u8) -> String {
    match errors.trim() {
        "" => format!("the agent in the pod ended with code {code}"),
        text => text.to_owned(),
    }
}

/// Reads what the agent says, in the background.
fn text_of(from: Option<impl AsyncRead + Unpin + Send + 'static>) -> JoinHandle<String> {
    tokio::spawn(async move {
        let mut text = Vec::new();
        if let Some(from) = from {
            // What it could not say any more is not missed.
            let _ = from.take(LONGEST_ERROR).read_to_end(&mut text).await;
        }
        String::from_utf8_lossy(&text).into_owned()
    })
}

/// Shows on a terminal how far a stream is that is wrapped by it.
fn progress() -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {bytes} in {elapsed}, {bytes_per_sec}");
    let bar = ProgressBar::new_spinner().with_finish(ProgressFinish::AndClear);
    style.map(|style| bar.clone().with_style(style)).unwrap_or(bar)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_in_a_pod_has_a_name_and_perhaps_a_rank_before_its_colon() {
        let there = |name: &str, rank, path: &str| Side::There {
            name: name.to_owned(),
            rank,
            path: path.to_owned(),
        };
        for (text, side) in [
            ("hello:/data/a", there("hello", 0, "/data/a")),
            ("hello[12]:a:b", there("hello", 12, "a:b")),
            ("hello:", there("hello", 0, ".")),
        ] {
            assert_eq!(Side::parse(text).unwrap(), side, "{text}");
        }
        for text in ["a", "./a:b", "/a:b", "A:b", ":a", "../x:y"] {
            assert_eq!(Side::parse(text).unwrap(), Side::Here(text.into()), "{text}");
        }
        for text in ["hello[x]:a", "hello[-1]:a", "hello[]:a"] {
            assert!(Side::parse(text).unwrap_err().to_string().contains("NAME[RANK]"), "{text}");
        }
    }

    #[test]
    fn what_is_copied_keeps_its_name_if_it_has_one() {
        let names = ["/data/a", "/data/", "a/..", ".", "/"].map(base_name);
        assert_eq!(names, [Some("a".to_owned()), Some("data".to_owned()), None, None, None]);
    }
}
