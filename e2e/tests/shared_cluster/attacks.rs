//! Attacks of a job of Flux's user, or of a sidecar, on root and on the first process of the pod.

use crate::install::has_image_volumes;
use crate::prelude::*;

/// A manifest; the test replaces `METHOD` and `NAME`.
const ATTACKED: &str = include_str!("manifests/attacked.yaml");

fn assert_harmless(log: &str, lines: &[&str]) -> Result<()> {
    ensure!(!log.contains("EVIL"), "an attack worked:\n{log}");
    for line in lines {
        ensure!(log.lines().any(|it| it == *line), "no line {line:?} in the log:\n{log}");
    }
    Ok(())
}

#[test]
#[ignore = "needs a cluster"]
fn jobs_and_sidecars_cannot_attack_root_or_the_runner() {
    trial("attack", async |trial| {
        let methods: &[_] = if has_image_volumes()? { &["Image", "Copy"] } else { &["Copy"] };
        for method in methods {
            let name = method.to_lowercase();
            trial.apply(&ATTACKED.replace("METHOD", method).replace("NAME", &name)).await?;
            let run = trial.named(&name);
            let worker = run.printed(1, "starting it again in").await?.name_any();
            until_true("the broker to be started again", async || {
                let status = run.agent_status(1).await?;
                Ok(status["restarts"] == 1 && status["brokerState"] == "run")
            })
            .await?;
            let look = "cat /tmp/attack; ls /tmp | grep evil-ran && echo EVIL ran; exit 0";
            let seen = run.exec_in(&worker, &name, &["sh", "-c", look])?;
            assert_harmless(&seen, &[&format!("attacked by flux on {name}-1")])?;
            let lead = run.pod(0).await?;
            let beside =
                container_log(trial, &lead, "beside").await.context("the sidecar's log")?;
            assert_harmless(&beside, &["attacked by 0", "size 2"])?;
            run.go(0).await?;
            run.complete().await?;
            let attacked = format!("attacked by flux on {name}-0");
            assert_harmless(&run.log(0).await?, &[&attacked, "the post hook was run by 0"])?;
        }
        Ok(())
    });
}
