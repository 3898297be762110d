//! Views that cannot be used.

use super::run;
use crate::{DEADLINE, failure, trial};
use anyhow::{Result, ensure};
use e2e::trial::Trial;

/// How the MiniCluster fails: exit code, reason and message.
async fn fails(trial: &Trial, name: &str) -> Result<(Option<i32>, String, String)> {
    let cluster = trial.await_finished(name, DEADLINE).await?;
    let (code, reason, message) = failure(&cluster)?;
    Ok((code, reason.to_owned(), message.to_owned()))
}

/// Mounted, it is the runner that looks for Flux; copied, the container that copies. With one pod, because the status
/// has the exit code of the lead alone, and a worker may fail before it.
#[test]
#[ignore = "needs a cluster"]
fn a_view_image_without_flux_is_told_with_the_places_that_were_searched() {
    trial("no-flux", &[], async |trial| {
        for (name, install) in [("copied", "Copy"), ("mounted", "Image")] {
            let view = format!("container: {{image: 'ubuntu:24.04', install: {install}}}");
            let more = format!("size: 1, flux: {{{view}}}");
            run(trial, name, &more, "command: 'echo once'").await?;
        }
        let (code, reason, message) = fails(trial, "mounted").await?;
        ensure!((code, &*reason) == (Some(66), "ViewUnusable"), "{code:?} {reason}: {message}");
        ensure!(message.contains("found no Flux"), "{message}");
        let (code, reason, message) = fails(trial, "copied").await?;
        ensure!((code, &*reason) == (None, "ContainerFailed"), "{code:?} {reason}: {message}");
        let told = "container flux-view exited with code 66: flux-agent: found no Flux";
        ensure!(message.contains(told) && message.contains("/opt/view"), "{message}");
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn a_view_that_does_not_fit_into_memory_is_told_with_the_limit() {
    trial("no-room", &[], async |trial| {
        let view = "install: Copy, medium: Memory, resources: {limits: {memory: 8Mi}}";
        let more = format!("size: 1, flux: {{container: {{{view}}}}}");
        let name = run(trial, "tight", &more, "command: 'echo once'").await?;
        let (_, reason, message) = fails(trial, &name).await?;
        ensure!(reason == "ContainerFailed", "{reason}: {message}");
        for word in ["container flux-view exited with code 66", "may have 8 MiB", "flux.container"]
        {
            ensure!(message.contains(word), "{message}");
        }
        Ok(())
    });
}
