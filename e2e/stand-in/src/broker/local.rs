//! The local socket: accepting clients, and checking who they are.

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc::{UnboundedSender, WeakSender, unbounded_channel};

use crate::config::tables::Access;
use crate::protocol::{Reply, Request};

/// What clients do.
#[derive(Debug)]
pub(crate) enum ClientNews {
    /// A client asks something.
    Asked {
        /// Its number.
        id: u64,
        /// What it asks.
        request: Request,
        /// How to answer.
        sender: UnboundedSender<Reply>,
    },
    /// A client has gone.
    Gone(u64),
}

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

/// Accepts clients for as long as the broker lives.
pub(crate) async fn accept(
    listener: UnixListener,
    access: Access,
    news: UnboundedSender<ClientNews>,
    alive: WeakSender<()>,
) {
    let mut id = 0;
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        id += 1;
        let (served, alive) = (serve(id, stream, access, news.clone()), alive.upgrade());
        tokio::spawn(async move {
            served.await;
            drop(alive);
        });
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    Owner,
    Guest,
    Stranger,
}

fn standing(stream: &UnixStream, access: Access) -> Standing {
    let Ok(peer) = stream.peer_cred() else { return Standing::Stranger };
    let owner = nix::unistd::getuid().as_raw();
    match peer.uid() {
        uid if uid == owner => Standing::Owner,
        0 if access.root_is_owner => Standing::Owner,
        _ if access.guests => Standing::Guest,
        _ => Standing::Stranger,
    }
}

async fn serve(id: u64, stream: UnixStream, access: Access, news: UnboundedSender<ClientNews>) {
    let standing = standing(&stream, access);
    let (read, mut write) = stream.into_split();
    let mut reader = BufReader::new(read);
    let mut line = String::new();
    if reader.read_line(&mut line).await.is_err() {
        return;
    }
    let refusal = match (standing, serde_json::from_str::<Request>(&line)) {
        (Standing::Stranger, _) => Reply::failed("Operation not permitted"),
        (_, Err(error)) => Reply::failed(format!("Protocol error: {error}")),
        (Standing::Guest, Ok(request)) if request.is_for_owner() => Reply::Failed {
            reason: "requests of guests: not simulated by the stand-in".to_owned(),
            code: crate::failure::NOT_SIMULATED,
        },
        (_, Ok(request)) => {
            let (sender, replies) = unbounded_channel();
            drop(news.send(ClientNews::Asked { id, request, sender }));
            answer(reader, write, replies).await;
            drop(news.send(ClientNews::Gone(id)));
            return;
        }
    };
    drop(send(&mut write, &refusal).await);
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
