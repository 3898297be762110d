//! Who may do what, with either token, with none, and after both were replaced.

use crate::broker::broker_that;
use crate::serve::Server;
use crate::server::{self, Background, Place, READER, TOKEN, bearer, program};
use flux_contract::{ServedInstance, ServedTokens};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpStream;

const METHODS: [&str; 6] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];

/// The status of the answer to a request. The answer may have no end.
fn status(server: &Server, request: &str, head: &str) -> u16 {
    let stream = server.begin(&format!("{request} HTTP/1.0\r\nContent-Length: 0\r\n{head}\r\n"));
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
    status.unwrap_or_else(|| panic!("{line}"))
}

/// Every method of every path of the document, and whether it needs no token.
fn requests(document: &Value) -> Vec<(String, bool)> {
    let mut all = vec![("GET /elsewhere".to_owned(), false), ("POST /elsewhere".to_owned(), false)];
    for (path, documented) in document["paths"].as_object().unwrap() {
        for method in METHODS {
            let is_open = path == "/" || path.ends_with("/health");
            let is_open = is_open || (method == "POST" && path.ends_with("/v1/token"));
            if let Some(operation) = documented.get(method.to_ascii_lowercase()) {
                assert_eq!(operation["security"] == json!([]), is_open, "{method} {path}");
                let is_open_or_reads = is_open || method == "GET";
                let refused = operation["responses"].get("403").is_some();
                assert!(is_open_or_reads || refused, "{method} {path} does not tell of 403");
            }
            all.push((format!("{method} {}", path.replace("{id}", "f2")), is_open));
        }
    }
    all
}

#[test]
fn each_token_may_do_what_it_is_for_on_every_path() {
    let server = Server::start();
    let requests = requests(&server.get("/api/v1/openapi.json").json());
    assert!(requests.len() > 60, "{requests:?}");
    server.forget();
    let refused = |request: &str, head: &str| {
        let status = status(&server, request, head);
        Some(status).filter(|status| [401, 403].contains(status))
    };
    for (request, is_open) in &requests {
        for head in ["", "Authorization: Basic x\r\n", &bearer("0123456789abcdeF")] {
            let expected = (!is_open).then_some(401);
            assert_eq!(refused(request, head), expected, "{request} {head}");
        }
        let reads = request.starts_with("GET ") || request.starts_with("HEAD ");
        let expected = (!is_open && !reads).then_some(403);
        assert_eq!(refused(request, &bearer(READER)), expected, "{request}");
    }
    for changed in ["job-ingest", "job-manager.raise", "shutdown.start"] {
        assert!(!server.was_asked(changed), "{changed}");
    }
    for (request, _) in &requests {
        assert_eq!(refused(request, &bearer(TOKEN)), None, "{request}");
    }
    assert!(server.was_asked("job-manager.raise"));
}

#[test]
fn a_refusal_names_the_other_token_and_an_answer_its_own_access() {
    let server = Server::start();
    let of = |token, request: &str| server.ask(request, &bearer(token), "");
    let refused = of(READER, "DELETE /api/v1/jobs/f2");
    assert_eq!(refused.at(["/error", "/path"]), json!(["Forbidden", "/api/v1/jobs/f2"]));
    assert!(refused.json()["detail"].as_str().unwrap().contains("key `token`"), "{refused:?}");
    let access = |token| of(token, "GET /api/v1/").json()["access"].clone();
    assert_eq!([access(READER), access(TOKEN)], ["read", "full"]);
    // Addresses are kept in more places than headers.
    for (path, head, expected) in
        [("/", "", 400), ("/api/v1/jobs", "", 401), ("/api/v1/jobs", &*bearer(TOKEN), 400)]
    {
        let request = format!("GET {path}?token={TOKEN}");
        assert_eq!(status(&server, &request, head), expected, "{request}");
    }
    let page = server.ask("GET /", "", "");
    for header in ["referrer-policy: no-referrer", "cache-control: no-store", "nosniff"] {
        assert!(page.head.contains(header), "{}", page.head);
    }
    let body = json!({ "code": "x".repeat(5 << 10) }).to_string();
    assert_eq!(server.ask("POST /api/v1/token", "", &body).status, 413);
}

#[test]
fn replaced_tokens_end_with_their_streams_and_no_others() {
    const NEW: &str = "0011223344556677";
    let mut server = Server::start();
    let [mut full, mut reader] = [TOKEN, READER].map(|token| server.listen(token));
    // Waits until one of the lines of a stream has `text`.
    let await_text = |stream: &mut BufReader<TcpStream>, text: &str| {
        assert!(stream.lines().map(Result::unwrap).any(|line| line.contains(text)), "{text}");
    };
    await_text(&mut full, "bad fan");
    await_text(&mut reader, "bad fan");
    server.place.accept(TOKEN, NEW);
    // A stream that goes on fails this by the time limit of a read.
    reader.read_to_end(&mut Vec::new()).unwrap();
    server.instance.drain(1, "worse fan");
    await_text(&mut full, "worse fan");
    let of = |server: &Server, token| status(server, "GET /api/v1/instance", &bearer(token));
    assert_eq!([TOKEN, READER, NEW].map(|token| of(&server, token)), [200, 401, 200]);
    server.place.accept("another", NEW);
    full.read_to_end(&mut Vec::new()).unwrap();
    assert_eq!([TOKEN, "another", NEW].map(|token| of(&server, token)), [401, 200, 200]);
    fs::write(server.place.at("agent.toml"), "no TOML").unwrap();
    server.process.logs("what was read before stays in use");
    assert_eq!(of(&server, "another"), 200);
}

#[test]
fn a_token_is_made_where_none_is_given_and_given_once_for_its_code() {
    let place = Place::new();
    broker_that(place.at("broker"), |_, _| Err::<String, _>(38));
    let instance = ServedInstance { tokens: ServedTokens::New, ..place.instance() };
    let mut process = Background::start(program(&instance));
    let line = process.line();
    let (address, tokens) = line.trim_start_matches("http://").split_once("/#token=").unwrap();
    let (token, code) = tokens.split_once("&code=").unwrap();
    assert!(token.len() >= 32 && code.len() >= 32, "{line}");
    let address = address.parse().unwrap();
    let exchange = |body: &str| {
        let head = "Content-Type: application/json\r\n";
        server::ask(address, "POST /api/v1/token HTTP/1.0", head, body).unwrap()
    };
    let of = |code: &str| exchange(&json!({ "code": code }).to_string());
    for (body, status) in [("{", 400), (r#"{"code": 1}"#, 400), (r#"{"code":"","x":1}"#, 400)] {
        assert_eq!(exchange(body).status, status, "{body}");
    }
    assert_eq!([of("0").status, of(token).status], [403, 403]);
    assert_eq!(of(code).json(), json!({ "token": token }));
    assert_eq!(of(code).status, 403);
    let unnamed = server::ask(address, "POST /api/v1/token HTTP/1.0", "", "{}").unwrap();
    assert_eq!(unnamed.status, 415);
}
