//! The local socket: accepting clients, and checking who they are.

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc::{UnboundedSender, WeakSender, unbounded_channel};

use super::core::News;
use super::message::{self, MAGIC, Question};
use crate::config::Access;
use crate::protocol::{Reply, Request};

/// `EPERM` of Linux.
const REFUSED: u8 = 1;

/// Binds the socket at `path`, replacing a dead one.
pub(crate) fn bind(path: &str) -> std::io::Result<UnixListener> {
    if std::fs::symlink_metadata(path).is_ok() {
        std::fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    // Anyone may knock; who they are is asked at the door.
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o777))?;
    Ok(listener)
}

/// What the door of a broker has to know.
#[derive(Debug, Clone)]
pub(crate) struct Door {
    /// Who may come in.
    pub(crate) access: Access,
    /// Rank of the broker.
    pub(crate) rank: u32,
    /// Where to tell what clients do.
    pub(crate) news: UnboundedSender<News>,
    /// Held while an answer is under way.
    pub(crate) alive: WeakSender<()>,
}

/// Accepts clients for as long as the broker lives.
pub(crate) async fn accept(listener: UnixListener, door: Door) {
    let mut id = 0;
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        id += 1;
        tokio::spawn(serve(id, stream, door.clone()));
    }
}

/// Whoever is at the other end of a connection.
#[derive(Clone, Copy)]
struct Peer {
    user: u32,
    is_owner: bool,
}

/// Who the peer is, or the user id of a stranger.
fn peer(stream: &UnixStream, access: Access) -> Result<Peer, u32> {
    let user = stream.peer_cred().map_or(u32::MAX, |peer| peer.uid());
    let is_owner = user == nix::unistd::getuid().as_raw() || (user == 0 && access.allow_root_owner);
    if is_owner || access.allow_guest_user { Ok(Peer { user, is_owner }) } else { Err(user) }
}

impl Peer {
    /// Why it may not ask this (flux-core, `modules/job-ingest`, for jobs).
    fn refusal(self, request: &Request) -> Option<Reply> {
        let root = self.user == 0 && !nix::unistd::getuid().is_root();
        match (self.is_owner, matches!(request, Request::Submit(_))) {
            (false, true) => Some(Reply::failed("only instance owner can use sign-type=none")),
            (true, true) if root => {
                Some(Reply::failed("submission of jobs as user root not supported"))
            }
            (false, false) if !request.is_for_guests() => {
                let reason = "requests of guests: not simulated by the stand-in";
                Some(Reply::Failed(reason.to_owned(), crate::failure::NOT_SIMULATED))
            }
            _ => None,
        }
    }
}

/// Says whether the client may come in (one byte: 0, or an errno), and finds out what it speaks.
async fn serve(id: u64, stream: UnixStream, door: Door) {
    let peer = peer(&stream, door.access);
    let (read, mut write) = stream.into_split();
    let peer = match peer {
        Ok(peer) => peer,
        Err(user) => {
            drop(door.news.send(News::Stranger(user)));
            drop(write.write_all(&[REFUSED]).await);
            return;
        }
    };
    let mut reader = BufReader::new(read);
    if write.write_all(&[0]).await.is_err() {
        return;
    }
    let Ok(&[first, ..]) = reader.fill_buf().await else { return };
    if MAGIC.first() == Some(&first) {
        serve_messages(id, reader, write, peer, &door).await;
    } else {
        let alive = door.alive.upgrade();
        serve_line(id, reader, write, peer, door.news).await;
        drop(alive);
    }
}

/// Answers a command of the stand-in.
async fn serve_line(
    id: u64,
    mut reader: BufReader<OwnedReadHalf>,
    mut write: OwnedWriteHalf,
    peer: Peer,
    news: UnboundedSender<News>,
) {
    let mut line = String::new();
    if reader.read_line(&mut line).await.is_err() {
        return;
    }
    let request = serde_json::from_str::<Request>(&line)
        .map_err(|error| Reply::failed(format!("Protocol error: {error}")))
        .and_then(|request| peer.refusal(&request).map_or(Ok(request), Err));
    match request {
        Ok(request) => {
            let (sender, replies) = unbounded_channel();
            drop(news.send(News::Asked(id, request, sender)));
            answer(reader, write, replies).await;
            drop(news.send(News::Gone(id)));
        }
        Err(refusal) => drop(send(&mut write, &refusal).await),
    }
}

/// Answers a client that speaks Flux messages, until it leaves or sends something else.
async fn serve_messages(
    id: u64,
    mut reader: BufReader<OwnedReadHalf>,
    mut write: OwnedWriteHalf,
    peer: Peer,
    door: &Door,
) {
    let owner = nix::unistd::getuid().as_raw();
    while let Some(question) = next_question(&mut reader).await {
        let alive = door.alive.upgrade();
        let reply = match question.request(door.rank, peer.is_owner) {
            Ok(request) => match ask(id, door, request).await {
                Some(reply) => Ok(reply),
                None => return,
            },
            Err(refusal) => Err(refusal),
        };
        if write.write_all(&question.answer(owner, reply)).await.is_err() {
            return;
        }
        drop(alive);
    }
}

async fn next_question(reader: &mut BufReader<OwnedReadHalf>) -> Option<Question> {
    let mut head = [0_u8; message::HEAD];
    reader.read_exact(&mut head).await.ok()?;
    let mut body = vec![0; message::length(head)?];
    reader.read_exact(&mut body).await.ok()?;
    Question::parse(&body)
}

/// What the broker replies; nothing when it has ended.
async fn ask(id: u64, door: &Door, request: Request) -> Option<Reply> {
    let (sender, mut replies) = unbounded_channel();
    door.news.send(News::Asked(id, request, sender)).ok()?;
    replies.recv().await
}

async fn answer(
    mut reader: BufReader<OwnedReadHalf>,
    mut write: OwnedWriteHalf,
    mut replies: tokio::sync::mpsc::UnboundedReceiver<Reply>,
) {
    let mut byte = [0_u8; 1];
    loop {
        tokio::select! {
            reply = replies.recv() => {
                let Some(reply) = reply else { return };
                if send(&mut write, &reply).await.is_err() || reply.is_last() {
                    return;
                }
            }
            // A client that closes has lost interest.
            read = reader.read(&mut byte) => {
                if !read.is_ok_and(|count| count > 0) {
                    return;
                }
            }
        }
    }
}

async fn send(write: &mut OwnedWriteHalf, reply: &Reply) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(reply)?;
    line.push(b'\n');
    write.write_all(&line).await
}
