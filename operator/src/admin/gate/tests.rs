use super::*;
use flux_testkit::access::Access;
use flux_testkit::faults::Failure;
use flux_testkit::reviews::Holder;
use flux_testkit::server::Server;
use futures::future::join_all;
use k8s_openapi::api::rbac::v1::ClusterRole;
use serde_json::Value;

const TOKEN_REVIEW: &str = "POST /apis/authentication.k8s.io/v1/tokenreviews";
const ACCESS_REVIEW: &str = "POST /apis/authorization.k8s.io/v1/subjectaccessreviews";

/// A server that lets the operator ask what its manifest allows, and that knows two tokens: `reader` is of one who may
/// get the metrics, `other` of one who may not.
pub(crate) fn server() -> Server {
    let manifest = include_str!("../../../../deploy/operator.yaml");
    let objects: Vec<Value> = serde_saphyr::from_multiple(manifest).unwrap();
    let is_own = |it: &Value| it["metadata"]["name"] == "flux-minicluster-metrics-auth";
    let role = objects.into_iter().find(|it| it["kind"] == "ClusterRole" && is_own(it)).unwrap();
    let role: ClusterRole = serde_json::from_value(role).unwrap();
    let server = Server::new(Access { rules: role.rules.unwrap(), paged: &[] });
    let holder = |name: &str, path: Option<&str>| Holder {
        token: name.to_owned(),
        user: format!("system:serviceaccount:monitoring:{name}"),
        path: path.map(str::to_owned),
    };
    let tokens = vec![holder("reader", Some(METRICS_PATH)), holder("other", Some("/healthz"))];
    server.with(|memory| memory.tokens = tokens);
    server
}

async fn verdict(gate: &Arc<Gate>, token: &str) -> Result<Verdict, ReviewError> {
    gate.verdict(token.to_owned()).await
}

#[tokio::test(start_paused = true)]
async fn kubernetes_decides_and_is_not_asked_again_for_a_minute() {
    let server = server();
    let gate = Arc::new(Gate::new(server.client()));
    let asked = || [TOKEN_REVIEW, ACCESS_REVIEW].map(|request| server.requests(request));
    for _ in 0..3 {
        assert_eq!(verdict(&gate, "reader").await.unwrap(), Verdict::Allowed);
        assert_eq!(verdict(&gate, "other").await.unwrap(), Verdict::Forbidden);
        assert_eq!(verdict(&gate, "none").await.unwrap(), Verdict::Unauthenticated);
    }
    assert_eq!(asked(), [3, 2]);
    sleep(Duration::from_secs(11)).await;
    assert_eq!(verdict(&gate, "reader").await.unwrap(), Verdict::Allowed);
    assert_eq!(verdict(&gate, "other").await.unwrap(), Verdict::Forbidden);
    assert_eq!(asked(), [4, 3]);
    sleep(Duration::from_mins(1)).await;
    server.with(|memory| memory.tokens.clear());
    assert_eq!(verdict(&gate, "reader").await.unwrap(), Verdict::Unauthenticated);
}

#[tokio::test(start_paused = true)]
async fn unknown_tokens_do_not_flood_the_api_server() {
    let server = server();
    let gate = Arc::new(Gate::new(server.client()));
    assert_eq!(verdict(&gate, "reader").await.unwrap(), Verdict::Allowed);
    let tokens: Vec<_> = (0..2000).map(|number| number.to_string()).collect();
    let begin = Instant::now();
    let all = join_all(tokens.iter().map(|token| verdict(&gate, token))).await;
    assert!(begin.elapsed() <= REVIEW_TIMEOUT + PAUSE_AFTER_REFUSAL, "{:?}", begin.elapsed());
    let (refused, late): (Vec<_>, Vec<_>) = all.into_iter().partition(Result::is_ok);
    // Those that take their turn at once, and each turn after a pause.
    let turns = REVIEW_TIMEOUT.as_millis() / PAUSE_AFTER_REFUSAL.as_millis() + 1;
    let asked = server.requests(TOKEN_REVIEW) - 1;
    let most = MOST_REVIEWS * usize::try_from(turns).unwrap();
    assert!(asked <= most, "{asked} TokenReviews");
    assert!(refused.len() > 100 && refused.len() <= asked && late.len() > 1000, "{asked}");
    assert!(late.iter().all(|it| matches!(it, Err(ReviewError::Late))));
    assert_eq!(verdict(&gate, "reader").await.unwrap(), Verdict::Allowed, "it is remembered");
    sleep(REFUSED_LIFETIME).await;
    assert_eq!(verdict(&gate, "other").await.unwrap(), Verdict::Forbidden);
    assert_eq!(gate.verdicts.lock().len(), 2, "the others are forgotten");
}

#[tokio::test(start_paused = true)]
async fn one_token_of_many_connections_is_asked_about_once() {
    let server = server();
    let gate = Arc::new(Gate::new(server.client()));
    join_all((0..50).map(|_| verdict(&gate, "other"))).await;
    assert!(server.requests(TOKEN_REVIEW) <= MOST_REVIEWS);
}

#[tokio::test(start_paused = true)]
async fn without_an_answer_there_is_no_verdict() {
    let server = server();
    let gate = Arc::new(Gate::new(server.client()));
    for (failure, expected) in [
        (Failure::Refused(500), "create a TokenReview: "),
        (Failure::Refused(403), "bind the ClusterRole system:auth-delegator to"),
        (Failure::Swallowed, "no answer of the API server within 8s"),
    ] {
        server.set_outage(Some(failure));
        let error = verdict(&gate, "reader").await.unwrap_err();
        gate.warn(error);
        let message = message(verdict(&gate, "reader").await.unwrap_err());
        assert!(message.contains(expected), "{message}");
    }
    let warned = *gate.warned.lock();
    assert!(warned.is_some_and(|at| at.elapsed() >= REVIEW_TIMEOUT), "only the first is logged");
    server.set_outage(None);
    assert_eq!(verdict(&gate, "reader").await.unwrap(), Verdict::Allowed);
}
