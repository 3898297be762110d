//! The server of a test at an address of the loopback interface, for programs that are started as users start them.
//!
//! It adds what goes wrong on the way to a real API server: answers that are refused, late, cut or never sent, and a
//! server that hangs. It also has the logs of pods, which no object holds.

use super::memory::refuse;
use super::pod_log::Logs;
use super::refusal::refused;
use super::server::Server;
use axum::Router;
use axum::body::{Body as Answer, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt as _};
use kube::client::Body;
use std::future::pending;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// How an answer differs from that of a server at its best.
#[derive(Debug, Clone, Copy)]
pub enum Reaction {
    /// A refusal with this code.
    Refuse(u16),
    /// No answer.
    Hang,
    /// The answer comes after this time.
    Delay(Duration),
    /// The connection breaks after so many parts of the answer; a part is a line of a log or an event of a watch.
    CutAfter(usize),
    /// The connection stays open and silent after so many parts of the answer.
    SilentAfter(usize),
}

/// A server at an address.
#[derive(Clone)]
pub struct Endpoint {
    pub server: Server,
    pub logs: Logs,
    url: String,
    /// A part of `METHOD path?query`, for how many more requests with that, and what happens to them.
    rules: Arc<Mutex<Vec<(String, usize, Reaction)>>>,
    requests: Arc<watch::Sender<Vec<String>>>,
    /// A new value breaks all open connections.
    breaks: Arc<watch::Sender<()>>,
    is_frozen: Arc<watch::Sender<bool>>,
}

impl Endpoint {
    /// Serves `server` until the runtime ends.
    pub async fn serve(server: Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = Self {
            server,
            logs: Logs::default(),
            url: format!("http://{}", listener.local_addr().unwrap()),
            rules: Arc::default(),
            requests: Arc::new(watch::Sender::new(Vec::new())),
            breaks: Arc::new(watch::Sender::new(())),
            is_frozen: Arc::new(watch::Sender::new(false)),
        };
        let router = Router::new().fallback(answer).with_state(endpoint.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        endpoint
    }

    /// Writes a kubeconfig for this server, whose namespace is `default`.
    pub fn write_kubeconfig(&self, file: &Path) {
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: test\n\
             clusters: [{{name: test, cluster: {{server: '{}'}}}}]\n\
             users: [{{name: test, user: {{}}}}]\n\
             contexts: [{{name: test, context: {{cluster: test, user: test, namespace: default}}}}]\n",
            self.url
        );
        std::fs::write(file, text).unwrap();
    }

    /// Lets the next `times` requests whose `METHOD path?query` contains `pattern` end with `reaction`.
    pub fn react(&self, pattern: &str, times: usize, reaction: Reaction) {
        self.rules.lock().unwrap().push((pattern.to_owned(), times, reaction));
    }

    pub fn break_connections(&self) {
        self.breaks.send_replace(());
    }

    /// Lets the server send nothing from now on, as if its process were stopped; or lets it continue.
    pub fn freeze(&self, is_frozen: bool) {
        self.is_frozen.send_replace(is_frozen);
    }

    /// Each request since the beginning as `METHOD path?query`.
    pub fn requests(&self) -> Vec<String> {
        self.requests.borrow().clone()
    }

    /// How many requests contain `pattern`.
    pub fn count(&self, pattern: &str) -> usize {
        self.requests.borrow().iter().filter(|it| it.contains(pattern)).count()
    }

    /// Waits until `times` requests contain `pattern`.
    pub async fn await_requests(&self, pattern: &str, times: usize) {
        let is_there =
            |all: &Vec<String>| all.iter().filter(|it| it.contains(pattern)).count() >= times;
        self.requests.subscribe().wait_for(is_there).await.unwrap();
    }

    async fn thaw(&self) {
        self.is_frozen.subscribe().wait_for(|is_frozen| !is_frozen).await.unwrap();
    }

    fn reaction(&self, request: &str) -> Option<Reaction> {
        let mut rules = self.rules.lock().unwrap();
        let mut rules = rules.iter_mut();
        let (_, left, reaction) = rules.find(|it| it.1 > 0 && request.contains(&it.0))?;
        *left -= 1;
        Some(*reaction)
    }
}

async fn answer(State(endpoint): State<Endpoint>, request: Request) -> Response {
    let line = format!("{} {}", request.method(), request.uri());
    endpoint.requests.send_modify(|all| all.push(line.clone()));
    endpoint.thaw().await;
    let reaction = endpoint.reaction(&line);
    match reaction {
        Some(Reaction::Refuse(code)) => return refuse(&refused(code, "refused by the test")),
        Some(Reaction::Hang) => pending().await,
        Some(Reaction::Delay(time)) => tokio::time::sleep(time).await,
        Some(Reaction::CutAfter(_) | Reaction::SilentAfter(_)) | None => {}
    }
    let answer = if let Some(log) = endpoint.logs.answer(&endpoint.server, request.uri()) {
        log
    } else {
        let (head, body) = request.into_parts();
        let body = to_bytes(body, usize::MAX).await.unwrap_or_default();
        endpoint.server.answer(http::Request::from_parts(head, Body::from(body))).await
    };
    let (head, body) = answer.into_parts();
    let body = body.into_data_stream().map(|part| part.map_err(io::Error::other));
    Response::from_parts(head, Answer::from_stream(disturbed(body.boxed(), reaction, endpoint)))
}

type Parts = BoxStream<'static, io::Result<Bytes>>;

/// The parts of an answer, as the test lets them reach the client.
fn disturbed(
    body: Parts,
    reaction: Option<Reaction>,
    endpoint: Endpoint,
) -> impl Stream<Item = io::Result<Bytes>> {
    let broken = endpoint.breaks.subscribe();
    stream::unfold((body, broken, 0), move |(mut body, mut broken, sent)| {
        let endpoint = endpoint.clone();
        async move {
            let next = async {
                let part = match reaction {
                    Some(Reaction::SilentAfter(parts)) if parts == sent => pending().await,
                    Some(Reaction::CutAfter(parts)) if parts == sent => None,
                    _ => Some(body.next().await),
                };
                endpoint.thaw().await;
                part
            };
            let part = tokio::select! {
                part = next => part,
                _ = broken.changed() => None,
            };
            let part = part.unwrap_or_else(|| Some(Err(io::Error::other("broken by the test"))));
            part.map(|part| (part, (body, broken, sent + 1)))
        }
    })
}
