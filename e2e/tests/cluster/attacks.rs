//! What a job of Flux's user, or a sidecar, may try against root and against the first process of its pod.

use crate::faults::{agent_status, end_of, go, said};
use crate::install::methods;
use crate::{DEADLINE, apply, complete, exec, failure, lead_log, trial, until};
use anyhow::{Context as _, Result, ensure};
use e2e::trial::{Trial, logs::container_log};

/// Tries to replace, and to write to, what root executes and reads below the shared volume; says what worked.
/// A program that is planted notes who runs it.
const ATTACK: &str = r"
cd /mnt/flux
printf '#!/bin/sh\ntouch /tmp/evil-ran-by-$(id -u)\n' > /tmp/evil && chmod a+x /tmp/evil
for name in bin view view/bin config config/etc config/run flux-view.sh flux-connect.sh runner.lock; do
  mv $name $name.old 2>/dev/null && echo EVIL replaced $name && mkdir $name && cp /tmp/evil $name/flux-agent
done
for name in bin/flux-agent view/bin/flux flux-view.sh config/etc/flux/config/broker.toml; do
  (cat /tmp/evil > $name) 2>/dev/null && echo EVIL wrote to $name
done
echo attacked by $(id -un) on $(hostname)";

/// A MiniCluster with the script [`ATTACK`] in its pods, into which Flux comes by the way `method`.
async fn attacked(trial: &Trial, name: &str, method: &str, more: &str) -> Result<String> {
    let attack = ATTACK.replace('\n', "\n          ");
    let spec = format!(
        "
  flux: {{container: {{install: {method}}}}}
  containers:
    - image: ubuntu:24.04
      launcher: true
      commands:
        pre: |
          cat > /tmp/attack.sh <<'END'{attack}
          END
        post: |
          ls /tmp | grep evil-ran && echo EVIL ran
          echo the post hook was run by $(id -u)
{more}
"
    );
    apply(trial, name, &spec).await
}

fn assert_harmless(log: &str, lines: &[&str]) -> Result<()> {
    ensure!(!log.contains("EVIL"), "an attack worked:\n{log}");
    for line in lines {
        ensure!(log.lines().any(|it| it == *line), "no line {line:?} in the log:\n{log}");
    }
    Ok(())
}

#[test]
#[ignore = "needs a cluster"]
fn a_job_can_replace_nothing_that_root_runs() {
    trial("attack-lead", &[], async |trial| {
        for (method, name) in methods()? {
            let name = format!("lead-{name}");
            attacked(trial, &name, method, "      command: sh /tmp/attack.sh\n  size: 1").await?;
            complete(trial, &name).await?;
            let lines =
                [format!("attacked by flux on {name}-0"), "the post hook was run by 0".to_owned()];
            assert_harmless(&lead_log(trial, &name).await?, &lines.each_ref().map(String::as_str))?;
        }
        Ok(())
    });
}

/// Attacks on the worker, and kills its broker.
const KILL: &str = r"      command: |
        flux run -N2 -n2 sh -c 'test $FLUX_TASK_RANK = 0 || {
          sh /tmp/attack.sh > /tmp/attack; kill -9 $(flux getattr broker.pid)
        }'
        until test -e /tmp/go; do sleep 0.2; done
        echo done
  size: 2";

/// A worker's agent starts its broker again, as root that becomes Flux's user.
#[test]
#[ignore = "needs a cluster"]
fn a_job_that_kills_the_broker_of_its_worker_gets_nothing_run_by_root() {
    trial("attack-worker", &[], async |trial| {
        for (method, name) in methods()? {
            let name = format!("worker-{name}");
            attacked(trial, &name, method, KILL).await?;
            let worker = said(trial, &name, 1, "starting it again in").await?;
            let pod = kube::ResourceExt::name_any(&worker);
            until("the broker to be started again", async || {
                let status = agent_status(trial, &pod, &name)?;
                Ok((status["restarts"] == 1 && status["brokerState"] == "run").then_some(()))
            })
            .await?;
            let look = "cat /tmp/attack; ls /tmp | grep evil-ran && echo EVIL ran; exit 0";
            let seen = exec(trial, &pod, &name, &["sh", "-c", look])?;
            assert_harmless(&seen, &[&format!("attacked by flux on {name}-1")])?;
            go(trial, &name, 0).await?;
            complete(trial, &name).await?;
            assert_harmless(&lead_log(trial, &name).await?, &["done"])?;
        }
        Ok(())
    });
}

/// A sidecar that is root, which tries to write wherever the runner reads, and then uses Flux all the same.
const SIDECAR: &str = r"
  size: 1
  flux: {container: {install: METHOD}}
  containers:
    - image: ubuntu:24.04
      runFlux: true
      command: until grep . /shared/done; do sleep 0.2; done 2>/dev/null
      volumes: {shared: {path: /shared}}
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
        echo done > /shared/done
        sleep infinity
      volumes: {shared: {path: /shared}}
";

#[test]
#[ignore = "needs a cluster"]
fn a_sidecar_of_root_can_write_nothing_that_the_runner_reads() {
    trial("attack-beside", &[], async |trial| {
        for (method, name) in methods()? {
            let name = format!("beside-{name}");
            apply(trial, &name, &SIDECAR.replace("METHOD", method)).await?;
            complete(trial, &name).await?;
            let pod = trial.pod(&name, 0).await?.context("no lead")?;
            let log = container_log(trial, &pod, "beside").await?;
            assert_harmless(&log, &["attacked by 0", "size 1"])?;
        }
        Ok(())
    });
}

/// PID 1 reads the reason of a batch that failed, in a directory of Flux's user.
#[test]
#[ignore = "needs a cluster"]
fn a_job_that_puts_a_pipe_or_a_device_where_the_agent_reads_holds_up_nothing() {
    trial("attack-reason", &[], async |trial| {
        for (name, make) in [("pipe", "mkfifo"), ("device", "ln -s /dev/zero")] {
            let command =
                format!("cd /mnt/flux/config/run && {make} x && mv -f x command.failure; exit 5");
            let spec = format!(
                "{{size: 1, containers: [{{image: 'ubuntu:24.04', batch: true, batchRaw: true, command: '{command}', \
                 resources: {{limits: {{memory: 512Mi}}}}}}]}}"
            );
            apply(trial, name, &spec).await?;
            let cluster = trial.await_finished(name, DEADLINE).await?;
            let (code, reason, message) = failure(&cluster)?;
            ensure!(code == Some(5), "{name}: {code:?}, {reason}: {message}");
            let pod = trial.pod(name, 0).await?.context("no lead")?;
            let end = end_of(&pod, name).context("the runner has not ended")?;
            ensure!(end.reason.as_deref() == Some("Error"), "{name}: {end:?}");
        }
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn a_working_directory_of_root_is_not_given_away() {
    trial("attack-place", &[], async |trial| {
        for (name, place, expected) in [("home", "/root", "/home/flux"), ("system", "/etc", "/etc")]
        {
            let spec = format!(
                "{{size: 1, containers: [{{image: 'ubuntu:24.04', workingDir: {place}, command: pwd, \
                 commands: {{post: 'stat -c \"%n is of %U\" {place}'}}}}]}}"
            );
            apply(trial, name, &spec).await?;
            complete(trial, name).await?;
            let owner = format!("{place} is of root");
            assert_harmless(&lead_log(trial, name).await?, &[expected, &owner])?;
        }
        Ok(())
    });
}
