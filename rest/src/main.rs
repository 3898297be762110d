//! The HTTP API of one instance, and its page. `flux-agent serve` starts this program as Flux's user. Each request opens a
//! connection of its own to the broker, which ends with the request.
//!
//! `query`, `submission`, `job`, `listing` and `metrics` decide over values; `router` admits requests, `calls` and `v1` answer them.

mod answer;
mod calls;
mod context;
mod feed;
mod instance;
mod job;
mod job_stream;
mod listing;
mod metrics;
mod query;
mod router;
mod submission;
mod v1;

use crate::context::{Context, NewToken};
use crate::v1::session::Sessions;
use flux_contract::{Exit, ServedInstance, token};
use flux_server::all_addresses;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::{env, thread};
use tokio::net::TcpListener;
use tokio::runtime;
use tokio::sync::oneshot;

/// Why nothing is served: the code to end with, and the reason.
struct Failure(Exit, String);

impl Failure {
    fn because(exit: Exit, doing: &str, cause: impl Into<anyhow::Error>) -> Self {
        Self(exit, format!("{doing}: {:#}", cause.into()))
    }
}

fn main() -> ExitCode {
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::because(Exit::Internal, "start", error));
    let done = runtime.and_then(|runtime| {
        let done = runtime.block_on(run());
        // The thread that reads standard input may never end.
        runtime.shutdown_background();
        done
    });
    let Err(Failure(exit, reason)) = done else { return ExitCode::SUCCESS };
    let _ = writeln!(io::stderr(), "flux-rest: {reason}");
    exit.code().into()
}

async fn run() -> Result<(), Failure> {
    let instance = instance()?;
    let (mut new, mut query) = (None, String::new());
    let fingerprint = if let Some(fingerprint) = &instance.token_sha256 {
        fingerprint.to_ascii_lowercase()
    } else {
        let NewToken { token, code } = new.insert(new_token()?);
        query = format!("?token={token}&code={code}");
        token::fingerprint(token)
    };
    let (listen, until_input_ends) = (instance.listen, instance.until_input_ends);
    let context = Context::new(instance, fingerprint, new);
    let refused =
        |error| Failure::because(Exit::Broker, "connect to the broker as its user", error);
    context.connect().await.map_err(refused)?;
    let listening =
        |error: io::Error| Failure::because(Exit::Prepare, &format!("listen at {listen}"), error);
    let listener = TcpListener::bind(&addresses(listen)[..]).await.map_err(listening)?;
    let address = listener.local_addr().map_err(listening)?;
    // A reader that has gone needs no address.
    let _ = writeln!(io::stdout(), "http://{address}/{query}");
    let sessions = Sessions::new(getrandom::fill)
        .map_err(|error| Failure(Exit::Internal, format!("make a key: {error}")))?;
    tokio::select! {
        () = router::serve(listener, context, sessions) => {}
        () = input_ended(), if until_input_ends => {}
    }
    Ok(())
}

/// The instance that the only argument describes.
fn instance() -> Result<ServedInstance, Failure> {
    let argument = env::args().nth(1).unwrap_or_default();
    serde_json::from_str(&argument).map_err(|error| {
        let reason = format!("start this program by `flux-agent serve`: its argument: {error}");
        Failure(Exit::Usage, reason)
    })
}

fn new_token() -> Result<NewToken, Failure> {
    let random = || token::random(getrandom::fill);
    let new = random().and_then(|token| Ok(NewToken { token, code: random()? }));
    new.map_err(|error| Failure(Exit::Internal, format!("make a token: {error}")))
}

/// The addresses to try in turn: a kernel without IPv6 has no `[::]`.
fn addresses(listen: SocketAddr) -> Vec<SocketAddr> {
    let all = all_addresses(listen.port());
    if all[0] == listen { all.to_vec() } else { vec![listen] }
}

/// Waits for the end of standard input on a thread of its own: an unfinished read must not delay the end of this program.
async fn input_ended() {
    let (ended, end) = oneshot::channel();
    thread::spawn(move || {
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        let _ = ended.send(());
    });
    let _ = end.await;
}
