//! A Prometheus server beside the cluster reads the operator's metrics over TLS with the token of a service account, as the
//! chart's `ServiceMonitor` specifies, and evaluates the chart's alerts. `operator/tests/monitoring/alerts.yaml` tests their
//! conditions one by one.

use crate::forward::Forward;
use crate::metrics::with_reader;
use crate::prelude::*;
use e2e::cache::Cache;
use e2e::packages;
use e2e::product::checkout;
use e2e::product::install::{NAME, NAMESPACE};
use e2e::wait::until;
use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Stdio};
use tempfile::TempDir;

/// A running server; it is killed when this is dropped.
struct Prometheus {
    server: Child,
    promtool: PathBuf,
    address: SocketAddr,
    /// Its configuration, the token, its data and its log.
    directory: TempDir,
}

impl Prometheus {
    /// Starts the server, which reads the metrics at `target` with this token.
    fn start(trial: &Trial, programs: &Path, target: &str, token: &str) -> Result<Self> {
        let directory = tempfile::tempdir().context("making a directory for Prometheus")?;
        let file = |name: &str| directory.path().join(name);
        fs::write(file("token"), token)?;
        let configuration = configuration(target, &file("token"))?;
        fs::write(file("prometheus.yaml"), configuration.to_string())?;
        // Another program could take the port in the meantime: then the server ends, and its log names the port.
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let log = File::create(file("log"))?;
        let mut server = trial.program(&programs.join("prometheus"));
        server.arg("--config.file=prometheus.yaml").arg("--storage.tsdb.path=data");
        server.arg(format!("--web.listen-address={address}")).current_dir(directory.path());
        server.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let server = server.spawn().context("starting Prometheus")?;
        Ok(Self { server, promtool: programs.join("promtool"), address, directory })
    }

    /// Waits until the server has a result for this query.
    fn finds(&mut self, trial: &Trial, query: &str) -> Result<()> {
        until(&format!("a result of {query}"), DEADLINE, || {
            let log = || programs::tail(&self.directory.path().join("log"), 15);
            let ended = self.server.try_wait().context("looking at Prometheus")?;
            ensure!(ended.is_none(), "Prometheus has ended:\n{}", log());
            let mut promtool = trial.program(&self.promtool);
            promtool.args(["query", "instant", &format!("http://{}", self.address), query]);
            Ok(programs::run(&mut promtool).and_then(|found| {
                ensure!(!found.stdout.is_empty(), "nothing; the log of Prometheus:\n{}", log());
                Ok(())
            }))
        })
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// The configuration of the server, with the labels that the Prometheus Operator gives the operator's pods.
fn configuration(target: &str, token: &Path) -> Result<Value> {
    Ok(json!({
        "global": { "scrape_interval": "2s", "scrape_timeout": "2s", "evaluation_interval": "1s" },
        "rule_files": [checkout()?.join("deploy/chart/files/rules.yaml")],
        "scrape_configs": [{
            "job_name": NAME,
            "scheme": "https",
            "authorization": { "credentials_file": token },
            "tls_config": { "insecure_skip_verify": true },
            "static_configs": [{ "targets": [target], "labels": { "namespace": NAMESPACE } }],
        }],
    }))
}

async fn a_failure_fires(trial: &Trial, programs: &Path, token: &str) -> Result<()> {
    let forward = Forward::to(trial, NAMESPACE, &format!("{NAME}-metrics"), 8080)?;
    let mut prometheus = Prometheus::start(trial, programs, &forward.address, token)?;
    // An increase needs a value before it.
    let ended = "flux_operator_miniclusters_ended_total{state='Failed',reason='DeadlineExceeded'}";
    prometheus.finds(trial, ended)?;
    let run = trial.run("late", "size: 1, deadlineSeconds: 2", "command: sleep 600").await?;
    run.fails("DeadlineExceeded").await?;
    let labels = format!(
        "reason='DeadlineExceeded',severity='warning',namespace='{NAMESPACE}',job='{NAME}'"
    );
    let firing =
        format!("ALERTS{{alertname='FluxMiniClusterFailed',alertstate='firing',{labels}}}");
    prometheus.finds(trial, &firing)?;
    // The alert for an operator that no Prometheus sees is not even pending.
    prometheus.finds(trial, "absent(ALERTS{alertname='FluxOperatorDoesNotAct'})")
}

#[test]
#[ignore = "needs a cluster"]
fn prometheus_fires_the_alert_of_a_failure() {
    // Before the trial: the cluster's network does not reach Debian's packages.
    let directory = packages::unpacked("prometheus", &Cache::locate().unwrap()).unwrap();
    let programs = directory.join("usr/bin");
    trial("alerts", async |trial| {
        with_reader(trial, async |token| a_failure_fires(trial, &programs, token).await).await
    });
}
