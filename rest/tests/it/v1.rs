//! The API of flux-restful over HTTP.

use crate::serve::{JSON, Server};
use crate::server::{READER, TOKEN, bearer};
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
    let first = server.ask("GET /v1/jobs", "", "");
    assert!(first.status == 401 && first.head.contains("www-authenticate: bearer"), "{first:?}");
    let head = bearer(&session(&server, TOKEN));
    assert!(!head.contains(TOKEN), "{head}");
    for (server, path, status) in
        [(&server, "/v1/jobs", 200), (&server, "/api/v1/jobs", 200), (&other, "/v1/jobs", 401)]
    {
        assert_eq!(server.ask(&format!("GET {path}"), &head, "").status, status, "{path}");
    }
}

#[test]
fn a_session_of_the_token_that_reads_changes_nothing() {
    let server = Server::start();
    let session = session(&server, READER);
    let is_answered = |request: &str, status| {
        assert_eq!(server.ask(request, &bearer(&session), "").status, status, "{request}");
    };
    for request in ["GET /v1/jobs", "GET /v1/nodes"] {
        is_answered(request, 200);
    }
    for request in ["jobs/submit?command=a", "jobs/1/cancel", "service/stop"] {
        is_answered(&format!("POST /v1/{request}"), 403);
    }
    // A session ends with its token, and with it its streams.
    let mut stream = server.listen(&session);
    stream.read_exact(&mut [0; 12]).unwrap();
    server.place.accept(TOKEN, "another");
    stream.read_to_end(&mut Vec::new()).unwrap();
    is_answered("GET /v1/nodes", 401);
}

/// 401 would make a client begin again.
#[test]
fn another_token_gets_no_session() {
    let server = Server::start();
    for (head, detail) in [
        ("", "the header Authorization is missing"),
        ("Authorization: Basic Zmx1eHVzZXI6MDEyMw==\r\n", "has no JWT"),
        (&*bearer(&session(&server, TOKEN)), "has no JWT"),
        (&*handing_over("0123456789abcdeF", "HS256"), "the token is another one"),
        (&*handing_over("0123456789abcdeF", "none"), "the token is another one"),
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
    for (path, jobs, expected) in [
        ("", "/jobs", json!([4, 3, 1, 2])),
        ("?details=true&listing=true", "", json!([4, 3, 1, 2])),
        ("/search?search%5Bvalue%5D=INACTIVE", "/data", json!([2])),
        ("/search?start=1&length=2", "/data", json!([3, 1])),
    ] {
        let found = server.get(&format!("/v1/jobs{path}")).json();
        let jobs = found.pointer(jobs).and_then(Value::as_array).unwrap();
        assert_eq!(jobs.iter().map(|job| job["id"].clone()).collect::<Value>(), expected, "{path}");
    }
    for (path, pointers, expected) in [
        ("", ["/jobs/3/state", "/jobs/3/result"], json!([64, 1])),
        ("?details=true&limit=1", ["/4/state", "/3"], json!(["SCHED", null])),
        (
            "/search?search%5Bvalue%5D=INACTIVE",
            ["/recordsTotal", "/recordsFiltered"],
            json!([4, 1]),
        ),
        ("/search?draw=7", ["/draw", "/recordsTotal"], json!([7, 4])),
        ("/2", ["/result", "/returncode"], json!(["COMPLETED", 0])),
    ] {
        assert_eq!(server.get(&format!("/v1/jobs{path}")).at(pointers), expected, "{path}");
    }
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
    server.refuses(&[
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
        ("PATCH /v1/jobs?limit=1", "", 405),
        ("DELETE /v1/jobs/2", "", 405),
        ("GET /v1/login/access-token", "", 404),
    ]);
    assert_eq!(server.call("POST /v1/jobs/submit?command=a", "", "{}").status, 415);
    let refused = server.call("POST /v1/jobs/submit?command=a&exclusive=true", "", "").json();
    assert_eq!(refused["Message"], "Invalid submit request");
    assert!(refused["Errors"][0].as_str().unwrap().starts_with("exclusive: "), "{refused}");
    assert!(!server.was_asked("job-ingest") && !server.was_asked("shutdown"));
}
