//! The page and the API of an instance, by `kubectl flux ui`.

use crate::prelude::*;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};

/// How long an answer may take on a busy machine.
const ANSWER_TIMEOUT: Duration = Duration::from_mins(1);

const SPEC: &str = "{size: 2, interactive: true, containers: [{image: 'ubuntu:24.04'}]}";

/// The plugin that serves the page, and where.
struct Ui {
    plugin: Child,
    address: String,
    token: String,
    code: String,
}

impl Ui {
    fn of(trial: &Trial, name: &str) -> Result<Self> {
        let mut command = trial.plugin(&["ui", name, "--no-browser"])?;
        let mut plugin = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let (mut line, mut header) = (String::new(), String::new());
        let mut output = BufReader::new(plugin.stdout.take().context("it has no output")?);
        output.read_line(&mut line)?;
        output.read_line(&mut header)?;
        let parts = line.trim().strip_prefix("http://").and_then(|it| it.split_once("/#code="));
        let (address, code) = parts.with_context(|| format!("it prints {line:?}"))?;
        let token = header.trim().strip_prefix("Authorization: Bearer ");
        let token = token.with_context(|| format!("it prints {header:?}"))?.to_owned();
        Ok(Self { plugin, address: address.to_owned(), token, code: code.to_owned() })
    }

    /// Status and body of the answer to `METHOD PATH`, with these lines of the head.
    fn ask(&self, what: &str, head: &str, body: &str) -> Result<(u16, String)> {
        let mut stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        let length = body.len();
        let request = format!(
            "{what} HTTP/1.1\r\nHost: {}\r\nContent-Length: {length}\r\n{head}\r\n{body}",
            self.address
        );
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").context("it has no body")?;
        let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        Ok((code.context("it has no status")?, body.to_owned()))
    }

    /// Sends a request to the API, and fails unless the answer is a success.
    fn api(&self, what: &str, body: &str) -> Result<Value> {
        let head =
            format!("Authorization: Bearer {}\r\nContent-Type: application/json\r\n", self.token);
        let (code, body) = self.ask(what, &head, body)?;
        ensure!((200..300).contains(&code), "{what}: {code} {body}");
        serde_json::from_str(&body).with_context(|| format!("reading {body}"))
    }
}

impl Drop for Ui {
    fn drop(&mut self) {
        let _ = self.plugin.kill();
        let _ = self.plugin.wait();
    }
}

async fn is_served(run: &Instance<'_>) -> Result<bool> {
    let processes = run.exec(0, &["/mnt/flux/bin/flux-agent", "ps"]).await?;
    Ok(processes.contains("flux-rest"))
}

#[test]
#[ignore = "needs a cluster"]
fn the_page_is_there_for_its_viewer_only() {
    trial("ui", async |trial| {
        let run = trial.start("looked", SPEC).await?;
        run.ready_with(2).await?;
        let ui = Ui::of(trial, "looked")?;
        ensure!(ui.ask("GET /health", "", "")?.0 == 200);
        for path in ["/api/v1/", "/api/v1/jobs", "/metrics"] {
            ensure!(ui.ask(&format!("GET {path}"), "", "")?.0 == 401, "{path}");
        }
        let (code, page) = ui.ask("GET /", "", "")?;
        ensure!(code == 200 && page.contains("<title>"), "{code} {page:.200}");
        for (expected, has_token) in [(200, true), (403, false)] {
            let body = json!({ "code": ui.code }).to_string();
            let head = "Content-Type: application/json\r\n";
            let (code, answer) = ui.ask("POST /api/v1/token", head, &body)?;
            ensure!(code == expected, "the code is good once: {code}");
            ensure!(answer.contains(&ui.token) == has_token, "the code is good once: {answer}");
        }
        let why = "the stand-in has not all that is asked, and takes jobs from flux alone";
        if !lacks_real_flux("the API of an instance", why)? {
            tells_of_the_instance(&ui)?;
            runs_a_job(&ui)?;
        }
        ensure!(is_served(&run).await?, "it is served by something else");
        drop(ui);
        until_true("the server to end with who looks", async || Ok(!is_served(&run).await?)).await
    });
}

fn tells_of_the_instance(ui: &Ui) -> Result<()> {
    let instance = ui.api("GET /api/v1/instance", "")?;
    ensure!(instance["name"] == "looked" && instance["size"] == 2, "{instance}");
    let ranks = ui.api("GET /api/v1/resources", "")?;
    ensure!(ranks["ranks"].as_array().is_some_and(|ranks| ranks.len() == 2), "{ranks}");
    Ok(())
}

fn runs_a_job(ui: &Ui) -> Result<()> {
    let asked = json!({ "command": ["hostname"], "num_tasks": 2, "num_nodes": 2 }).to_string();
    let job = ui.api("POST /api/v1/jobs", &asked)?;
    let id = job["id"].as_str().context("it has no id")?;
    let head = format!("Authorization: Bearer {}\r\nAccept: text/event-stream\r\n", ui.token);
    // The stream ends with the job.
    let (_, events) = ui.ask(&format!("GET /api/v1/jobs/{id}/output"), &head, "")?;
    ensure!(events.contains("looked-0") && events.contains("looked-1"), "{events}");
    let job = ui.api(&format!("GET /api/v1/jobs/{id}"), "")?;
    ensure!(job["result"] == "COMPLETED" && job["returncode"] == 0, "{job}");
    Ok(())
}
