//! MPI programs whose ranks do not find each other, and a rank that dies.

use crate::prelude::*;

/// A specification of two pods and four tasks of this image, whose command has these flags.
fn specification(image: &str, command: &str, flags: &str) -> String {
    format!(
        "{{size: 2, tasks: 4, flux: {{optionFlags: '{flags}'}}, \
         containers: [{{image: '{image}', command: '{command}'}}]}}"
    )
}

#[test]
#[ignore = "needs a cluster"]
fn a_program_whose_ranks_would_be_alone_is_refused() {
    let what = "the refusal of Open MPI 5";
    with_our_images("lone-ranks", what, async |trial| {
        if View::from_environment()?.has_pmix()? {
            notes::not_run(what, "it needs real Flux without flux-pmix");
            return Ok(());
        }
        for (name, image, command, flags, words) in [
            ("linked", "open-mpi-example:1", "hpcc", "", "hpcc is linked to Open MPI 5"),
            ("asked", "ubuntu:24.04", "echo once", "-o pmi=pmix", "pmi=pmix needs flux-pmix"),
        ] {
            let run = trial.start(name, &specification(image, command, flags)).await?;
            let (_, message) = run.fails("FluxRefused").await?;
            ensure!(message.contains(words), "{name}: {message}");
        }
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn a_rank_that_dies_ends_the_job_and_is_named() {
    with_our_images("dead-rank", "a rank of MPI that dies", async |trial| {
        let command = "if test $FLUX_TASK_RANK = 3; then exit 7; fi; exec mpi-sum";
        let dies = trial
            .start("dies", &specification("mpi-example:1", command, "-o exit-timeout=1s"))
            .await?;
        let (code, message) = dies.fails("CommandFailed").await?;
        ensure!(code == Some(7), "{code:?}: {message}");
        ensure!(message.contains("rank 3 on dies-1"), "{message}");
        Ok(())
    });
}
