//! What a job of Flux's user, or a sidecar, may try against root and against the first process of its pod.

use anyhow::{Context as _, Result, ensure};
use e2e::trial::logs::container_log;
use kube::ResourceExt as _;

use crate::{install::has_image_volumes, look, trial};

/// A job tries, in each pod, to replace and to write to what root executes and reads below the shared volume; a program
/// that is planted notes who runs it. Then the worker's broker is killed: its agent starts it again, as root that
/// becomes Flux's user. A sidecar that is root tries to write wherever the runner reads, and then uses Flux all the
/// same.
const ATTACKED: &str = r"
  size: 2
  flux: {container: {install: METHOD}}
  containers:
    - image: ubuntu:24.04
      runFlux: true
      launcher: true
      commands:
        pre: |
          cat > /tmp/attack.sh <<'END'
          cd /mnt/flux
          printf '#!/bin/sh\ntouch /tmp/evil-ran-by-$(id -u)\n' > /tmp/evil && chmod a+x /tmp/evil
          for name in bin view view/bin config config/etc config/run flux-view.sh flux-connect.sh runner.lock; do
            mv $name $name.old 2>/dev/null && echo EVIL replaced $name && mkdir $name && cp /tmp/evil $name/flux-agent
          done
          for name in bin/flux-agent view/bin/flux flux-view.sh config/etc/flux/config/broker.toml; do
            (cat /tmp/evil > $name) 2>/dev/null && echo EVIL wrote to $name
          done
          echo attacked by $(id -un) on $(hostname)
          END
        post: |
          ls /tmp | grep evil-ran && echo EVIL ran
          echo the post hook was run by $(id -u)
      command: |
        flux run -N2 -n2 sh -c 'sh /tmp/attack.sh > /tmp/attack'
        flux run -N2 -n2 sh -c 'test $FLUX_TASK_RANK = 0 || kill -9 $(flux getattr broker.pid)'
        until test -e /tmp/go; do sleep 0.2; done
        cat /tmp/attack
    - image: ubuntu:24.04
      name: beside
      command: |
        for place in /mnt/flux /mnt/flux/config /mnt/flux/config/run /opt/software; do
          touch $place/x 2>/dev/null && echo EVIL wrote to $place
        done
        for name in bin view flux-view.sh config; do
          mv /mnt/flux/$name /mnt/flux/$name.old 2>/dev/null && echo EVIL replaced $name
        done
        echo attacked by $(id -u)
        echo size $(flux proxy $fluxsocket flux getattr size)
        sleep infinity
";

fn assert_harmless(log: &str, lines: &[&str]) -> Result<()> {
    ensure!(!log.contains("EVIL"), "an attack worked:\n{log}");
    for line in lines {
        ensure!(log.lines().any(|it| it == *line), "no line {line:?} in the log:\n{log}");
    }
    Ok(())
}

#[test]
#[ignore = "needs a cluster"]
fn a_job_and_a_sidecar_of_root_can_change_nothing_that_root_runs_or_the_runner_reads() {
    trial("attack", async |trial| {
        let methods: &[_] = if has_image_volumes()? { &["Image", "Copy"] } else { &["Copy"] };
        for method in methods {
            let name = method.to_lowercase();
            let run = trial.start(&name, &ATTACKED.replace("METHOD", method)).await?;
            let worker = run.printed(1, "starting it again in").await?.name_any();
            look("the broker to be started again", async || {
                let status = run.agent_status(1).await?;
                Ok((status["restarts"] == 1 && status["brokerState"] == "run").then_some(()))
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
