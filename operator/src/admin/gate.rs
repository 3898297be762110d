//! Who may read the metrics: Kubernetes decides by `TokenReview` and `SubjectAccessReview`, as for the metrics of its
//! own components.

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use flux_server::Authorised;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout};

/// Path of the metrics, of which the API server is asked.
pub(crate) const METRICS_PATH: &str = "/metrics";
/// Tokens that the API server is asked about at the same time.
const MOST_REVIEWS: usize = 4;
/// Pause after a token that may not read the metrics, before another takes its turn: of such tokens the API server is
/// asked about 40 in a second, whoever sends more.
const PAUSE_AFTER_REFUSAL: Duration = Duration::from_millis(100);
/// Time for a decision: less than the 10 s that Prometheus waits for an answer.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(8);
/// How long a token that may read the metrics is remembered, and one that may not. So a scrape seldom asks the API server,
/// and the pauses limit how many are remembered.
const ALLOWED_LIFETIME: Duration = Duration::from_mins(1);
const REFUSED_LIFETIME: Duration = Duration::from_secs(10);
/// Time between two messages in the log about failed reviews.
const WARNING_INTERVAL: Duration = Duration::from_mins(1);

/// What the API server has decided about a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// Its user may read the metrics.
    Allowed,
    /// Its user may not.
    Forbidden,
    /// It is no token of this cluster, or has expired.
    Unauthenticated,
}

/// Why there is no verdict.
#[derive(Debug, Error)]
enum ReviewError {
    #[error("create a TokenReview")]
    Token(#[source] kube::Error),
    #[error("create a SubjectAccessReview")]
    Access(#[source] kube::Error),
    #[error("no answer of the API server within {REVIEW_TIMEOUT:?}, or too many unknown tokens")]
    Late,
}

/// The failure with its causes, and what to do.
fn message(error: ReviewError) -> String {
    let remedy = match &error {
        ReviewError::Token(kube::Error::Api(status))
        | ReviewError::Access(kube::Error::Api(status))
            if status.code == 403 =>
        {
            ": bind the ClusterRole system:auth-delegator to the operator's service account, \
             or run the operator with --metrics-secure=false"
        }
        ReviewError::Token(_) | ReviewError::Access(_) | ReviewError::Late => "",
    };
    format!("decide who may read the metrics: {:#}{remedy}", anyhow::Error::from(error))
}

/// Asks the API server about tokens, and remembers its answers.
pub(crate) struct Gate {
    client: Client,
    /// By a hash of the token, so that no token stays in memory, and until when.
    verdicts: Mutex<HashMap<[u8; 32], (Verdict, Instant)>>,
    turns: Arc<Semaphore>,
    warned: Mutex<Option<Instant>>,
}

impl Gate {
    pub(crate) fn new(client: Client) -> Self {
        let turns = Arc::new(Semaphore::new(MOST_REVIEWS));
        Self { client, verdicts: Mutex::default(), turns, warned: Mutex::default() }
    }

    fn remembered(&self, token: &str) -> Option<Verdict> {
        let (verdict, end) = *self.verdicts.lock().get(&hash(token))?;
        (end > Instant::now()).then_some(verdict)
    }

    fn remember(&self, token: &str, verdict: Verdict) {
        let is_allowed = verdict == Verdict::Allowed;
        let lifetime = if is_allowed { ALLOWED_LIFETIME } else { REFUSED_LIFETIME };
        let (mut verdicts, now) = (self.verdicts.lock(), Instant::now());
        verdicts.retain(|_, (_, end)| *end > now);
        verdicts.insert(hash(token), (verdict, now + lifetime));
    }

    async fn verdict(self: &Arc<Self>, token: String) -> Result<Verdict, ReviewError> {
        if let Some(verdict) = self.remembered(&token) {
            return Ok(verdict);
        }
        let review = async {
            // Nobody closes the semaphore.
            let turn = Arc::clone(&self.turns).acquire_owned().await;
            let turn = turn.map_err(|_| ReviewError::Late)?;
            if let Some(verdict) = self.remembered(&token) {
                return Ok(verdict);
            }
            // A client that goes away does not give its turn to the next.
            let asked = tokio::spawn(Arc::clone(self).review(token, turn)).await;
            asked.unwrap_or(Err(ReviewError::Late))
        };
        timeout(REVIEW_TIMEOUT, review).await.unwrap_or(Err(ReviewError::Late))
    }

    async fn review(
        self: Arc<Self>,
        token: String,
        turn: OwnedSemaphorePermit,
    ) -> Result<Verdict, ReviewError> {
        let asked = timeout(REVIEW_TIMEOUT, ask(&self.client, &token)).await;
        let asked = asked.unwrap_or(Err(ReviewError::Late));
        if let Ok(verdict) = asked {
            self.remember(&token, verdict);
        }
        if !matches!(asked, Ok(Verdict::Allowed)) {
            tokio::spawn(async move {
                sleep(PAUSE_AFTER_REFUSAL).await;
                drop(turn);
            });
        }
        asked
    }

    /// Logs the failure, unless another was logged a short time ago.
    fn warn(&self, error: ReviewError) {
        let (mut warned, now) = (self.warned.lock(), Instant::now());
        if warned.is_none_or(|before| now.duration_since(before) >= WARNING_INTERVAL) {
            *warned = Some(now);
            tracing::warn!("{}", message(error));
        }
    }
}

fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token).into()
}

async fn ask(client: &Client, token: &str) -> Result<Verdict, ReviewError> {
    let spec = TokenReviewSpec { token: token.to_owned(), audiences: None };
    let review = TokenReview { spec, ..TokenReview::default() };
    let reviews = Api::<TokenReview>::all(client.clone());
    let reviewed = reviews.create(&PostParams::default(), &review).await;
    let status = reviewed.map_err(ReviewError::Token)?.status.unwrap_or_default();
    let user = status.user.filter(|_| status.authenticated == Some(true));
    let Some(user) = user else { return Ok(Verdict::Unauthenticated) };
    let reviews = Api::<SubjectAccessReview>::all(client.clone());
    let reviewed = reviews.create(&PostParams::default(), &access_review(user)).await;
    let status = reviewed.map_err(ReviewError::Access)?.status;
    let is_allowed = status.is_some_and(|status| status.allowed);
    Ok(if is_allowed { Verdict::Allowed } else { Verdict::Forbidden })
}

/// Asks whether `user` may get the metrics.
fn access_review(user: UserInfo) -> SubjectAccessReview {
    let (path, verb) = (Some(METRICS_PATH.to_owned()), Some("get".to_owned()));
    let UserInfo { username: user, groups, uid, extra } = user;
    let non_resource_attributes = Some(NonResourceAttributes { path, verb });
    let spec = SubjectAccessReviewSpec {
        user,
        groups,
        uid,
        extra,
        non_resource_attributes,
        ..Default::default()
    };
    SubjectAccessReview { spec, ..SubjectAccessReview::default() }
}

/// The token in the header `Authorization`.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// Lets a request pass if Kubernetes allows its token to read the metrics.
pub(crate) async fn guard(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Response {
    let verdict = match bearer(request.headers()).map(str::to_owned) {
        Some(token) => gate.verdict(token).await,
        None => Ok(Verdict::Unauthenticated),
    };
    match verdict {
        Ok(Verdict::Allowed) => {
            if let Some(authorised) = request.extensions().get::<Authorised>() {
                authorised.set();
            }
            next.run(request).await
        }
        Ok(Verdict::Unauthenticated) => {
            let challenge = [(WWW_AUTHENTICATE, "Bearer")];
            let text = "give a valid token of Kubernetes: Authorization: Bearer TOKEN\n";
            (StatusCode::UNAUTHORIZED, challenge, text).into_response()
        }
        Ok(Verdict::Forbidden) => {
            let text = "the user of this token may not get /metrics: bind a ClusterRole with \
                 nonResourceURLs: [/metrics] to it\n";
            (StatusCode::FORBIDDEN, text).into_response()
        }
        Err(error) => {
            gate.warn(error);
            let text = "the API server could not be asked who may read the metrics: \
                 the operator's log has the reason\n";
            (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
