//! The calls of the API: what each path and method does.

use crate::access::{Access, EXCHANGE};
use crate::answer::{Answer, Document, RETRY, Refusal, events};
use crate::context::{Context, Shared};
use crate::instance::{lead_attribute, number, resources};
use crate::job_stream::{self, Log};
use crate::query::{self, Asked, DOCUMENT};
use crate::submission::{Defaults, Submission};
use crate::{feed, listing, metrics};
use axum::extract::{Extension, FromRequestParts, Path, State};
use axum::http::header::{ACCEPT, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION, RETRY_AFTER};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{Html, IntoResponse};
use axum::routing::{get, post};
use axum::{Json, Router};
use bytes::Bytes;
use flux_protocol::client::job_info::{self, EVENTS};
use flux_protocol::client::{job_ingest, job_list, job_manager};
use flux_protocol::job_id::{self, f58_plain};
use nix::errno::Errno;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

const JSON: &str = "application/json";
pub(crate) const TEXT: &str = "text/plain; charset=utf-8";
/// Bytes of output that one answer has at most.
pub(crate) const MOST_OUTPUT: usize = 8 << 20;
/// The header of an answer that has not the whole output.
pub(crate) const TRUNCATED: [(&str, &str); 1] = [("output-truncated", "true")];
/// Ids go to Flux as signed numbers; it makes none that is larger (RFC 19).
const LARGEST_ID: u64 = i64::MAX.cast_unsigned();

/// Every path but those of [`crate::v1`]. `openapi.json` describes them.
pub(crate) fn routes() -> Router<Arc<Context>> {
    Router::new()
        .route("/", get(page))
        .route("/health", get(async || Json(json!({ "status": "ok" }))))
        .route("/metrics", get(metrics))
        .route("/api/v1", get(about))
        .route("/api/v1/", get(about))
        .route("/api/v1/health", get(async || Json(json!({ "status": "ok" }))))
        .route(EXCHANGE, post(exchange))
        .route("/api/v1/openapi.json", get(([(CONTENT_TYPE, JSON)], DOCUMENT)))
        .route("/api/v1/jobs", get(jobs).post(submit))
        .route("/api/v1/jobs/{id}", get(job).delete(cancel))
        .route("/api/v1/jobs/{id}/output", get(output))
        .route("/api/v1/jobs/{id}/events", get(job_events))
        .route("/api/v1/resources", get(ranks))
        .route("/api/v1/instance", get(instance))
        .route("/api/v1/events", get(async |State(context): Shared| events(feed::listen(&context))))
        .fallback(async || {
            Refusal::not_found("there is nothing here: /api/v1/openapi.json has all paths")
        })
}

/// The id of a job in the path, in any of Flux's forms.
pub(crate) struct JobId(pub(crate) u64);

impl<Served: Send + Sync> FromRequestParts<Served> for JobId {
    type Rejection = Refusal;

    async fn from_request_parts(head: &mut Parts, served: &Served) -> Result<Self, Refusal> {
        let text = Path::<String>::from_request_parts(head, served).await;
        let text = text.map_or_else(|_| String::new(), |Path(text)| text);
        let id = job_id::parse(&text).filter(|id| *id <= LARGEST_ID);
        id.map(Self).ok_or_else(|| Refusal::not_found(format!("{text:?} is no id of a job")))
    }
}

async fn page() -> impl IntoResponse {
    // No other site shows the page as its own.
    ([(CONTENT_SECURITY_POLICY, "frame-ancestors 'none'")], Html(include_str!("page.html")))
}

/// The body of a request for a token.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Exchange {
    code: String,
}

async fn exchange(State(context): Shared, headers: HeaderMap, body: Bytes) -> Answer {
    require_json(&headers)?;
    let read = serde_json::from_slice(&body);
    let Exchange { code } = read.map_err(|why| Refusal::bad(format!("the body: {why}")))?;
    let used = || {
        let detail = "the code is wrong, or was used: start the server again for another address";
        Refusal::new(StatusCode::FORBIDDEN, detail)
    };
    let token = context.token_of(&code).ok_or_else(used)?;
    Ok(Json(json!({ "token": token })).into_response())
}

/// Refuses a body that is not said to be JSON. No page of another site can send that without asking first.
pub(crate) fn require_json(headers: &HeaderMap) -> Result<(), Refusal> {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    let detail = "send JSON, with the header Content-Type: application/json";
    let other = || Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail);
    kind.eq_ignore_ascii_case(JSON).then_some(()).ok_or_else(other)
}

async fn metrics(State(context): Shared) -> Answer {
    let mut socket = context.connect().await?;
    let jobs = job_list::count(&mut socket).await?;
    let ranks = resources(&mut socket).await?;
    Ok(([(CONTENT_TYPE, metrics::KIND)], metrics::text(&jobs, &ranks)).into_response())
}

async fn about(State(context): Shared, Extension(access): Extension<Access>) -> Document {
    let mut socket = context.connect().await?;
    let mut value = async |name| lead_attribute(&mut socket, name).await;
    let [version, rank, size] =
        [value("version").await?, value("rank").await?, value("size").await?];
    Ok(Json(json!({
        "name": context.cluster, "user": context.user(context.defaults.uid), "broker_version": version,
        "rank": number::<u32>(&rank), "size": number::<u32>(&size), "access": access,
    })))
}

async fn submit(State(context): Shared, headers: HeaderMap, body: Bytes) -> Answer {
    require_json(&headers)?;
    let submission = Submission::read(&body).map_err(|wrong| Refusal::bad(wrong.join("; ")))?;
    let jobspec = submission.jobspec(&context.defaults);
    let id = f58_plain(ingest(&context, &jobspec, submission.urgency).await?);
    let location = [(LOCATION, format!("/api/v1/jobs/{id}"))];
    Ok((StatusCode::CREATED, location, Json(json!({ "id": id }))).into_response())
}

/// Submits the job as Flux's user, and returns its id.
pub(crate) async fn ingest(
    context: &Context,
    jobspec: &Value,
    urgency: u64,
) -> Result<u64, Refusal> {
    let Defaults { uid, validated, .. } = context.defaults;
    let mut socket = context.connect().await?;
    Ok(job_ingest::submit(&mut socket, jobspec, uid, urgency, validated).await?)
}

async fn jobs(State(context): Shared, Extension(query): Asked) -> Document {
    let filter = query::filter(&query, |name| context.uid_of(name))?;
    let (jobs, next) = listing::page(&mut context.connect().await?, &filter).await?;
    let jobs: Vec<_> = jobs.iter().map(|job| context.job(job)).collect();
    let cursor = next.map(listing::Cursor::text);
    Ok(Json(json!({ "jobs": jobs, "cursor": cursor })))
}

async fn job(JobId(id): JobId, State(context): Shared) -> Answer {
    let found = job_list::find(&mut context.connect().await?, id, None).await?;
    let retry = (!found.is_inactive()).then_some([(RETRY_AFTER, RETRY)]);
    Ok((retry, Json(context.job(&found))).into_response())
}

async fn cancel(JobId(id): JobId, State(context): Shared, Extension(query): Asked) -> Answer {
    let reason = query.get("reason").map(String::as_str);
    let mut socket = context.connect().await?;
    match job_manager::cancel(&mut socket, id, reason).await {
        // It has ended, or there was none.
        Err(error) if error.is(Errno::ENOENT) => {
            job_list::find(&mut socket, id, None).await?;
            Err(Refusal::new(StatusCode::CONFLICT, "the job has ended already"))
        }
        Err(error) => Err(error.into()),
        Ok(()) => {
            let document = json!({ "id": f58_plain(id), "status": "cancel requested" });
            Ok((StatusCode::ACCEPTED, Json(document)).into_response())
        }
    }
}

async fn output(
    JobId(id): JobId,
    State(context): Shared,
    Extension(query): Asked,
    headers: HeaderMap,
    uri: Uri,
) -> Answer {
    let stream = query::stream(&query)?;
    if wants_events(&headers) {
        return follow(context, id, Log::Output(stream), &uri).await;
    }
    let mut socket = context.connect().await?;
    let (bytes, is_cut) = job_info::output(&mut socket, id, stream.as_deref(), MOST_OUTPUT).await?;
    Ok((is_cut.then_some(TRUNCATED), [(CONTENT_TYPE, TEXT)], bytes).into_response())
}

async fn job_events(
    JobId(id): JobId,
    State(context): Shared,
    headers: HeaderMap,
    uri: Uri,
) -> Answer {
    if wants_events(&headers) {
        return follow(context, id, Log::Events, &uri).await;
    }
    let log = job_info::eventlog(&mut context.connect().await?, id, EVENTS).await?;
    let events: Vec<_> = log.lines().filter_map(job_stream::of_log).collect();
    Ok(Json(json!({ "events": events })).into_response())
}

async fn follow(context: Arc<Context>, id: u64, log: Log, uri: &Uri) -> Answer {
    let followed = job_stream::follow(context, id, log, uri.path().to_owned()).await?;
    Ok(events(followed))
}

/// Whether the client accepts a stream of events.
fn wants_events(headers: &HeaderMap) -> bool {
    let accepted = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut kinds = accepted.split([',', ';']);
    kinds.any(|kind| kind.trim().eq_ignore_ascii_case("text/event-stream"))
}

async fn ranks(State(context): Shared) -> Document {
    Ok(Json(context.resources().await?))
}

async fn instance(State(context): Shared) -> Document {
    Ok(Json(context.instance().await?))
}
