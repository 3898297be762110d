//! `ui`: the page of an instance that runs, in a browser.
//!
//! The lead's agent serves it on its pod's loopback for as long as this runs, to who has the token that it has made.
//! Kubernetes' own rights to exec and port-forward decide who gets there.

use crate::connection::Connection;
use crate::exec;
use crate::instance::Place;
use crate::output::{complain, print};
use crate::target::{NameArgument, Target};
use anyhow::{Context as _, Result, bail};
use clap::Args;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::AttachParams;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::process::{Command, ExitCode, Stdio};
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader, copy_bidirectional,
};
use tokio::net::{TcpListener, TcpStream};

/// What opens an address in the user's browser.
const OPENER: &str = if cfg!(target_os = "macos") {
    "open"
} else if cfg!(windows) {
    "explorer"
} else {
    "xdg-open"
};

/// `ui`.
#[derive(Debug, Args)]
#[command(after_help = "The page is there until this is interrupted.")]
pub(crate) struct Ui {
    #[command(flatten)]
    name: NameArgument,
    /// Port of this machine; any that is free unless given
    #[arg(long, default_value_t = 0, value_name = "PORT")]
    port: u16,
    /// Print the address and open no browser
    #[arg(long)]
    no_browser: bool,
}

impl Ui {
    pub(crate) async fn execute(&self, connection: Connection) -> Result<ExitCode> {
        let place = Place::lead(Target::new(connection, &self.name.name)).await?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, self.port)).await;
        let listener = listener.with_context(|| format!("listen at port {}", self.port))?;
        let words = [place.agent.as_str(), "serve", "--until-input-ends"];
        let parameters = AttachParams { stdin: true, ..exec::parameters(&place.target) };
        let mut served = exec::start(&place.target, &place.pod_name(), &words, &parameters).await?;
        // The agent ends when this does.
        let _input = served.stdin();
        let mut errors = served.stderr();
        let output = served.stdout().context("the agent has no output")?;
        let mut lines = BufReader::new(output).lines();
        let Some(line) = lines.next_line().await.context("read where the agent serves")? else {
            bail!("the agent does not serve the page: {}", rest(&mut errors).await);
        };
        let (port, token) = parts(&line)
            .with_context(|| format!("the agent serves at {line:?}, which is no address"))?;
        let local = listener.local_addr().context("look where this listens")?.port();
        let address = format!("http://127.0.0.1:{local}/?token={token}");
        print(&address);
        if !self.no_browser {
            open(&address);
        }
        let (api, pod) = (place.target.connection.sessions(), place.pod_name());
        tokio::select! {
            ended = exec::end(served, &words) => {
                let code = ended?;
                bail!("the agent has ended with code {code}: {}", rest(&mut errors).await)
            }
            interrupted = tokio::signal::ctrl_c() => {
                interrupted.context("wait for an interrupt")?;
                Ok(ExitCode::SUCCESS)
            }
            never = forward(&listener, &api, &pod, port) => never.map(|()| ExitCode::SUCCESS),
        }
    }
}

/// Port and token of the address that an agent prints.
fn parts(line: &str) -> Option<(u16, &str)> {
    let (address, token) = line.strip_prefix("http://")?.split_once("/?token=")?;
    let address: SocketAddrV4 = address.parse().ok()?;
    Some((address.port(), token))
}

/// Brings each connection to `port` of the pod.
async fn forward(listener: &TcpListener, pods: &Api<Pod>, pod: &str, port: u16) -> Result<()> {
    loop {
        let (stream, _) = listener.accept().await.context("accept a connection of the browser")?;
        let (pods, pod) = (pods.clone(), pod.to_owned());
        tokio::spawn(async move {
            if let Err(error) = forward_one(stream, &pods, &pod, port).await {
                complain(&format!("{error:#}"));
            }
        });
    }
}

async fn forward_one(mut from: TcpStream, pods: &Api<Pod>, pod: &str, port: u16) -> Result<()> {
    let forwarded = pods.portforward(pod, &[port]).await;
    let mut forwarded = forwarded.with_context(|| format!("reach port {port} of the pod {pod}"))?;
    let mut to = forwarded.take_stream(port).context("the port is not forwarded")?;
    // A browser ends connections as it likes.
    let _ = copy_bidirectional(&mut from, &mut to).await;
    Ok(())
}

async fn rest(from: &mut Option<impl AsyncRead + Unpin>) -> String {
    let mut text = String::new();
    if let Some(from) = from {
        let _ = from.read_to_string(&mut text).await;
    }
    text.trim().to_owned()
}

/// Opens the address in the user's browser, where there is one; it was printed for who has none.
fn open(address: &str) {
    let mut command = Command::new(OPENER);
    command.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let _ = command.spawn();
}

#[cfg(test)]
mod tests {
    use super::parts;

    #[test]
    fn port_and_token_are_those_of_the_address() {
        assert_eq!(parts("http://127.0.0.1:4321/?token=ab"), Some((4321, "ab")));
        for line in ["", "listening", "http://127.0.0.1/?token=ab", "http://127.0.0.1:1/"] {
            assert_eq!(parts(line), None, "{line}");
        }
    }
}
