//! A stand-in for the socket of a broker, and for what is asked on it.

use flux_protocol::message::{HEAD, Message, RESPONSE, length};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;

/// `ENOSYS`: what a broker answers to a question for a service that it does not have.
pub const NO_SERVICE: u8 = 38;
/// `ENOENT`: there is no such eventlog.
pub const NO_FILE: u8 = 2;
/// `ENODATA`: there are no more answers.
const END: u8 = 61;
/// `EHOSTUNREACH`: it has no way to the broker that is asked.
pub const UNREACHABLE: u8 = 113;

/// The topic of a question for the lead's state, as [`serve`] names it.
pub const STATE_OF_LEAD: &str = "state-machine.get of the lead";

/// Answers on the socket at `path` as a broker in `state` does, in the background.
pub fn broker_in_state(path: impl AsRef<Path>, state: &'static str) {
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
    path: impl AsRef<Path>,
    reply: impl Fn(&str, &str) -> Result<Reply, u8> + Send + Sync + 'static,
) {
    let path = path.as_ref();
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
        let mut head = [0; HEAD];
        stream.read_exact(&mut head)?;
        let mut asked = vec![0; length(head).unwrap() as usize];
        stream.read_exact(&mut asked)?;
        let asked = Message::decode(&asked).unwrap();
        let of_lead = asked.topic == "state-machine.get" && asked.node == 0;
        let topic = if of_lead { STATE_OF_LEAD } else { &asked.topic };
        let answers: Box<dyn Iterator<Item = (String, u8)>> =
            match reply(topic, asked.payload.as_deref().unwrap_or_default())
                .map(Into::<Answers>::into)
            {
                Ok(Answers(each)) if asked.streaming => {
                    Box::new(each.map(|text| (text, 0)).chain([(String::new(), END)]))
                }
                Ok(Answers(each)) => {
                    let text = each.collect::<Vec<_>>().join("\n");
                    Box::new([(text, 0)].into_iter())
                }
                Err(errno) => Box::new([(String::new(), errno)].into_iter()),
            };
        for (text, errno) in answers {
            let payload = Some(text).filter(|text| !text.is_empty());
            let answer = Message { kind: RESPONSE, payload, node: errno.into(), ..asked.clone() };
            stream.write_all(&answer.encode())?;
        }
    }
}
