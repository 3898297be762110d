//! `flux-agent serve`: becomes Flux's user and serves the API of this pod's instance.

use crate::commands::arguments::PodArguments;
use crate::commands::client::{GoHome, connected};
use crate::commands::pod::PodContext;
use crate::failure::Failure;
use crate::plan::submission::has_validator;
use crate::program::submit::limits;
use crate::serve::context::{Context, Timeline};
use crate::serve::server;
use crate::serve::submission::Defaults;
use crate::serve::token::{self, Token};
use crate::system::addresses::all_addresses;
use crate::system::environment::Environment;
use crate::system::output::print_line;
use clap::Args;
use flux_contract::Exit;
use flux_protocol::client::BrokerAddress;
use flux_protocol::jobspec::{Variables, flux_run_environment};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::{io, thread};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

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
    /// Instead of the token, its SHA-256 in hexadecimal digits
    #[arg(long, value_name = "DIGITS", conflicts_with = "token_file")]
    token_sha256: Option<Token>,
    /// End when standard input does, as with the `kubectl exec` that has started this
    #[arg(long)]
    until_input_ends: bool,
}

pub(crate) async fn run(serve: &Serve) -> Result<(), Failure> {
    let pod = PodContext::read(&serve.pod)?;
    // As whoever this is, who may know more than Flux's user.
    let given = serve.token_file.as_deref().map(token::read).transpose()?;
    let timeline = Timeline::of(pod.root.at(pod.config.layout.agent_socket())).await;
    let (client, broker) = connected(&pod)?;
    let validated = has_validator(&pod.config);
    let environment = client.become_user(GoHome::IfUseless)?;
    let (token, query) = match (&serve.token_sha256, given) {
        (Some(token), _) => (token.clone(), String::new()),
        (None, Some(text)) => (Token::new(&text), String::new()),
        (None, None) => {
            let text = token::made()?;
            (Token::new(&text), format!("?token={text}"))
        }
    };
    let context = Context {
        broker: BrokerAddress { owner: None, ..broker },
        token,
        cluster: pod.config.cluster.name.to_string(),
        accounts: pod.facts.accounts,
        defaults: defaults(environment, validated),
        timeline,
    };
    let refused =
        |error| Failure::because(Exit::Broker, "connect to the broker as its user", &error);
    context.connect().await.map_err(refused)?;
    let listening = |error| {
        let doing = format!("listen at {}", serve.listen);
        Failure::because(Exit::Prepare, doing, &error)
    };
    let listener = TcpListener::bind(&addresses(serve.listen)[..]).await.map_err(listening)?;
    let address = listener.local_addr().map_err(listening)?;
    print_line(&format!("http://{address}/{query}"));
    tokio::select! {
        () = server::serve(listener, context) => {}
        () = input_ended(), if serve.until_input_ends => {}
    }
    Ok(())
}

/// What to try in turn: a kernel without IPv6 has no `[::]`.
fn addresses(listen: SocketAddr) -> Vec<SocketAddr> {
    let all = all_addresses(listen.port());
    if all[0] == listen { all.to_vec() } else { vec![listen] }
}

/// A thread of its own reads: an unfinished read must not hold up the end of this program.
async fn input_ended() {
    let (ended, end) = oneshot::channel();
    thread::spawn(move || {
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        let _ = ended.send(());
    });
    let _ = end.await;
}

/// What `flux run` would give a job here. What of the environment is not UTF-8 cannot be in a job.
fn defaults(environment: Environment, validated: bool) -> Defaults {
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    let environment: Variables = environment.into_iter().filter_map(text).collect();
    let directory = std::env::current_dir().unwrap_or_else(|_| "/".into());
    Defaults {
        directory: directory.display().to_string(),
        environment: flux_run_environment(environment),
        limits: limits(),
        validated,
        uid: nix::unistd::geteuid().as_raw(),
    }
}
