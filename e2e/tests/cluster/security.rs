//! Images and clusters that give little.

use crate::{DEADLINE, lead_log, minicluster, trial};
use anyhow::ensure;
use e2e::trial::is_true;

#[test]
#[ignore = "needs a cluster"]
fn an_image_without_a_shell_runs_hello_world() {
    trial("no-shell", &[], async |trial| {
        let name = trial
            .apply(&minicluster(
                "no-shell",
                &format!(
                    "{{size: 2, containers: [{{image: '{}', command: echo hello from nothing}}]}}",
                    e2e::product::images::NO_SHELL
                ),
            ))
            .await?;
        let cluster = trial.await_finished(&name, DEADLINE).await?;
        ensure!(is_true(&cluster, "Complete"), "conditions: {:?}", cluster.status);
        let log = lead_log(trial, &name).await?;
        ensure!(log.lines().any(|line| line == "hello from nothing"), "log:\n{log}");
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn pod_security_restricted_lets_a_non_root_minicluster_run() {
    let labels = [("pod-security.kubernetes.io/enforce", "restricted")];
    trial("restricted", &labels, async |trial| {
        let name = trial.apply(&minicluster("restricted", RESTRICTED)).await?;
        let cluster = trial.await_finished(&name, DEADLINE).await?;
        ensure!(is_true(&cluster, "Complete"), "conditions: {:?}", cluster.status);
        let log = lead_log(trial, &name).await?;
        ensure!(log.lines().any(|line| line == "12345"), "log of the lead:\n{log}");
        Ok(())
    });
}

const RESTRICTED: &str = "
  size: 2
  pod:
    securityContext: {runAsNonRoot: true, runAsUser: 12345, seccompProfile: {type: RuntimeDefault}}
  containers:
    - image: ubuntu:24.04
      command: id -u
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
";
