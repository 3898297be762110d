//! The calls of `/v1`: what each path and method does.

use crate::access::Access;
use crate::answer::{Answer, Document, Refusal};
use crate::calls::{JobId, MOST_OUTPUT, TEXT, TRUNCATED, ingest, require_json};
use crate::context::{Context, Shared, now};
use crate::instance::resources;
use crate::job_stream;
use crate::listing::{self, ALL_STATES, Cursor, Filter};
use crate::query::{self, Asked, MOST_JOBS, Query};
use crate::v1::submit::{Submitted, switch};
use crate::v1::{TOKEN, session, shape};
use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::response::IntoResponse as _;
use axum::routing::{get, post};
use axum::{Json, Router};
use bytes::Bytes;
use flux_contract::token;
use flux_protocol::client::{job_info, job_list, job_manager};
use futures::StreamExt as _;
use nix::errno::Errno;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::SystemTime;

/// What the clients of flux-restful know for a job that has printed nothing.
const NO_OUTPUT: &str = "The output does not exist yet, or the jobid is incorrect.";

pub(crate) fn routes() -> Router<Arc<Context>> {
    Router::new()
        .route(TOKEN, post(begin_session))
        .route("/v1/service/stop", post(stop))
        .route("/v1/nodes", get(nodes))
        .route("/v1/jobs", get(jobs))
        .route("/v1/jobs/search", get(search))
        .route("/v1/jobs/submit", post(submit))
        .route("/v1/jobs/{id}", get(job))
        .route("/v1/jobs/{id}/cancel", post(cancel))
        .route("/v1/jobs/{id}/output", get(output))
        .route("/v1/jobs/{id}/output/stream", get(follow))
}

/// Never answers with 401, with which a client would begin again.
async fn begin_session(State(context): Shared, headers: HeaderMap) -> Document {
    let header = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = session::handed_over(header).map_err(Refusal::bad)?;
    let fingerprint = token::fingerprint(&token);
    if Access::of(&context.tokens.borrow(), &fingerprint) == Access::None {
        return Err(Refusal::bad("the token is another one"));
    }
    let session = context.sessions.begin(&fingerprint, SystemTime::now());
    Ok(Json(json!({ "access_token": session, "token_type": "Bearer" })))
}

async fn stop(State(context): Shared) -> Document {
    context.connect().await?.shut_down().await?;
    Ok(Json(json!({ "Message": "The instance shuts down." })))
}

async fn nodes(State(context): Shared) -> Document {
    let ranks = resources(&mut context.connect().await?).await?;
    let usable = ranks.into_iter().filter(|rank| rank.of.up && rank.of.drained.is_none());
    let nodes: BTreeSet<_> = usable.filter_map(|rank| rank.hostname).collect();
    Ok(Json(json!({ "nodes": nodes })))
}

/// The newest jobs, in one of their shapes.
async fn newest(
    context: &Context,
    limit: usize,
    shape: impl Fn(&job_list::Job) -> Value,
) -> Result<Vec<Value>, Refusal> {
    let (states, cursor) = (ALL_STATES, Cursor::START);
    let filter = Filter { states, name: None, user: None, limit, cursor };
    let (jobs, _) = listing::page(&mut context.connect().await?, &filter).await?;
    Ok(jobs.iter().map(shape).collect())
}

/// A number of a query.
fn number(query: &Query, name: &str, least: usize) -> Result<Option<usize>, Refusal> {
    query::number(query, name, least..=u32::MAX as usize).map_err(Refusal::bad)
}

async fn jobs(State(context): Shared, Extension(query): Asked) -> Document {
    let is_on = |name| {
        let value = query.get(name).map(|text| text.as_str().into());
        switch(name, value).map_err(Refusal::bad)
    };
    // The clients send `detail`, which flux-restful does not look at.
    let (has_details, is_list, _) = (is_on("details")?, is_on("listing")?, is_on("detail")?);
    let limit = number(&query, "limit", 1)?.unwrap_or(MOST_JOBS).min(MOST_JOBS);
    if !has_details {
        return Ok(Json(json!({ "jobs": newest(&context, limit, shape::listed).await? })));
    }
    let now = now();
    let jobs = newest(&context, limit, |job| shape::detailed(job, now)).await?;
    if is_list {
        return Ok(Json(json!(jobs)));
    }
    Ok(Json(jobs.into_iter().map(|job| (job["id"].to_string(), job)).collect()))
}

async fn search(State(context): Shared, Extension(query): Asked) -> Document {
    let (start, draw) = (number(&query, "start", 0)?, number(&query, "draw", 0)?);
    // 0 stands for all.
    let length = number(&query, "length", 0)?.filter(|length| *length > 0);
    let text = ["query", "search", "search[value]"].into_iter().find_map(|name| query.get(name));
    let text = text.map(String::as_str).unwrap_or_default();
    let now = now();
    let jobs = newest(&context, MOST_JOBS, |job| shape::detailed(job, now)).await?;
    let total = jobs.len();
    let found = shape::found(jobs, text, start.unwrap_or(0), length.unwrap_or(total));
    Ok(Json(json!({
        "recordsTotal": total, "recordsFiltered": found.len(), "draw": draw.unwrap_or(1), "data": found,
    })))
}

async fn submit(
    State(context): Shared,
    Extension(query): Asked,
    headers: HeaderMap,
    body: Bytes,
) -> Document {
    if !body.is_empty() {
        require_json(&headers)?;
    }
    let submitted = Submitted::read(&query, &body).map_err(|wrong| {
        let refusal = Refusal::bad(wrong.join("; "));
        refusal.with("Message", "Invalid submit request").with("Errors", wrong)
    })?;
    let jobspec = submitted.jobspec(&context.defaults);
    let refused = |refusal: Refusal| {
        let detail = refusal.detail.clone();
        refusal.with("Message", "There was an issue submitting that job.").with("Error", detail)
    };
    let id = ingest(&context, &jobspec, submitted.submission.urgency).await.map_err(refused)?;
    Ok(Json(json!({ "Message": "Job submit.", "id": id })))
}

async fn job(JobId(id): JobId, State(context): Shared) -> Document {
    let found = job_list::find(&mut context.connect().await?, id, None).await?;
    Ok(Json(shape::detailed(&found, now())))
}

async fn cancel(JobId(id): JobId, Path(given): Path<String>, State(context): Shared) -> Document {
    match job_manager::cancel(&mut context.connect().await?, id, None).await {
        Err(error) if error.is(Errno::ENOENT) => {
            let why = "Job cannot be cancelled: it has ended, or there is none.";
            Err(Refusal::bad(why).with("Message", why).with("id", given))
        }
        Err(error) => Err(error.into()),
        Ok(()) => Ok(Json(json!({ "Message": "Job is requested to cancel.", "id": given }))),
    }
}

async fn output(JobId(id): JobId, State(context): Shared) -> Answer {
    let mut socket = context.connect().await?;
    let (bytes, is_cut) = job_info::output(&mut socket, id, None, MOST_OUTPUT).await?;
    if bytes.is_empty() {
        return Ok(Json(json!({ "Message": NO_OUTPUT })).into_response());
    }
    let lines = Json(json!({ "Output": shape::lines(&bytes) }));
    Ok((is_cut.then_some(TRUNCATED), lines).into_response())
}

async fn follow(JobId(id): JobId, State(context): Shared) -> Answer {
    let text = job_stream::text(&context, id).await?.map(Ok::<_, Infallible>);
    Ok(([(CONTENT_TYPE, TEXT)], Body::from_stream(text)).into_response())
}
