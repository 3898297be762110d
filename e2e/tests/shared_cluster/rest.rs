//! `flux.rest`: the API of an instance behind a Service, for clients with the token.

use crate::prelude::*;

/// In an image with curl.
pub(crate) const SPEC: &str =
    "{size: 2, interactive: true, flux: {rest: {}}, containers: [{image: 'nginx:1'}]}";

/// As Pod Security `restricted` wants it, with a read-only root.
const RESTRICTED: &str = "{size: 1, interactive: true, flux: {rest: {}}, \
    pod: {securityContext: {runAsNonRoot: true, runAsUser: 12345, seccompProfile: {type: RuntimeDefault}}}, \
    containers: [{image: 'nginx:1', securityContext: {allowPrivilegeEscalation: false, \
    readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}}]}";

/// The Secret that the condition names, and the token in it.
pub(crate) async fn token(run: &Instance<'_>) -> Result<(String, String)> {
    let condition = run.await_condition("RestReady", "the token is in the Secret").await?;
    let (_, secret) = condition.message.rsplit_once(" Secret ").context("no Secret is named")?;
    let secret = secret.split(',').next().unwrap_or_default().to_owned();
    let template = "{{.data.token | base64decode}}";
    let token =
        run.kubectl(&["get", "secret", &secret, "-ogo-template", "--template", template])?;
    Ok((secret, token))
}

/// Sends a request from a pod to the Service, and returns the status and the body of the answer.
async fn ask(run: &Instance<'_>, path: &str, more: &[&str]) -> Result<(String, String)> {
    let url = format!("http://{}-rest{path}", run.name);
    let words = ["curl", "--silent", "--max-time", "60", "--write-out", "\n%{http_code}", &url];
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
    let (secret, token) = token(&run).await?;
    ensure!(secret.starts_with(&format!("{name}-rest-")) && token.len() == 48, "{secret}");
    served(&run).await?;
    for path in ["/api/v1/", "/api/v1/jobs", "/metrics"] {
        let (code, _) = ask(&run, path, &[]).await?;
        ensure!(code == "401", "{path}: {code}");
    }
    let bearer = format!("Authorization: Bearer {token}");
    let (code, body) = ask(&run, "/api/v1/openapi.json", &["--header", &bearer]).await?;
    ensure!(code == "200" && body.contains("3.1"), "{code} {body:.200}");
    let (code, page) = ask(&run, &format!("/?token={token}"), &[]).await?;
    ensure!(code == "200" && page.contains("<title>"), "{code} {page:.200}");
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
        let (_, token) = token(&run).await?;
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
