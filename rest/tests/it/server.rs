//! `flux-rest` in a temporary directory.

use flux_contract::ServedInstance;
use flux_contract::token::fingerprint;
use serde_json::Value;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// Long enough for a busy machine. No test waits this long unless it fails.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);
pub(crate) const TOKEN: &str = "0123456789abcdef";

/// A program that ends with its test.
pub(crate) struct Background(pub(crate) Child);

impl Background {
    pub(crate) fn start(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(command.spawn().unwrap())
    }

    /// The next line that it prints.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        BufReader::new(self.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The files of an instance called `hello`.
pub(crate) struct Place(TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The instance, for a client that has [`TOKEN`].
    pub(crate) fn instance(&self) -> ServedInstance {
        ServedInstance {
            cluster: "hello".to_owned(),
            broker: self.at("broker"),
            agent: self.at("agent"),
            timeline: Vec::new(),
            users: self.at("passwd"),
            limits: [("nofile".to_owned(), 1024)].into(),
            validated: false,
            listen: ([127, 0, 0, 1], 0).into(),
            token_sha256: Some(fingerprint(TOKEN)),
            until_input_ends: false,
        }
    }
}

/// `flux-rest` with this argument.
pub(crate) fn program(instance: &ServedInstance) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flux-rest"));
    command.arg(serde_json::to_string(instance).unwrap());
    command
}

/// `flux-rest` for this instance, and its address.
pub(crate) fn served(instance: &ServedInstance) -> (Background, SocketAddr) {
    let mut process = Background::start(program(instance));
    let line = process.line();
    let address = line.strip_prefix("http://").and_then(|line| line.strip_suffix('/'));
    let address = address.unwrap_or_else(|| panic!("{line:?}")).parse().unwrap();
    (process, address)
}

/// A connection on which `text` was sent.
pub(crate) fn begin(address: SocketAddr, text: &str) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(text.as_bytes())?;
    Ok(stream)
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// In small letters.
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

/// The answer to a request with these lines behind the first of its head, which may have no chunks.
pub(crate) fn ask(
    address: SocketAddr,
    request: &str,
    head: &str,
    body: &str,
) -> io::Result<Answer> {
    let length = body.len();
    let start = format!("{request}\r\nHost: {address}\r\nContent-Length: {length}");
    let mut stream = BufReader::new(begin(address, &format!("{start}\r\n{head}\r\n{body}"))?);
    let (mut head, mut body) = (String::new(), String::new());
    while !head.ends_with("\r\n\r\n") && stream.read_line(&mut head)? > 0 {}
    let head = head.to_ascii_lowercase();
    let number = |text: Option<&str>| text.and_then(|text| text.trim().parse().ok());
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    stream.take(number(length).unwrap_or(u64::MAX)).read_to_string(&mut body)?;
    let status = number(head.split(' ').nth(1)).and_then(|status| status.try_into().ok());
    Ok(Answer { status: status.ok_or(io::ErrorKind::InvalidData)?, head, body })
}
