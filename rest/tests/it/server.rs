//! `flux-rest` in a temporary directory.

use flux_contract::token::fingerprint;
use flux_contract::{ServedInstance, ServedTokens};
use serde_json::Value;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// Long enough for a busy machine. No test waits this long unless it fails.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);
pub(crate) const TOKEN: &str = "0123456789abcdef";
/// The token that reads only.
pub(crate) const READER: &str = "fedcba9876543210";

/// The header of a client that has `token`.
pub(crate) fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

/// A program that ends with its test.
pub(crate) struct Background(pub(crate) Child);

impl Background {
    pub(crate) fn start(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(command.spawn().unwrap())
    }

    /// Waits until it logs a line with `text`.
    pub(crate) fn logs(&mut self, text: &str) {
        let mut lines = BufReader::new(self.0.stderr.as_mut().unwrap()).lines().map(Result::unwrap);
        assert!(lines.any(|line| line.contains(text)), "{text:?} is not logged");
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
        let place = Self(tempfile::tempdir().unwrap());
        place.accept(TOKEN, READER);
        place
    }

    /// Writes the document with these tokens: one that may do everything, and one that reads.
    pub(crate) fn accept(&self, full: &str, reader: &str) {
        let [full, reader] = [full, reader].map(fingerprint);
        let text = format!(
            "version = 1\n[rest]\ntoken_sha256 = '{full}'\nread_only_token_sha256 = '{reader}'\n"
        );
        fs::write(self.at("new.toml"), text).unwrap();
        fs::rename(self.at("new.toml"), self.at("agent.toml")).unwrap();
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The instance, for clients that have [`TOKEN`] or [`READER`].
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
            tokens: ServedTokens::Config(self.at("agent.toml")),
            tls: None,
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
    let scheme = if instance.tls.is_some() { "https://" } else { "http://" };
    let address = line.strip_prefix(scheme).and_then(|line| line.strip_suffix('/'));
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

    /// What the document has at these JSON pointers.
    pub(crate) fn at<const N: usize>(&self, pointers: [&str; N]) -> Value {
        let document = self.json();
        pointers.map(|pointer| document.pointer(pointer).cloned().unwrap_or_default()).into()
    }
}

/// The answer to a request with these lines behind the first of its head, which may have no chunks.
pub(crate) fn ask(
    address: SocketAddr,
    request: &str,
    head: &str,
    body: &str,
) -> io::Result<Answer> {
    answer_on(begin(address, "")?, request, head, body)
}

/// The same on a connection that is there.
pub(crate) fn answer_on(
    mut stream: impl io::Read + io::Write,
    request: &str,
    head: &str,
    body: &str,
) -> io::Result<Answer> {
    let start = format!("{request}\r\nHost: localhost\r\nContent-Length: {}", body.len());
    stream.write_all(format!("{start}\r\n{head}\r\n{body}").as_bytes())?;
    let mut stream = BufReader::new(stream);
    let (mut head, mut body) = (String::new(), String::new());
    while !head.ends_with("\r\n\r\n") && stream.read_line(&mut head)? > 0 {}
    let head = head.to_ascii_lowercase();
    let number = |text: Option<&str>| text.and_then(|text| text.trim().parse().ok());
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    stream.take(number(length).unwrap_or(u64::MAX)).read_to_string(&mut body)?;
    let status = number(head.split(' ').nth(1)).and_then(|status| status.try_into().ok());
    Ok(Answer { status: status.ok_or(io::ErrorKind::InvalidData)?, head, body })
}
