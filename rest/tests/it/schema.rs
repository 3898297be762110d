//! `flux-agent serve` as its document has it: Schemathesis makes requests of that, right ones and wrong ones, and
//! looks at what is answered. `cargo verify` has Schemathesis; by hand it is that of the `python3` in PATH, for which
//! `pip install --requirement agent/tests/it/schema/requirements.txt` brings it:
//!
//! `cargo test -p flux-agent --test it schema:: -- --ignored`

use crate::serve::{Server, TOKEN};
use std::path::Path;
use std::process::Command;

#[test]
#[ignore = "needs Schemathesis"]
fn every_answer_is_what_the_document_says() {
    let server = Server::start();
    let url = format!("http://{}", server.address);
    let settings = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/schema");
    let mut schemathesis = Command::new("python3");
    schemathesis.args(["-m", "schemathesis.cli", "--config-file", "schemathesis.toml", "run"]);
    schemathesis.args([&format!("{url}/api/v1/openapi.json"), "--url", &url]);
    schemathesis.args(["--header", &format!("Authorization: Bearer {TOKEN}")]);
    schemathesis.current_dir(settings).env("PYTHONDONTWRITEBYTECODE", "1");
    schemathesis.env("HYPOTHESIS_STORAGE_DIRECTORY", server.pod.at("hypothesis"));
    let output = schemathesis.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success(), "{said}");
    println!("{said}");
}
