//! What the kubelet asks: whether the pod is ready, over HTTP. The answer waits until there is one, so that no attempt
//! fails on the way there. Whoever reaches the pod's port may ask, so nothing else is to be learned here, within bounds,
//! but how many pods the queue needs ([`demand`]), and what keeps the broker from its lead ([`obstacle`]).

use crate::status::document::StatusReport;
use anyhow::{Context as _, Result};
use flux_contract::demand::Question;
use flux_contract::invocation::READY_PATH;
use flux_contract::obstacle::OBSTACLE_PATH;
use flux_server::{HeadLimits, all_addresses};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use std::convert::Infallible;
use std::io;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::timeout;

/// The kubelet's request has about 150 bytes.
const HEAD_LIMITS: HeadLimits = HeadLimits { bytes: 8 * 1024, time: Duration::from_secs(5) };
/// Longest time that a question may wait for its answer.
const LONGEST_WAIT: Duration = Duration::from_hours(1);
/// The same of the operator's question, which it asks again then.
const LONGEST_WAIT_FOR_DEMAND: Duration = Duration::from_mins(5);

/// The port of a run.
#[derive(Debug)]
pub struct ReadinessServer {
    listener: TcpListener,
    open: watch::Sender<u32>,
}

impl ReadinessServer {
    /// Listens at `port` on all addresses of the pod. Who connects before [`serve`](Self::serve) waits for it.
    pub fn bind(port: u16) -> Result<Self> {
        let listen = || -> io::Result<TcpListener> {
            let listener = std::net::TcpListener::bind(&all_addresses(port)[..])?;
            listener.set_nonblocking(true)?;
            TcpListener::from_std(listener)
        };
        let listener = listen().with_context(|| {
            format!("listen at port {port}, where the kubelet asks whether this pod is ready, which it will not be")
        })?;
        Ok(Self { listener, open: watch::Sender::default() })
    }

    /// The port it listens at.
    pub fn port(&self) -> io::Result<u16> {
        Ok(self.listener.local_addr()?.port())
    }

    /// How many connections are open.
    pub fn open(&self) -> watch::Receiver<u32> {
        self.open.subscribe()
    }

    /// Answers by the latest of `reports`, until the future is dropped. Where there are too many connections the oldest
    /// is closed, so that the kubelet always gets one; the operator asks again.
    pub async fn serve(self, reports: watch::Receiver<StatusReport>) {
        let service = || {
            let (reports, open) = (reports.clone(), Open::one_more(&self.open));
            service_fn(move |request| {
                // The connection is open for as long as its service is there.
                let _ = &open;
                respond(request, reports.clone())
            })
        };
        flux_server::serve(self.listener, HEAD_LIMITS, flux_server::plain, service).await;
    }
}

/// Counts a connection for as long as it is there.
struct Open(watch::Sender<u32>);

impl Open {
    fn one_more(open: &watch::Sender<u32>) -> Self {
        open.send_modify(|open| *open += 1);
        Self(open.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.send_modify(|open| *open = open.saturating_sub(1));
    }
}

async fn respond(
    request: Request<Incoming>,
    reports: watch::Receiver<StatusReport>,
) -> Result<Response<String>, Infallible> {
    let (code, text) = match request.uri().path() {
        READY_PATH | Question::PATH | OBSTACLE_PATH if request.method() != Method::GET => {
            (StatusCode::METHOD_NOT_ALLOWED, String::new())
        }
        READY_PATH => (ready(&request, reports).await, String::new()),
        Question::PATH => demand(&request, reports).await,
        OBSTACLE_PATH => obstacle(&reports),
        _ => (StatusCode::NOT_FOUND, String::new()),
    };
    let mut response = Response::new(text);
    *response.status_mut() = code;
    Ok(response)
}

async fn ready(
    request: &Request<Incoming>,
    mut reports: watch::Receiver<StatusReport>,
) -> StatusCode {
    let wait = match request.uri().query().map(|query| query.strip_prefix("wait=")) {
        None => Some(Duration::ZERO),
        Some(seconds) => seconds.and_then(|it| it.parse().ok()).map(Duration::from_secs),
    };
    let Some(wait) = wait else { return StatusCode::BAD_REQUEST };
    let settled = reports.wait_for(|report| report.ready || report.over);
    // The answer is that of the moment, be it settled or not.
    let _ = timeout(wait.min(LONGEST_WAIT), settled).await;
    if reports.borrow().ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

/// What the queue needs, when that is another than was seen. Without `spec.autoscale` it is never known.
async fn demand(
    request: &Request<Incoming>,
    mut reports: watch::Receiver<StatusReport>,
) -> (StatusCode, String) {
    let refused = |code| (code, String::new());
    let question = request.uri().query().and_then(Question::of_query);
    let Some(question) = question else { return refused(StatusCode::BAD_REQUEST) };
    let wait = Duration::from_secs(question.wait_seconds).min(LONGEST_WAIT_FOR_DEMAND);
    let is_news = |report: &StatusReport| {
        report.over || (report.demand.is_some() && report.demand != question.seen)
    };
    let _ = timeout(wait, reports.wait_for(is_news)).await;
    let demand = reports.borrow().demand;
    match demand.map(|demand| serde_json::to_string(&demand)) {
        Some(Ok(text)) => (StatusCode::OK, text),
        Some(Err(_)) | None => refused(StatusCode::SERVICE_UNAVAILABLE),
    }
}

/// What keeps the broker from its lead at the moment.
fn obstacle(reports: &watch::Receiver<StatusReport>) -> (StatusCode, String) {
    let obstacle = reports.borrow().obstacle.clone();
    let text = obstacle.and_then(|obstacle| serde_json::to_string(&obstacle).ok());
    text.map_or((StatusCode::NO_CONTENT, String::new()), |text| (StatusCode::OK, text))
}
