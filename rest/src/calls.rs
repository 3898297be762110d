//! What each call asks of Flux.

use crate::serve::answer::{
    Answer, EVENT_STREAM, HTML, JSON, RETRY, Refusal, TEXT, events, json as answer_json, whole,
};
use crate::serve::call::Target;
use crate::serve::instance::{lead_attribute, resources};
use crate::serve::job_stream::{self, Log};
use crate::serve::query::{self, Query};
use crate::serve::server::Served;
use crate::serve::submission::Submission;
use crate::serve::{listing, metrics};
use bytes::Bytes;
use flux_protocol::client::{job_ingest, job_list, job_manager};
use flux_protocol::job_id::f58_plain;
use hyper::header::{
    ACCEPT, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, RETRY_AFTER,
};
use hyper::{HeaderMap, StatusCode};
use nix::errno::Errno;
use serde_json::{Value, json};
use std::sync::Arc;

const PAGE: &str = include_str!("page.html");
const DOCUMENT: &str = include_str!("openapi.json");
/// There was more output than the answer has.
const TRUNCATED: HeaderName = HeaderName::from_static("output-truncated");

/// What is asked, by somebody who may.
pub(super) struct Question<'request> {
    pub(super) target: Target,
    pub(super) method: &'request str,
    pub(super) path: &'request str,
    pub(super) query: Query,
    pub(super) headers: &'request HeaderMap,
    pub(super) body: Bytes,
}

pub(super) async fn respond(served: &Served, question: Question<'_>) -> Result<Answer, Refusal> {
    let Served { context, feed } = served;
    let Question { target, method, query, headers, .. } = &question;
    match (target, *method) {
        (Target::Page, _) => Ok(page()),
        (Target::Health, _) => Ok(ok(&json!({ "status": "ok" }))),
        (Target::Document, _) => Ok(whole(JSON, DOCUMENT)),
        (Target::About, _) => about(served).await,
        (Target::Jobs, "POST") => submit(served, headers, &question.body).await,
        (Target::Jobs, _) => jobs(served, query).await,
        (Target::Job(id), "DELETE") => cancel(served, *id, query.get("reason")).await,
        (Target::Job(id), _) => job(served, *id).await,
        (Target::Output(id), _) => {
            let stream = query::stream(query)?;
            if !is_wanted(headers, EVENT_STREAM) {
                return output(served, *id, stream.as_deref()).await;
            }
            follow(served, *id, Log::Output(stream), question.path).await
        }
        (Target::JobEvents(id), _) if is_wanted(headers, EVENT_STREAM) => {
            follow(served, *id, Log::Events, question.path).await
        }
        (Target::JobEvents(id), _) => Ok(ok(&job_stream::events(context, *id).await?)),
        (Target::Resources, _) => Ok(ok(&context.resources().await?)),
        (Target::Instance, _) => Ok(ok(&context.instance().await?)),
        (Target::Events, _) => Ok(events(feed.listen(context))),
        (Target::Metrics, _) => {
            let mut socket = context.connect().await?;
            let jobs = job_list::count(&mut socket).await?;
            let ranks = resources(&mut socket).await?;
            Ok(whole(metrics::KIND, metrics::text(&jobs, &ranks)))
        }
    }
}

fn ok(value: &Value) -> Answer {
    answer_json(StatusCode::OK, value)
}

fn page() -> Answer {
    let mut answer = whole(HTML, PAGE);
    // No other site shows the page as its own.
    let policy = HeaderValue::from_static("frame-ancestors 'none'");
    answer.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
    answer
}

/// Whether the client names `kind` among what it takes.
fn is_wanted(headers: &HeaderMap, kind: &str) -> bool {
    let accepted = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accepted.split([',', ';']).any(|part| part.trim().eq_ignore_ascii_case(kind))
}

async fn about(served: &Served) -> Result<Answer, Refusal> {
    let context = &served.context;
    let mut socket = context.connect().await?;
    let mut value = async |name| lead_attribute(&mut socket, name).await;
    let (version, rank, size) =
        (value("version").await?, value("rank").await?, value("size").await?);
    let number = |text: String| text.parse::<u32>().unwrap_or_default();
    Ok(ok(&json!({
        "name": context.cluster, "user": context.name_of(context.defaults.uid), "broker_version": version,
        "rank": number(rank), "size": number(size),
    })))
}

async fn submit(served: &Served, headers: &HeaderMap, body: &[u8]) -> Result<Answer, Refusal> {
    let context = &served.context;
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case(JSON) {
        let detail = "send JSON, with the header Content-Type: application/json";
        return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
    }
    let submission = Submission::read(body).map_err(Refusal::bad)?;
    let (defaults, urgency) = (&context.defaults, submission.urgency);
    let (jobspec, validated) = (submission.jobspec(defaults), defaults.validated);
    let mut socket = context.connect().await?;
    let id = job_ingest::submit(&mut socket, &jobspec, defaults.uid, urgency, validated).await?;
    let id = f58_plain(id);
    let mut answer = answer_json(StatusCode::CREATED, &json!({ "id": id }));
    if let Ok(location) = HeaderValue::from_str(&format!("/api/v1/jobs/{id}")) {
        answer.headers_mut().insert(LOCATION, location);
    }
    Ok(answer)
}

async fn jobs(served: &Served, query: &Query) -> Result<Answer, Refusal> {
    let context = &served.context;
    let uid_of = |name: &str| context.accounts.find_user(name).map(|user| user.uid);
    let filter = query::filter(query, uid_of)?;
    let (jobs, next) = listing::page(&mut context.connect().await?, &filter).await?;
    let jobs: Vec<_> = jobs.into_iter().map(|job| context.job(job)).collect();
    let cursor = next.map(listing::Cursor::text);
    Ok(ok(&json!({ "jobs": jobs, "cursor": cursor })))
}

async fn job(served: &Served, id: u64) -> Result<Answer, Refusal> {
    let context = &served.context;
    let found = job_list::find(&mut context.connect().await?, id, None).await?;
    let is_inactive = found.is_inactive();
    let mut answer = answer_json(StatusCode::OK, &context.job(found));
    if !is_inactive {
        answer.headers_mut().insert(RETRY_AFTER, RETRY);
    }
    Ok(answer)
}

async fn cancel(served: &Served, id: u64, reason: Option<&String>) -> Result<Answer, Refusal> {
    let mut socket = served.context.connect().await?;
    match job_manager::cancel(&mut socket, id, reason.map(String::as_str)).await {
        // It has ended, or there was none.
        Err(error) if error.is(Errno::ENOENT) => {
            job_list::find(&mut socket, id, None).await?;
            Err(Refusal::new(StatusCode::CONFLICT, "the job has ended already"))
        }
        Err(error) => Err(error.into()),
        Ok(()) => {
            let document = json!({ "id": f58_plain(id), "status": "cancel requested" });
            Ok(answer_json(StatusCode::ACCEPTED, &document))
        }
    }
}

async fn output(served: &Served, id: u64, stream: Option<&str>) -> Result<Answer, Refusal> {
    let (bytes, is_cut) = job_stream::output(&served.context, id, stream).await?;
    let mut answer = whole(TEXT, bytes);
    if is_cut {
        answer.headers_mut().insert(TRUNCATED, HeaderValue::from_static("true"));
    }
    Ok(answer)
}

async fn follow(served: &Served, id: u64, log: Log, path: &str) -> Result<Answer, Refusal> {
    let context = Arc::clone(&served.context);
    let followed = job_stream::follow(context, id, log, path.to_owned()).await?;
    Ok(events(followed))
}
