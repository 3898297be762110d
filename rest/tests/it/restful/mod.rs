//! The clients of flux-restful as they are published, against `flux-rest` with a recorded broker. `cargo verify` has them;
//! by hand they are those of the `python3` in PATH, for which
//! `pip install --requirement rest/tests/it/restful/requirements.txt` brings them:
//!
//! `cargo test -p flux-rest --test it restful:: -- --ignored`

use crate::serve::Server;
use crate::server::TOKEN;
use std::path::Path;
use std::process::Command;
use std::thread;

/// Whether a job with this jobspec is one that the script waits for.
fn is_echo(jobspec: &serde_json::Value) -> bool {
    jobspec["tasks"][0]["command"][0] == "echo"
}

/// Uses the client in `package`, whose command line is in `command_line`.
fn is_used(package: &str, command_line: &str) {
    let server = Server::start();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/restful/clients.py");
    let mut client = Command::new("python3");
    client.arg(script).args([package, command_line, "stop"]);
    client.env("FLUX_RESTFUL_HOST", format!("http://{}", server.address));
    client.envs([("FLUX_USER", "fluxuser"), ("FLUX_TOKEN", TOKEN), ("FLUX_SECRET_KEY", "a")]);
    client.env("PYTHONDONTWRITEBYTECODE", "1");
    let client = thread::spawn(move || client.output().unwrap());
    while !client.is_finished() {
        server.instance.run_to_the_end(is_echo, "one\n");
    }
    let output = client.join().unwrap();
    let text = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{package}: {}", String::from_utf8_lossy(&text));
    assert!(server.was_asked("shutdown.start"), "{package}");
}

#[test]
#[ignore = "needs the clients of flux-restful"]
fn the_clients_of_flux_restful_work_unchanged() {
    is_used("flux_restful.client.main", "flux_restful.client.commands");
    is_used("flux_restful_client.main", "flux_restful_client.client");
}
