//! The API and its document: Schemathesis sends right and wrong requests, and compares the answers with the document. `cargo verify` has Schemathesis; by hand it is that of the `python3` in PATH, for which
//! `pip install --requirement rest/tests/it/schema/requirements.txt` brings it:
//!
//! `cargo test -p flux-rest --test it schema:: -- --ignored`

use crate::serve::Server;
use crate::server::TOKEN;
use std::path::Path;
use std::process::Command;

#[test]
#[ignore = "needs Schemathesis"]
fn every_answer_is_as_the_document_has_it() {
    let server = Server::start();
    let url = format!("http://{}", server.address);
    let settings = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/schema");
    let mut schemathesis = Command::new("python3");
    schemathesis.args(["-m", "schemathesis.cli", "--config-file", "schemathesis.toml", "run"]);
    schemathesis.args([&format!("{url}/api/v1/openapi.json"), "--url", &url]);
    schemathesis.args(["--header", &format!("Authorization: Bearer {TOKEN}")]);
    schemathesis.current_dir(settings).env("PYTHONDONTWRITEBYTECODE", "1");
    schemathesis.env("HYPOTHESIS_STORAGE_DIRECTORY", server.place.at("hypothesis"));
    let output = schemathesis.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert!(output.status.success(), "{text}");
    println!("{text}");
}
