//! `flux-agent serve`: becomes Flux's user and then `flux-rest`, which serves the API of this pod's instance.

use crate::commands::arguments::PodArguments;
use crate::commands::client::{GoHome, connected};
use crate::commands::pod::PodContext;
use crate::failure::{Failure, Result, failed};
use crate::plan::submission::has_validator;
use crate::program::submit::limits;
use crate::status::file;
use crate::system::files::is_executable;
use clap::Args;
use flux_contract::token::fingerprint;
use flux_contract::{Exit, Layout, REST_TLS_MOUNT, ServedInstance, ServedTokens};
use std::fs;
use std::net::{Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

/// A shorter token could be guessed.
const SHORTEST_TOKEN: usize = 16;

/// How it is served.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    #[command(flatten)]
    pod: PodArguments,
    /// Address and port to listen at; port 0 is any that is free, and `[::]` stands for all addresses
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// File whose first line is the token; without one, a token is made, and the address is printed with it
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Serve as `flux.rest` of the MiniCluster has it: its port, its tokens, and its certificate
    #[arg(long, conflicts_with_all = ["listen", "token_file"])]
    as_configured: bool,
    /// End when standard input does, as with the `kubectl exec` that has started this
    #[arg(long)]
    until_input_ends: bool,
}

/// Returns only when it failed.
pub(crate) fn run(serve: &Serve) -> Result<()> {
    let pod = PodContext::read(&serve.pod)?;
    // Flux's user may not be allowed to read these files.
    let (listen, tokens, tls) = if serve.as_configured {
        configured(&pod, &serve.pod)?
    } else {
        let token = serve.token_file.as_deref().map(token).transpose()?;
        let given = token.map(|token| ServedTokens::Sha256(fingerprint(&token)));
        (serve.listen, given.unwrap_or(ServedTokens::New), None)
    };
    let report = file::read(&pod.root, &pod.config.layout).unwrap_or_default();
    let (client, broker) = connected(&pod)?;
    let program = program()?;
    let instance = ServedInstance {
        cluster: pod.config.cluster.name.to_string(),
        broker: broker.socket,
        agent: pod.root.at(pod.config.layout.agent_status()),
        // The last phase is not over.
        timeline: report.phases.split_last().map_or_else(Vec::new, |(_, over)| over.to_vec()),
        users: pod.root.at("/etc/passwd"),
        limits: limits().into_iter().map(|(name, limit)| (name.to_owned(), limit)).collect(),
        validated: has_validator(&pod.config),
        listen,
        tokens,
        tls,
        until_input_ends: serve.until_input_ends,
    };
    let instance = serde_json::to_string(&instance).map_err(|error| {
        let doing = format!("write the arguments of {}", Layout::REST_NAME);
        Failure::because(Exit::Internal, doing, &error)
    })?;
    client.become_program(program.as_os_str(), &[instance.into()], GoHome::IfUseless)
}

/// Where and to whom it is served, and the directory of its certificate, as `flux.rest` has it. Flux's user may read
/// the mounted files, and sees when they are replaced.
fn configured(
    pod: &PodContext,
    arguments: &PodArguments,
) -> Result<(SocketAddr, ServedTokens, Option<PathBuf>)> {
    let none = || {
        let text =
            "this MiniCluster has no API of its own: set flux.rest, or leave out --as-configured";
        Failure::new(Exit::Config, text.to_owned())
    };
    let rest = pod.config.rest.as_ref().ok_or_else(none)?;
    let tokens = ServedTokens::Config(pod.root.at(&arguments.config));
    let tls = rest.tls.then(|| pod.root.at(REST_TLS_MOUNT));
    Ok(((Ipv6Addr::UNSPECIFIED, rest.port).into(), tokens, tls))
}

/// `flux-rest`, which lies beside this program.
fn program() -> Result<PathBuf> {
    let own = std::env::current_exe().map_err(|error| {
        Failure::because(Exit::Internal, "find out where this program lies", &error)
    })?;
    let program = own.with_file_name(Layout::REST_NAME);
    if is_executable(&program) {
        return Ok(program);
    }
    let path = program.display();
    let text = format!(
        "there is no {path}, which serves the API: copy it there from the image of the agent"
    );
    Err(Failure::new(Exit::Prepare, text))
}

/// The token in the file at `path`: its first line.
fn token(path: &Path) -> Result<String> {
    let text = fs::read_to_string(path).map_err(failed("read the token in", path))?;
    let token = text.lines().next().unwrap_or_default().trim();
    let refused = |what: &str| {
        let shown = path.display();
        Err(Failure::new(Exit::Config, format!("the token in {shown} {what}")))
    };
    if token.len() < SHORTEST_TOKEN {
        return refused(&format!(
            "is shorter than {SHORTEST_TOKEN} characters: make one (openssl rand -hex 24)"
        ));
    }
    if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return refused("has characters that no header can have: use letters and digits");
    }
    Ok(token.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_the_first_line_of_its_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let read = |text: &str| {
            fs::write(file.path(), text).unwrap();
            token(file.path()).map_err(|failure| failure.to_string())
        };
        assert_eq!(read("0123456789abcdef\nmore\n").unwrap(), "0123456789abcdef");
        assert!(read("\n").unwrap_err().contains("shorter than 16"));
        assert!(read("0123456789 abcdef").unwrap_err().contains("no header"));
    }
}
