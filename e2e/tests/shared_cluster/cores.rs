//! The processors that a task may run on, and the limits that hooks have set for its processes.

use crate::prelude::*;

/// Submits a task with these options, and returns the processors of the task and of its container.
async fn processors(trial: &Trial, name: &str, options: &str) -> Result<[String; 2]> {
    let fields = format!("flux: {{optionFlags: '{options}'}}");
    let container = "resources: {limits: {cpu: '1'}}, \
                     command: 'grep -h Cpus_allowed_list /proc/self/status /proc/1/status'";
    let run = trial.run(name, &fields, container).await?;
    run.complete().await?;
    let log = run.log(0).await?;
    let mut lists = log.lines().filter_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let mut list = || lists.next().unwrap_or_default().trim().to_owned();
    Ok([list(), list()])
}

#[test]
#[ignore = "needs a cluster"]
fn tasks_are_bound_to_shared_cores_only_on_request() {
    with_real_flux("cores", "binding to cores", "it needs real Flux", async |trial| {
        for name in ["one", "other"] {
            let [task, container] = processors(trial, name, "").await?;
            ensure!(!task.is_empty() && task == container, "{name}: {task} of {container}");
        }
        let [task, container] = processors(trial, "bound", "-o cpu-affinity=per-task").await?;
        let is_one = !container.contains(['-', ',']);
        ensure!(is_one || task != container, "bound: {task} of {container}");
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn limits_and_mask_that_hooks_set_reach_every_rank() {
    trial("limits", async |trial| {
        let container = "command: 'echo $(ulimit -n) $(ulimit -c) $(ulimit -l) $(umask)', \
                         commands: {init: 'ulimit -n 2048', pre: 'ulimit -c 0; ulimit -l 32', \
                         brokerPre: 'umask 0027', workerPre: 'umask 0027'}";
        let run = trial.run("limits", "size: 2, tasks: 2", container).await?;
        run.complete().await?;
        let times = run.times("2048 0 32 0027").await?;
        ensure!(times == 2, "{}", run.log(0).await?);
        Ok(())
    });
}
