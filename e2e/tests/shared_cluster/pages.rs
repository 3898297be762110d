//! Commands and manifests of the pages, as they are written there.

use crate::prelude::*;
use e2e::product::checkout;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::PostParams;

const QUICKSTART: &str = include_str!("../../../docs/quickstart.md");
const RESTRICTED: &str = include_str!("../../../docs/how-to/restricted-clusters.md");

/// The first MiniCluster of the quickstart: each line to type, with the output that the page shows.
fn hello_world() -> Vec<(&'static str, Vec<&'static str>)> {
    let section = QUICKSTART.split_once("\n## Run hello-world\n").unwrap().1;
    let block = section.split_once("```console\n").unwrap().1.split_once("```").unwrap().0;
    let typed = block.split("$ ").skip(1).map(|typed| {
        let mut lines = typed.lines();
        (lines.next().unwrap_or_default(), lines.collect())
    });
    typed.collect()
}

/// The words of a line; the columns of a table are as wide as they need to be, and ages differ.
fn words(line: &str) -> Vec<&str> {
    let is_age =
        |word: &str| word.starts_with(|c: char| c.is_ascii_digit()) && word.ends_with(['s', 'm']);
    line.split_whitespace().map(|word| if is_age(word) { "<age>" } else { word }).collect()
}

/// Runs the line, which calls kubectl once or several times, as in the directory of the checkout.
fn run(trial: &Trial, line: &str) -> Result<String> {
    let mut printed = String::new();
    let line = line.replace(" examples/", &format!(" {}/examples/", checkout()?.display()));
    for command in line.split(" && ") {
        let words = shlex::split(command).with_context(|| format!("reading {command:?}"))?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        ensure!(words.first() == Some(&"kubectl"), "this is not run here: {command}");
        printed = trial.kubectl(&words[1..])?;
    }
    Ok(printed)
}

#[test]
#[ignore = "needs a cluster"]
fn hello_world_of_the_quickstart_works() {
    trial("quickstart", async |trial| {
        let typed = hello_world();
        ensure!(typed.len() == 3, "{typed:?}");
        for (line, shown) in typed {
            let printed = run(trial, line)?;
            let printed: Vec<Vec<&str>> = printed.lines().map(words).collect();
            for expected in shown.iter().filter(|line| **line != "...") {
                let is_printed = printed.contains(&words(expected));
                ensure!(is_printed, "{line}\nprinted, without {expected:?}:\n{printed:#?}");
            }
        }
        Ok(())
    });
}

/// Evicts a pod by kubectl, because the tests' own client repeats a request that is refused with code 429 for minutes.
fn evict(trial: &Trial, pod: &str) -> Result<()> {
    let eviction = json!({
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": pod },
    });
    let file = tempfile::NamedTempFile::new()?;
    serde_json::to_writer(&file, &eviction)?;
    let path = format!("/api/v1/namespaces/{}/pods/{pod}/eviction", trial.namespace());
    let file = file.path().to_string_lossy();
    trial.kubectl(&["create", "--raw", &path, "--filename", &file]).map(drop)
}

#[test]
#[ignore = "needs a cluster"]
fn the_pages_disruption_budget_keeps_a_running_lead() {
    trial("budget", async |trial| {
        let mut blocks = RESTRICTED.split("```yaml\n").filter_map(|it| it.split_once("```"));
        let budget = blocks.find(|(block, _)| block.contains("kind: PodDisruptionBudget"));
        let budget = budget.context("the page has no budget")?.0.replace("NAME", "kept");
        let budget: PodDisruptionBudget = serde_saphyr::from_str(&budget)?;
        let run = trial.run("kept", "size: 2", &then_on(2)).await?;
        let lead = run.ready().await?;
        trial.api().create(&PostParams::default(), &budget).await?;
        let healthy = "--for=jsonpath={.status.currentHealthy}=1";
        run.kubectl(&["wait", "poddisruptionbudget/lead", healthy, "--timeout=1m"])?;
        let refused = evict(trial, &lead).err().context("the lead was evicted")?;
        ensure!(format!("{refused:#}").contains("disruption budget"), "{refused:#}");
        run.ends_on(2).await?;
        // The API server ignores the budget of a pod whose phase is final; the MiniCluster is complete a little earlier.
        let phase = "--for=jsonpath={.status.phase}=Succeeded";
        run.kubectl(&["wait", &format!("pod/{lead}"), phase, "--timeout=1m"])?;
        evict(trial, &lead).context("evicting the lead when its run has ended")
    });
}
