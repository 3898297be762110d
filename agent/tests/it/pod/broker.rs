//! A stand-in for the socket of a broker, and for what is asked on it.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;

/// `ENOSYS`: what a broker answers to a question for a service that it does not have.
pub const NO_SERVICE: u8 = 38;
/// `ENODATA`: there are no more answers.
const END: u8 = 61;
/// Flag of a question that may have several answers.
const STREAMING: u8 = 0x40;
/// `EHOSTUNREACH`: it has no way to the broker that is asked.
pub const UNREACHABLE: u8 = 113;

/// The topic of a question for the lead's state, as [`serve`] names it.
pub const STATE_OF_LEAD: &str = "state-machine.get of the lead";

/// Answers on the socket at `path` as a broker in `state` does, in the background.
pub fn broker_in_state(path: &Path, state: &'static str) {
    broker_that(path, move |_, _| Ok(state_text(state)));
}

pub fn state_text(state: &str) -> String {
    format!("{{\"state\":\"{state}\"}}")
}

/// What a broker answers: one after the other to a question that may have several answers.
pub struct Answers(Box<dyn Iterator<Item = String>>);

impl Answers {
    /// Answers that are waited for.
    pub fn as_they_come(answers: impl Iterator<Item = String> + 'static) -> Self {
        Self(Box::new(answers))
    }
}

/// The text, or each line of it.
impl From<String> for Answers {
    fn from(text: String) -> Self {
        let lines: Vec<_> = text.split('\n').map(str::to_owned).collect();
        Self::as_they_come(lines.into_iter())
    }
}

/// Answers on the socket at `path`, in the background, what `reply` says to a topic and its payload: a
/// payload or an errno.
pub fn broker_that<Reply: Into<Answers> + 'static>(
    path: &Path,
    reply: impl Fn(&str, &str) -> Result<Reply, u8> + Send + Sync + 'static,
) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let _ = fs::remove_file(path);
    serve(UnixListener::bind(path).unwrap(), reply);
}

pub fn serve<Reply: Into<Answers> + 'static>(
    listener: UnixListener,
    reply: impl Fn(&str, &str) -> Result<Reply, u8> + Send + Sync + 'static,
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

/// Answers on `stream` what `reply` says, until the client goes away. An empty text is an answer without a payload; behind
/// the answers to a question that may have several comes the end.
pub fn replies<Reply: Into<Answers>>(
    mut stream: UnixStream,
    reply: &impl Fn(&str, &str) -> Result<Reply, u8>,
) -> std::io::Result<()> {
    stream.write_all(&[0])?;
    loop {
        let mut head = [0; 8];
        stream.read_exact(&mut head)?;
        let length = u32::from_be_bytes(head[4..].try_into().unwrap()) as usize;
        let mut asked = vec![0; length];
        stream.read_exact(&mut asked)?;
        let (topic, payload) = question(&asked);
        let is_streaming = asked[length - 17] & STREAMING != 0;
        let answers: Box<dyn Iterator<Item = (String, u8)>> =
            match reply(&topic, &payload).map(Into::<Answers>::into) {
                Ok(Answers(each)) if is_streaming => {
                    Box::new(each.map(|text| (text, 0)).chain([(String::new(), END)]))
                }
                Ok(Answers(each)) => {
                    let text = each.collect::<Vec<_>>().join("\n");
                    Box::new([(text, 0)].into_iter())
                }
                Err(errno) => Box::new([(String::new(), errno)].into_iter()),
            };
        for (text, errno) in answers {
            let flags = if text.is_empty() { 0 } else { 0x02 };
            let matchtag = &asked[length - 4..];
            let protocol = [&[0x8e, 1, 2, flags][..], &[0; 11], &[errno], matchtag].concat();
            let text = format!("{text}\0");
            let mut body = Vec::new();
            for frame in [text.as_bytes()].into_iter().filter(|_| flags != 0).chain([&protocol[..]])
            {
                match u8::try_from(frame.len()) {
                    Ok(length) if length < u8::MAX => body.push(length),
                    _ => {
                        body.push(u8::MAX);
                        body.extend(u32::try_from(frame.len()).unwrap().to_be_bytes());
                    }
                }
                body.extend(frame);
            }
            let length = u32::try_from(body.len()).unwrap();
            stream.write_all(&[&head[..4], &length.to_be_bytes(), &body].concat())?;
        }
    }
}

/// Topic and payload of a question, which is for rank 0 or for the broker itself: behind the empty frame of the route, and before the one of the protocol.
fn question(asked: &[u8]) -> (String, String) {
    let mut frames = Vec::new();
    let mut rest = asked;
    while let Some((&first, after)) = rest.split_first() {
        let (length, after) = if first == u8::MAX {
            let (bytes, after) = after.split_first_chunk().unwrap();
            (u32::from_be_bytes(*bytes) as usize, after)
        } else {
            (first.into(), after)
        };
        let (frame, after) = after.split_at(length);
        frames.push(String::from_utf8_lossy(frame).trim_end_matches('\0').to_owned());
        rest = after;
    }
    let payload = if frames.len() > 3 { frames.swap_remove(2) } else { String::new() };
    let (topic, node) = (frames.swap_remove(1), &asked[asked.len() - 8..asked.len() - 4]);
    let of_lead = topic == "state-machine.get" && node == [0; 4];
    (if of_lead { STATE_OF_LEAD.to_owned() } else { topic }, payload)
}
