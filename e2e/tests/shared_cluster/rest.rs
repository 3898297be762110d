//! `flux.rest`: the API of an instance behind a Service, for clients with one of its tokens; other tokens; TLS.

use crate::prelude::*;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, PostParams};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use std::collections::BTreeMap;

/// In an image with curl.
pub(crate) const SPEC: &str =
    "{size: 2, interactive: true, flux: {rest: {}}, containers: [{image: 'nginx:1'}]}";

/// As Pod Security `restricted` wants it, with a read-only root.
const RESTRICTED: &str = "{size: 1, interactive: true, flux: {rest: {}}, \
    pod: {securityContext: {runAsNonRoot: true, runAsUser: 12345, seccompProfile: {type: RuntimeDefault}}}, \
    containers: [{image: 'nginx:1', securityContext: {allowPrivilegeEscalation: false, \
    readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}}]}";

/// The Secret that the condition names, and its tokens: the full one, and the one that reads.
pub(crate) async fn tokens(run: &Instance<'_>) -> Result<(String, [String; 2])> {
    let condition = run.await_condition("RestReady", "the tokens are in the Secret").await?;
    let (_, secret) = condition.message.rsplit_once(" Secret ").context("no Secret is named")?;
    let secret = secret.split(',').next().unwrap_or_default().to_owned();
    let template =
        "{{.data.token | base64decode}} {{index .data \"read-only-token\" | base64decode}}";
    let both = run.kubectl(&["get", "secret", &secret, "-ogo-template", "--template", template])?;
    let (full, reader) = both.split_once(' ').context("it has not both tokens")?;
    Ok((secret, [full.to_owned(), reader.to_owned()]))
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}")
}

/// Sends a request from a pod to the Service, and returns the status and the body of the answer.
async fn ask(run: &Instance<'_>, path: &str, more: &[&str]) -> Result<(String, String)> {
    ask_at(run, &format!("http://{}-rest{path}", run.name), more).await
}

async fn ask_at(run: &Instance<'_>, url: &str, more: &[&str]) -> Result<(String, String)> {
    let words = ["curl", "--silent", "--max-time", "60", "--write-out", "\n%{http_code}", url];
    let answer = run.exec(0, &[&words, more].concat()).await?;
    let (body, code) = answer.rsplit_once('\n').context("no status")?;
    Ok((code.to_owned(), body.to_owned()))
}

/// Waits until the Service leads to the server.
pub(crate) async fn served(run: &Instance<'_>) -> Result<()> {
    let answers = async || ask(run, "/health", &[]).await.is_ok_and(|(code, _)| code == "200");
    until_true("the API to be reached", async || Ok(answers().await)).await
}

/// Clients without the token get nothing, not even in the lead's own pod, where they cannot find the token either.
async fn has_an_api(trial: &Trial, name: &str, spec: &str) -> Result<String> {
    let run = trial.start(name, spec).await?;
    run.ready().await?;
    let (secret, [token, reader]) = tokens(&run).await?;
    ensure!(secret.starts_with(&format!("{name}-rest-")) && token.len() == 48, "{secret}");
    served(&run).await?;
    for path in ["/api/v1/", "/api/v1/jobs", "/metrics"] {
        let (code, _) = ask(&run, path, &[]).await?;
        ensure!(code == "401", "{path}: {code}");
    }
    let (reader_too, bearer) = (bearer(&reader), bearer(&token));
    for header in [&bearer, &reader_too] {
        let (code, body) = ask(&run, "/api/v1/openapi.json", &["--header", header]).await?;
        ensure!(code == "200" && body.contains("3.1"), "{code} {body:.200}");
    }
    for change in [&["--json", r#"{"command": ["hostname"]}"#][..], &["--request", "DELETE"]] {
        let words = [&["--header", &reader_too], change].concat();
        let (code, body) = ask(&run, "/api/v1/jobs", &words).await?;
        ensure!(code == "403" && body.contains("only read"), "{code} {body}");
    }
    let (code, page) = ask(&run, "/", &[]).await?;
    ensure!(code == "200" && page.contains("<title>"), "{code} {page:.200}");
    let (code, _) = ask(&run, &format!("/?token={token}"), &[]).await?;
    ensure!(code == "400", "a token in the query: {code}");
    let config = run.exec(0, &["cat", "/flux_operator/config/agent.toml"]).await?;
    ensure!(config.contains("[rest]") && !config.contains(&token), "{config}");
    Ok(bearer)
}

/// A script for a user of the lead's pod who is neither root nor Flux's. It prints the status of a request without the
/// token, the files that hold the token (its halves are the arguments, so it is in no command line), and whether the
/// user can kill the server or read its environment.
const OTHER_USER: &str = r#"
curl --silent --output /dev/null --max-time 60 --write-out '%{http_code}\n' "http://$3-rest/api/v1/jobs"
places="$(ls -d /proc/[0-9]*/cmdline /proc/[0-9]*/environ) /flux_operator /mnt /run /tmp /var /etc /home /dev/shm"
printf '%s' "$1$2" | grep -rasFl -f - $places
server=$(grep -lz '/flux-rest$' /proc/[0-9]*/cmdline | cut -d/ -f3)
kill -9 $server 2>/dev/null && echo killed
head -c1 /proc/$server/environ 2>/dev/null && echo read its environment
exit 0
"#;

/// Checks that a process of another user in the lead's pod needs the token and does not find it.
async fn another_user_gets_nothing(run: &Instance<'_>, token: &str) -> Result<()> {
    let (first, second) = token.split_at(token.len() / 2);
    let user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let script = ["sh", "-c", OTHER_USER, "other", first, second, run.name];
    let other = async || run.exec(0, &[&user[..], &script].concat()).await;
    let got = other().await?;
    ensure!(got.trim() == "401", "another user gets {got}");
    let copy = format!("printf '%s' '{token}' > /tmp/copy && chmod 644 /tmp/copy");
    run.exec(0, &["sh", "-c", &copy]).await?;
    let got = other().await?;
    ensure!(got.lines().any(|line| line == "/tmp/copy"), "the search finds nothing: {got}");
    Ok(())
}

#[test]
#[ignore = "needs a cluster"]
fn the_api_is_served_as_long_as_the_instance_runs() {
    trial("rest", async |trial| {
        let bearer = has_an_api(trial, "served", SPEC).await?;
        let run = trial.named("served");
        let why = "the stand-in takes jobs from flux alone";
        if !lacks_real_flux("a job by the API behind a Service", why)? {
            let job = ["--header", &bearer, "--json", r#"{"command": ["hostname"]}"#];
            let (code, body) = ask(&run, "/api/v1/jobs", &job).await?;
            ensure!(code == "201" && body.contains("id"), "{code} {body}");
        }
        let (_, [token, _]) = tokens(&run).await?;
        another_user_gets_nothing(&run, &token).await?;
        // The agent starts a lost server again.
        let kill = "kill -9 $(grep -lz '/flux-rest$' /proc/[0-9]*/cmdline | cut -d/ -f3)";
        run.exec(0, &["sh", "-c", kill]).await?;
        served(&run).await?;
        run.exec(0, &["/mnt/flux/bin/flux", "shutdown", "--background"]).await?;
        run.complete().await?;
        let condition = run.await_condition("RestReady", "has ended").await?;
        ensure!(condition.status == "False" && condition.reason == "Finished", "{condition:?}");
        let services = run.kubectl(&["get", "services", "-oname"])?;
        ensure!(!services.contains("-rest"), "it is left: {services}");
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn an_api_needs_no_root_and_writes_nowhere() {
    trial("rest-restricted", async |trial| {
        has_an_api(trial, "restricted", RESTRICTED).await.map(drop)
    });
}

/// Follows the events of the instance in a pod, and writes how that ended.
const FOLLOW: &str = r#"
(curl --silent --no-buffer --header "$1" "http://$2-rest/api/v1/events" >/tmp/events; echo "ended with $?" >/tmp/ended) >/dev/null 2>&1 &
"#;

#[test]
#[ignore = "needs a cluster"]
fn tokens_are_replaced_while_the_instance_runs() {
    trial("rest-rotation", async |trial| {
        let run = trial.start("rotated", SPEC).await?;
        run.ready().await?;
        served(&run).await?;
        let pod = run.pod(0).await?.metadata.uid;
        let (first, [old, old_reader]) = tokens(&run).await?;
        run.exec(0, &["sh", "-c", FOLLOW, "follow", &bearer(&old), run.name]).await?;
        let read = async |file: &str| run.exec(0, &["cat", file]).await.unwrap_or_default();
        let connected = async || Ok(read("/tmp/events").await.contains("connected"));
        until_true("the stream to begin", connected).await?;
        run.edit(&json!({ "flux": { "rest": { "rotation": "second" } } }))?;
        let [new, new_reader] = wait_for("another Secret", async || {
            let (secret, tokens) = tokens(&run).await?;
            Ok((secret != first).then_some(tokens))
        })
        .await?;
        let code = async |token: &str| {
            let header = bearer(token);
            Ok(ask(&run, "/api/v1/openapi.json", &["--header", &header]).await?.0)
        };
        until_true("the new token to be accepted", async || Ok(code(&new).await? == "200")).await?;
        for (token, expected) in [(old, "401"), (old_reader, "401"), (new_reader, "200")] {
            let code: Result<String> = code(&token).await;
            ensure!(code? == expected, "a token is to be answered with {expected}");
        }
        let ended = async || Ok(read("/tmp/ended").await.trim() == "ended with 0");
        until_true("the stream with the old token to end", ended).await?;
        ensure!(run.pod(0).await?.metadata.uid == pod, "the pod is another one");
        Ok(())
    });
}

/// A new certificate for the Service of the API, as a Secret of type `kubernetes.io/tls` has it.
fn certificate(name: &str) -> Result<BTreeMap<String, String>> {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed([format!("{name}-rest")])?;
    let files = [("tls.crt", cert.pem()), ("tls.key", signing_key.serialize_pem())];
    Ok(files.map(|(file, text)| (file.to_owned(), text)).into())
}

/// Client and server see the same Secret: the mounted certificate is what the client trusts.
const TRUSTED: &str = "/flux_operator/tls/tls.crt";

#[test]
#[ignore = "needs a cluster"]
fn an_api_is_served_over_tls_and_its_certificate_is_renewed() {
    trial("rest-tls", async |trial| {
        let spec = SPEC.replace("rest: {}", "rest: {tlsSecretName: certificate}");
        let run = trial.start("encrypted", &spec).await?;
        run.await_condition("Progressing", "\"certificate\" not found").await?;
        let secret = Secret {
            metadata: ObjectMeta { name: Some("certificate".to_owned()), ..ObjectMeta::default() },
            type_: Some("kubernetes.io/tls".to_owned()),
            string_data: Some(certificate(run.name)?),
            ..Secret::default()
        };
        trial.api::<Secret>().create(&PostParams::default(), &secret).await?;
        run.ready().await?;
        let url = format!("https://{}-rest/health", run.name);
        let code = async |trusted: &str| {
            let answer = ask_at(&run, &url, &["--cacert", trusted]).await;
            Ok(answer.is_ok_and(|(code, _)| code == "200"))
        };
        until_true("the API to be reached", async || code(TRUSTED).await).await?;
        run.await_condition("RestReady", "the lead serves https://encrypted-rest.").await?;
        let plain = format!("http://{}-rest:443/health", run.name);
        ensure!(ask_at(&run, &plain, &[]).await.is_err(), "plain HTTP is answered");
        run.exec(0, &["cp", TRUSTED, "/tmp/first.crt"]).await?;
        ensure!(code("/tmp/first.crt").await?, "the first certificate is in use");
        run.patch("secret/certificate", &json!({ "stringData": certificate(run.name)? }))?;
        let is_other =
            async || -> Result<bool> { Ok(!code("/tmp/first.crt").await? && code(TRUSTED).await?) };
        until_true("the renewed certificate to be in use", is_other).await
    });
}
