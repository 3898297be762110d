//! `ui`: opens the page of a running instance in a browser.
//!
//! While this command runs, the lead's agent serves the page on the loopback of its pod, to anyone who has the token
//! that it has made. To reach it, a user needs the rights to exec and port-forward.

use crate::error::line;
use crate::exec;
use crate::prelude::*;
use kube::api::AttachParams;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::process::{Command, Stdio};
use tokio::io::{AsyncBufReadExt as _, BufReader, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

const OPENER: &str = if cfg!(target_os = "macos") {
    "open"
} else if cfg!(windows) {
    "explorer"
} else {
    "xdg-open"
};

#[derive(Debug, Args)]
#[command(after_help = "The page is served until you press Ctrl-C.")]
pub(crate) struct Ui {
    #[command(flatten)]
    name: NameArgument,
    /// Port on this machine; 0 for any free port
    #[arg(long, default_value_t = 0, value_name = "PORT")]
    port: u16,
    /// Print the address, and the header with the token for programs, and do not open a browser
    #[arg(long)]
    no_browser: bool,
}

impl Ui {
    pub(crate) async fn execute(&self, connection: Connection) -> Result<()> {
        let lead = self.name.lead(connection).await?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, self.port)).await;
        let listener = listener.with_context(|| format!("listen on port {}", self.port))?;
        let argv = [lead.agent.as_str(), "serve", "--until-input-ends"];
        let parameters = AttachParams { stdin: true, ..exec::parameters(&lead.target) };
        let mut served = exec::start(&lead.target, &lead.name, &argv, &parameters).await?;
        // When this process ends, the input of the agent is closed, and the agent ends.
        let _input = served.stdin();
        let errors = served.stderr();
        let output = served.stdout().context("the agent has no output")?;
        let mut lines = BufReader::new(output).lines();
        let Some(line) = lines.next_line().await.context("read the address from the agent")? else {
            bail!("the agent does not serve the page: {}", exec::error_text(errors).await);
        };
        let (port, token, behind) = parts(&line)
            .with_context(|| format!("the agent printed {line:?} instead of an address"))?;
        let local = listener.local_addr().context("get the local port")?.port();
        let address = format!("http://127.0.0.1:{local}/{behind}");
        print(&address);
        if self.no_browser {
            print(&format!("Authorization: Bearer {token}"));
        } else {
            open(&address);
        }
        let (api, pod) = (lead.target.connection.sessions(), lead.name);
        tokio::select! {
            ended = exec::end(served, &argv) => {
                let code = ended?;
                bail!("the agent ended with code {code}: {}", exec::error_text(errors).await)
            }
            interrupted = tokio::signal::ctrl_c() => {
                interrupted.context("wait for an interrupt")?;
                Ok(())
            }
            failed = forward(&listener, &api, &pod, port) => failed,
        }
    }
}

/// Port and token of the address that an agent prints, and what stands behind its path to open the page. All users of this
/// machine see that among the arguments of the browser, so it has a code that the agent takes once, unless the agent is
/// too old for codes. An agent that is a little too old takes the code in a query.
fn parts(line: &str) -> Option<(u16, &str, String)> {
    let (address, secrets) = line.strip_prefix("http://")?.split_once('/')?;
    let address: SocketAddrV4 = address.parse().ok()?;
    let (mark, secrets) =
        secrets.split_at_checked(1).filter(|(mark, _)| ["#", "?"].contains(mark))?;
    let (token, code) = secrets.split_once('&').unwrap_or((secrets, secrets));
    Some((address.port(), token.strip_prefix("token=")?, format!("{mark}{code}")))
}

async fn forward(listener: &TcpListener, pods: &Api<Pod>, pod: &str, port: u16) -> Result<()> {
    loop {
        let (stream, _) = listener.accept().await.context("accept a connection of the browser")?;
        let (pods, pod) = (pods.clone(), pod.to_owned());
        tokio::spawn(async move {
            if let Err(error) = forward_one(stream, &pods, &pod, port).await {
                print_stderr(&line(&error));
            }
        });
    }
}

async fn forward_one(mut from: TcpStream, pods: &Api<Pod>, pod: &str, port: u16) -> Result<()> {
    let forwarded = pods.portforward(pod, &[port]).await;
    let mut forwarded = forwarded.with_context(|| format!("reach port {port} of the pod {pod}"))?;
    let mut to = forwarded.take_stream(port).context("the port is not forwarded")?;
    // The browser may close connections at any time.
    let _ = copy_bidirectional(&mut from, &mut to).await;
    Ok(())
}

/// Opens the address in the user's browser. Without a browser the user has the printed address.
fn open(address: &str) {
    let mut command = Command::new(OPENER);
    command.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let _ = command.spawn();
}

#[cfg(test)]
mod tests {
    use super::parts;

    #[test]
    fn port_and_token_come_from_the_address() {
        let of_old = parts("http://127.0.0.1:4321/?token=ab");
        assert_eq!(of_old, Some((4321, "ab", "?token=ab".to_owned())));
        for (mark, behind) in [("?", "?code=cd"), ("#", "#code=cd")] {
            let printed = format!("http://127.0.0.1:4321/{mark}token=ab&code=cd");
            assert_eq!(parts(&printed), Some((4321, "ab", behind.to_owned())));
        }
        for line in ["", "listening", "http://127.0.0.1/?token=ab", "http://127.0.0.1:1/"] {
            assert_eq!(parts(line), None, "{line}");
        }
    }
}
