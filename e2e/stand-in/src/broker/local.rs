//! The local socket: accepting clients, and checking who they are.

use super::core::{Broker, Mailbox, Severity};
use super::message::{self, Question};
use crate::protocol::{Reply, Request};
use flux_protocol::message::{HEAD, MAGIC};
use nix::sys::socket::{Backlog, listen};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// `EPERM` of Linux.
const REFUSED: u8 = 1;

/// Connections that wait to be accepted (flux-core 0.88, `usock.c`).
const BACKLOG: i32 = 5;

/// Binds the socket at `path`, replacing a dead one.
pub(super) fn bind(path: &str) -> std::io::Result<UnixListener> {
    if std::fs::symlink_metadata(path).is_ok() {
        std::fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    listen(&listener, Backlog::new(BACKLOG)?)?;
    // Anyone may knock; who they are is asked at the door.
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o777))?;
    Ok(listener)
}

#[derive(Clone)]
pub(super) struct Door {
    /// Whether root acts as the owner.
    pub(super) allow_root_owner: bool,
    pub(super) rank: u32,
    pub(super) mailbox: Mailbox,
}

pub(super) async fn accept(listener: UnixListener, door: Door) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        tokio::spawn(door.clone().serve(stream));
    }
}

impl Door {
    /// Says whether the client may come in (one byte: 0, or an errno), and finds out what it speaks.
    async fn serve(self, stream: UnixStream) {
        let user = stream.peer_cred().map_or(u32::MAX, |peer| peer.uid());
        let owner = nix::unistd::getuid().as_raw();
        let (read, mut write) = stream.into_split();
        let mut reader = BufReader::new(read);
        if user != owner && (user != 0 || !self.allow_root_owner) {
            let text = format!("client_authenticate: uid={user} no assigned roles");
            let log = move |broker: &mut Broker| {
                broker.log_as("connector-local", Severity::Error, &text);
            };
            self.mailbox.report(log);
            drop(write.write_all(&[REFUSED]).await);
            return;
        }
        if write.write_all(&[0]).await.is_err() {
            return;
        }
        let Ok(&[first, ..]) = reader.fill_buf().await else { return };
        // Who no longer listens, or speaks something else, is of no interest any more.
        let _ = if MAGIC.first() == Some(&first) {
            self.serve_messages(reader, write, owner).await
        } else {
            self.serve_line(reader, write, user == owner).await.ok()
        };
    }

    fn ask(&self, request: Request) -> UnboundedReceiver<Reply> {
        let (sender, replies) = unbounded_channel();
        let client = Box::new(move |reply| drop(sender.send(reply)));
        self.mailbox.report(|broker| broker.asked(request, client));
        replies
    }

    async fn serve_line(
        &self,
        mut reader: BufReader<OwnedReadHalf>,
        mut write: OwnedWriteHalf,
        is_owner: bool,
    ) -> std::io::Result<()> {
        let _alive = self.mailbox.delivery();
        let mut asked = String::new();
        reader.read_line(&mut asked).await?;
        let request: Request = serde_json::from_str(&asked)?;
        let line = |reply: &Reply| format!("{}\n", json!(reply)).into_bytes();
        // Only the owner's signature is taken for a job (flux-core, `modules/job-ingest`).
        if !is_owner && matches!(request, Request::Submit(_)) {
            let refusal = Reply::failed("submission of jobs as user root not supported");
            return write.write_all(&line(&refusal)).await;
        }
        let mut replies = self.ask(request);
        while let Some(reply) = replies.recv().await {
            write.write_all(&line(&reply)).await?;
            if reply.is_last() {
                break;
            }
        }
        Ok(())
    }

    /// Answers a client that speaks Flux messages, until it leaves or sends something else.
    async fn serve_messages(
        &self,
        mut reader: BufReader<OwnedReadHalf>,
        mut write: OwnedWriteHalf,
        owner: u32,
    ) -> Option<()> {
        loop {
            let mut head = [0_u8; HEAD];
            reader.read_exact(&mut head).await.ok()?;
            let mut body = vec![0; message::length(head)?];
            reader.read_exact(&mut body).await.ok()?;
            let question = Question::parse(&body)?;
            let _alive = self.mailbox.delivery();
            let reply = match question.request(self.rank) {
                Ok(request) => Ok(self.ask(request).recv().await?),
                Err(refusal) => Err(refusal),
            };
            write.write_all(&question.answer(owner, reply)).await.ok()?;
        }
    }
}
