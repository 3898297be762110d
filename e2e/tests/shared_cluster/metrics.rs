//! The operator's metrics, over TLS, for those whom Kubernetes allows to read them.

use crate::prelude::*;
use e2e::product::install::{NAME, NAMESPACE};

/// In an image with curl.
const SPEC: &str = "{size: 1, interactive: true, containers: [{image: 'nginx:1'}]}";

/// Asks for the metrics from a pod, and returns the status and the body of the answer.
async fn scrape(run: &Instance<'_>, token: Option<&str>) -> Result<(String, String)> {
    let url = format!("https://{NAME}-metrics.{NAMESPACE}:8080/metrics");
    let bearer = token.map(|token| format!("Authorization: Bearer {token}"));
    let mut words = vec!["curl", "--silent", "--insecure", "--max-time", "60"];
    words.extend(["--write-out", "\n%{http_code}", &url]);
    words.extend(bearer.iter().flat_map(|header| ["--header", header]));
    let answer = run.exec(0, &words).await?;
    let (body, code) = answer.rsplit_once('\n').context("no status")?;
    Ok((code.to_owned(), body.to_owned()))
}

/// A token of a new service account of the namespace.
fn token_of_new(trial: &Trial, account: &str) -> Result<String> {
    trial.kubectl(&["create", "serviceaccount", account])?;
    Ok(trial.kubectl(&["create", "token", account])?.trim().to_owned())
}

/// Does `work` with the token of a new service account that may read the metrics.
pub(crate) async fn with_reader(
    trial: &Trial,
    work: impl AsyncFnOnce(&str) -> Result<()>,
) -> Result<()> {
    let token = token_of_new(trial, "reader")?;
    let account = format!("--serviceaccount={}:reader", trial.namespace());
    let role = "--clusterrole=flux-minicluster-metrics-reader";
    let binding = format!("{}-reads-metrics", trial.namespace());
    trial.kubectl(&["create", "clusterrolebinding", &binding, role, &account])?;
    let worked = work(&token).await;
    trial.kubectl(&["delete", "clusterrolebinding", &binding, "--ignore-not-found"])?;
    worked
}

async fn only_a_reader_scrapes(trial: &Trial, reader: &str) -> Result<()> {
    let run = trial.start("scrapes", SPEC).await?;
    run.ready().await?;
    let other = token_of_new(trial, "other")?;
    for (token, expected) in [(None, "401"), (Some("none"), "401"), (Some(&*other), "403")] {
        let (code, body) = scrape(&run, token).await?;
        ensure!(code == expected && !body.contains("flux_operator_"), "{expected}: {code} {body}");
    }
    // The API server may see the binding a moment later.
    until_true("the metrics to be read", async || {
        let (code, body) = scrape(&run, Some(reader)).await?;
        Ok(code == "200" && body.contains("flux_operator_is_leader"))
    })
    .await
}

#[test]
#[ignore = "needs a cluster"]
fn metrics_are_read_by_those_with_the_role_alone() {
    trial("metrics", async |trial| {
        with_reader(trial, async |token| only_a_reader_scrapes(trial, token).await).await
    });
}
