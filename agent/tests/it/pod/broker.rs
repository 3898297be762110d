//! A stand-in for the socket of a broker, and for what is asked on it.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;

/// `ENOSYS`: what a broker answers to a question for a service that it does not have.
pub const NO_SERVICE: u8 = 38;
/// `EHOSTUNREACH`: it has no way to the broker that is asked.
pub const UNREACHABLE: u8 = 113;

/// Answers on the socket at `path` as a broker in `state` does, in the background.
pub fn broker_in_state(path: &Path, state: &'static str) {
    broker_that(path, move |_, _| Ok(state_text(state)));
}

pub fn state_text(state: &str) -> String {
    format!("{{\"state\":\"{state}\"}}")
}

/// Answers on the socket at `path`, in the background, what `reply` says to a topic and its payload: a
/// payload or an errno.
pub fn broker_that(
    path: &Path,
    reply: impl Fn(&str, &str) -> Result<String, u8> + Send + Sync + 'static,
) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let _ = fs::remove_file(path);
    serve(UnixListener::bind(path).unwrap(), reply);
}

pub fn serve(
    listener: UnixListener,
    reply: impl Fn(&str, &str) -> Result<String, u8> + Send + Sync + 'static,
) {
    let reply = Arc::new(reply);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, reply) = (stream.unwrap(), Arc::clone(&reply));
            // A client that goes away is not this test's concern.
            std::thread::spawn(move || replies(stream, &*reply));
        }
    });
}

/// Answers on `stream` what `reply` says, until the client goes away.
pub fn replies(
    mut stream: UnixStream,
    reply: &impl Fn(&str, &str) -> Result<String, u8>,
) -> std::io::Result<()> {
    stream.write_all(&[0])?;
    loop {
        let mut head = [0; 8];
        stream.read_exact(&mut head)?;
        let length = u32::from_be_bytes(head[4..].try_into().unwrap()) as usize;
        let mut asked = vec![0; length];
        stream.read_exact(&mut asked)?;
        let (topic, payload) = question(&asked);
        let (text, errno) = match reply(&topic, &payload) {
            Ok(text) => (text, 0),
            Err(errno) => (String::new(), errno),
        };
        let flags = if text.is_empty() { 0 } else { 0x02 };
        let matchtag = &asked[length - 4..];
        let protocol = [&[0x8e, 1, 2, flags][..], &[0; 11], &[errno], matchtag].concat();
        let text = format!("{text}\0");
        let mut body = Vec::new();
        for frame in [text.as_bytes()].into_iter().filter(|_| flags != 0).chain([&protocol[..]]) {
            body.push(u8::try_from(frame.len()).unwrap());
            body.extend(frame);
        }
        let length = u32::try_from(body.len()).unwrap();
        stream.write_all(&[&head[..4], &length.to_be_bytes(), &body].concat())?;
    }
}

/// Topic and payload of a question, none of whose frames is long: behind the empty frame of the route, and
/// before the one of the protocol.
fn question(asked: &[u8]) -> (String, String) {
    let mut frames = Vec::new();
    let mut rest = asked;
    while let Some((&length, after)) = rest.split_first() {
        let (frame, after) = after.split_at(length.into());
        frames.push(String::from_utf8_lossy(frame).trim_end_matches('\0').to_owned());
        rest = after;
    }
    let payload = if frames.len() > 3 { frames.swap_remove(2) } else { String::new() };
    (frames.swap_remove(1), payload)
}
