//! The API of flux-restful over HTTP.

use crate::serve::{JSON, Server};
use crate::server::{READER, TOKEN};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use serde_json::{Value, json};
use std::io::Read as _;

/// The header that hands `pass` over, as the clients of flux-restful make it; the signature is that of another key.
fn handing_over(pass: &str, algorithm: &str) -> String {
    let part = |value: Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let head = part(json!({ "alg": algorithm, "typ": "JWT" }));
    let payload = part(json!({ "user": "fluxuser", "pass": pass, "scope": "token" }));
    format!("Authorization: Bearer {head}.{payload}.c2lnbmF0dXJl\r\n")
}

/// What the server issues to a client with this token.
fn session(server: &Server, token: &str) -> String {
    let answer = server.ask("POST /v1/token", &handing_over(token, "HS256"), "");
    assert_eq!((answer.status, &answer.json()["token_type"]), (200, &json!("Bearer")));
    answer.json()["access_token"].as_str().unwrap().to_owned()
}

#[test]
fn a_session_opens_both_apis_and_no_other_server() {
    let (server, other) = (Server::start(), Server::start());
    let head = |session: &str| format!("Authorization: Bearer {session}\r\n");
    let first = server.ask("GET /v1/jobs", "", "");
    assert!(first.status == 401 && first.head.contains("www-authenticate: bearer"), "{first:?}");
    let session = session(&server, TOKEN);
    assert!(!session.contains(TOKEN), "{session}");
    for path in ["/v1/jobs", "/api/v1/jobs"] {
        assert_eq!(server.ask(&format!("GET {path}"), &head(&session), "").status, 200, "{path}");
    }
    let none = BASE64_URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#);
    let (claims, _) = session.rsplit_once('.').unwrap();
    for (server, forged) in [
        (&other, session.clone()),
        (&server, format!("9{session}")),
        (&server, format!("{claims}.")),
        (&server, format!("{none}.{}.", BASE64_URL_SAFE_NO_PAD.encode(claims))),
        (&server, format!("{none}.{claims}")),
    ] {
        assert_eq!(server.ask("GET /v1/jobs", &head(&forged), "").status, 401, "{forged}");
    }
}

#[test]
fn a_session_of_the_token_that_reads_changes_nothing() {
    let server = Server::start();
    let head = format!("Authorization: Bearer {}\r\n", session(&server, READER));
    for (request, status) in [
        ("GET /v1/jobs", 200),
        ("GET /v1/nodes", 200),
        ("POST /v1/jobs/submit?command=a", 403),
        ("POST /v1/jobs/1/cancel", 403),
        ("POST /v1/service/stop", 403),
    ] {
        assert_eq!(server.ask(request, &head, "").status, status, "{request}");
    }
    // A session ends with its token, and with it its streams.
    let request = format!("GET /api/v1/events HTTP/1.1\r\nHost: hello\r\n{head}\r\n");
    let mut stream = server.begin(&request);
    stream.read_exact(&mut [0; 12]).unwrap();
    server.place.accept(TOKEN, "another");
    stream.read_to_end(&mut Vec::new()).unwrap();
    assert_eq!(server.ask("GET /v1/nodes", &head, "").status, 401);
}

/// 401 would make a client begin again.
#[test]
fn another_token_gets_no_session() {
    let server = Server::start();
    let session = format!("Authorization: Bearer {}\r\n", session(&server, TOKEN));
    for (head, detail) in [
        ("", "the header Authorization is missing"),
        ("Authorization: Bearer x\r\n", "has no JWT"),
        ("Authorization: Basic Zmx1eHVzZXI6MDEyMw==\r\n", "has no JWT"),
        (&*session, "has no JWT"),
        (&*handing_over("0123456789abcdeF", "HS256"), "the token is another one"),
        (&*handing_over("0123456789abcdeF", "none"), "the token is another one"),
        (&*handing_over("", "HS256"), "the JWT has no pass"),
    ] {
        let answer = server.ask("POST /v1/token", head, "");
        let refusal = answer.json()["detail"].as_str().unwrap().to_owned();
        assert!(answer.status == 400 && refusal.contains(detail), "{head}: {answer:?}");
    }
    for request in ["POST /v1/jobs/submit?command=a", "POST /v1/service/stop", "GET /v1/nodes"] {
        assert_eq!(server.ask(request, &handing_over(TOKEN, "HS256"), "").status, 401, "{request}");
    }
    assert!(!server.was_asked("submit") && !server.was_asked("shutdown"));
}

#[test]
fn a_job_is_submitted_listed_found_and_cancelled() {
    let server = Server::start();
    let submitted = server.call("POST /v1/jobs/submit?command=true+x&num_tasks=2", "", "");
    assert_eq!(submitted.json(), json!({ "Message": "Job submit.", "id": 3 }));
    assert_eq!(server.instance.newest().1["tasks"][0]["command"], json!(["true", "x"]));
    let body = r#"{"command":"printenv B","envars":{"B":"2"}}"#;
    assert_eq!(server.call("POST /v1/jobs/submit", JSON, body).json()["id"], 4);
    let system = &server.instance.newest().1["attributes"]["system"];
    assert_eq!(system["environment"]["B"], "2");
    let list = server.get("/v1/jobs").json();
    let ids = |jobs: &Value| -> Vec<u64> {
        jobs.as_array().unwrap().iter().filter_map(|job| job["id"].as_u64()).collect()
    };
    assert_eq!(ids(&list["jobs"]), [4, 3, 1, 2]);
    assert_eq!((&list["jobs"][3]["state"], &list["jobs"][3]["result"]), (&json!(64), &json!(1)));
    let details = server.get("/v1/jobs?details=true&limit=1").json();
    assert_eq!(details["4"]["state"], "SCHED");
    let details = server.get("/v1/jobs?details=true&listing=true").json();
    assert_eq!(ids(&details), [4, 3, 1, 2]);
    let found = server.get("/v1/jobs/search?search%5Bvalue%5D=INACTIVE&draw=7").json();
    let counts = ["recordsTotal", "recordsFiltered", "draw"].map(|name| &found[name]);
    assert_eq!((counts, ids(&found["data"])), ([&json!(4), &json!(1), &json!(7)], vec![2]));
    let found = server.get("/v1/jobs/search?start=1&length=2").json();
    assert_eq!(ids(&found["data"]), [3, 1]);
    let job = server.get("/v1/jobs/2").json();
    assert_eq!((&job["result"], &job["returncode"]), (&json!("COMPLETED"), &json!(0)));
    let cancelled = server.call("POST /v1/jobs/3/cancel", "", "");
    let message = "Job is requested to cancel.";
    assert_eq!(cancelled.json(), json!({ "Message": message, "id": "3" }));
    let again = server.call("POST /v1/jobs/3/cancel", "", "");
    assert_eq!((again.status, &again.json()["id"]), (400, &json!("3")));
    assert!(again.json()["Message"].as_str().unwrap().contains("cannot be cancelled"));
}

#[test]
fn output_nodes_and_the_end_are_as_flux_restful_has_them() {
    let server = Server::start();
    assert_eq!(server.get("/v1/jobs/2/output").json(), json!({ "Output": ["one\n", "two\n"] }));
    let nothing = server.get("/v1/jobs/f2/output").json();
    assert!(nothing["Message"].as_str().unwrap().contains("does not exist yet"), "{nothing}");
    let stream = server.get("/v1/jobs/2/output/stream");
    assert!(stream.head.contains("content-type: text/plain"), "{}", stream.head);
    assert_eq!(stream.body, "one\ntwo\n");
    // One of the four is drained.
    let nodes = server.get("/v1/nodes").json();
    assert_eq!(nodes, json!({ "nodes": ["hello-1", "hello-2", "hello-3"] }));
    let stopped = server.call("POST /v1/service/stop", "", "");
    assert!(stopped.status == 200 && server.was_asked("shutdown.start"), "{stopped:?}");
}

#[test]
fn a_wrong_request_is_refused() {
    let server = Server::start();
    for (request, body, status) in [
        ("POST /v1/jobs/submit", "", 400),
        ("POST /v1/jobs/submit?command=a&num_tasks=0", "", 400),
        ("POST /v1/jobs/submit?command=a&user=root", "", 400),
        ("POST /v1/jobs/submit?command=a", "[]", 400),
        ("POST /v1/jobs/submit?command=a", &" ".repeat(10 << 20), 413),
        ("GET /v1/jobs?limit=0", "", 400),
        ("GET /v1/jobs?details=maybe", "", 400),
        ("GET /v1/jobs/search?start=-1", "", 400),
        ("GET /v1/jobs/12345", "", 404),
        ("GET /v1/jobs/x", "", 404),
        ("GET /v1/jobs/x/output", "", 404),
        ("GET /v1/jobs/12345/output/stream", "", 404),
        ("POST /v1/jobs/12345/cancel", "", 400),
        ("GET /v1/service/stop", "", 405),
        ("GET /v1/token", "", 405),
        ("DELETE /v1/jobs/2", "", 405),
        ("GET /v1/login/access-token", "", 404),
    ] {
        let answer = server.call(request, JSON, body);
        assert_eq!(answer.status, status, "{request}: {}", answer.body);
        assert!(answer.json()["detail"].is_string(), "{}", answer.body);
    }
    let kind = server.call("POST /v1/jobs/submit?command=a", "", "{}");
    assert_eq!(kind.status, 415);
    let refused = server.call("POST /v1/jobs/submit?command=a&exclusive=true", "", "").json();
    assert_eq!(refused["Message"], "Invalid submit request");
    assert!(refused["Errors"][0].as_str().unwrap().starts_with("exclusive: "), "{refused}");
    assert!(!server.was_asked("job-ingest") && !server.was_asked("shutdown"));
}
