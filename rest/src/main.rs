//! The HTTP API of one instance, and its page. `flux-agent serve` starts this program as Flux's user. Each request opens a
//! connection of its own to the broker, which ends with the request.
//!
//! `access` decides who may do what, and `query`, `submission`, `job`, `listing` and `metrics` decide over values; `router`
//! admits requests, `calls` and `v1` answer them.

mod access;
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
use flux_contract::{Exit, RestTokens, ServedInstance, ServedTokens, TLS_SECRET_KEYS, token};
use flux_server::tls::{PemFiles, Tls};
use flux_server::{all_addresses, files};
use futures::future::{OptionFuture, pending};
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::{env, fs, mem, thread};
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
    log(&reason);
    exit.code().into()
}

async fn run() -> Result<(), Failure> {
    let instance = instance()?;
    let (listen, until_input_ends) = (instance.listen, instance.until_input_ends);
    let (tokens, new) = accepted(&instance.tokens)?;
    let given = instance.tokens.clone();
    let certificate = instance.tls.as_deref().map(certificate).transpose()?;
    let sessions = Sessions::new(getrandom::fill)
        .map_err(|error| Failure(Exit::Internal, format!("make a key: {error}")))?;
    // A fragment is sent to no server, and is in no log.
    let fragment =
        new.as_ref().map(|NewToken { token, code }| format!("#token={token}&code={code}"));
    let context = Arc::new(Context::new(instance, tokens, new, sessions));
    let refused =
        |error| Failure::because(Exit::Broker, "connect to the broker as its user", error);
    context.connect().await.map_err(refused)?;
    let listening =
        |error: io::Error| Failure::because(Exit::Prepare, &format!("listen at {listen}"), error);
    let listener = TcpListener::bind(&addresses(listen)[..]).await.map_err(listening)?;
    let address = listener.local_addr().map_err(listening)?;
    let scheme = if certificate.is_some() { "https" } else { "http" };
    // A reader that has gone needs no address.
    let _ = writeln!(io::stdout(), "{scheme}://{address}/{}", fragment.unwrap_or_default());
    let tls = certificate.as_ref().map(|(tls, _)| tls.clone());
    let renewed = certificate.map(|(tls, files)| tls.follow(files, log));
    tokio::select! {
        () = router::serve(listener, tls, Arc::clone(&context)) => {}
        () = input_ended(), if until_input_ends => {}
        Some(()) = OptionFuture::from(renewed) => {}
        () = follow_tokens(&context, given) => {}
    }
    Ok(())
}

/// The tokens at the start, and the one that is made here.
fn accepted(tokens: &ServedTokens) -> Result<(RestTokens, Option<NewToken>), Failure> {
    Ok(match tokens {
        ServedTokens::New => {
            let new = new_token()?;
            (access::full(&token::fingerprint(&new.token)), Some(new))
        }
        ServedTokens::Sha256(fingerprint) => (access::full(fingerprint), None),
        ServedTokens::Config(path) => {
            (read_tokens(path).map_err(|why| Failure(Exit::Config, why))?, None)
        }
    })
}

/// The tokens in the document at `path`.
fn read_tokens(path: &Path) -> Result<RestTokens, String> {
    let what = format!("the tokens of the API in {}", path.display());
    let text = fs::read_to_string(path).map_err(|why| format!("read {what}: {why}"))?;
    RestTokens::of_document(&text).map_err(|why| format!("{what}: {:#}", anyhow::Error::from(why)))
}

/// Takes the tokens of each document that replaces the one that was `given`.
async fn follow_tokens(context: &Context, given: ServedTokens) {
    let ServedTokens::Config(path) = given else { return pending().await };
    let take = |tokens: &RestTokens| {
        context.tokens.send_if_modified(|now| mem::replace(now, tokens.clone()) != *tokens);
        Ok(())
    };
    files::follow(|| read_tokens(&path), take, log).await;
}

/// The certificate in `directory`, and where it is read again.
fn certificate(directory: &Path) -> Result<(Tls, PemFiles), Failure> {
    let files = TLS_SECRET_KEYS.map(|name| directory.join(name));
    let wrong = |why| Failure(Exit::Config, format!("the certificate of the API: {why}"));
    Ok((Tls::open(&files).map_err(wrong)?, files))
}

fn log(text: &str) {
    let _ = writeln!(io::stderr(), "flux-rest: {text}");
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
