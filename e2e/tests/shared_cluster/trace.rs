//! `kubectl flux trace`: what each rank did, while it runs and when it has ended.

use crate::prelude::*;
use flux_contract::phase;

/// The last segment of each rank. Fails if a segment is outside of the axis.
fn last_segments(chart: &Value) -> Result<Vec<&Value>> {
    let whole = chart["milliseconds"].as_i64().context("the axis has a length")?;
    let rows = chart["rows"].as_array().context("the chart has rows")?;
    let segments = rows.iter().filter_map(|row| row["segments"].as_array()).flatten();
    for segment in segments {
        let [start, duration] = ["startMilliseconds", "durationMilliseconds"]
            .map(|field| segment[field].as_i64().unwrap_or(i64::MAX / 4));
        ensure!(start >= 0 && duration >= 0 && start + duration <= whole, "{segment}: {whole}");
    }
    Ok(rows.iter().filter_map(|row| row["segments"].as_array()?.last()).collect())
}

#[test]
#[ignore = "needs a cluster"]
fn the_trace_has_every_rank_during_and_after_runs() {
    trial("trace", async |trial| {
        let run = trial.run("trace-up", "size: 2, interactive: true", "").await?;
        run.ready_with(2).await?;
        let up = trial.plugin_json(&["trace", run.name])?;
        let last = last_segments(&up)?;
        let run_on = last.iter().all(|it| it["continues"] == true && it["name"] == phase::COMMAND);
        ensure!(last.len() == 2 && run_on, "{up}");
        let text = trial.plugin_prints(&["trace", run.name])?;
        ensure!(text.starts_with("RANK") && text.contains("\n1 "), "{text}");

        let spec = specification(&["size: 2"], "command: sh -c 'sleep 1; exit 7'");
        let ended = trial.start("trace-end", &spec).await?;
        ended.fails("CommandFailed").await?;
        let end = trial.plugin_json(&["trace", ended.name])?;
        let lead = &end["rows"][0];
        ensure!(lead["rank"] == 0 && lead["exitCode"] == 7, "{end}");
        let segments = lead["segments"].as_array().context("the lead has segments")?;
        let command = segments.iter().find(|segment| segment["name"] == phase::COMMAND);
        let took = command.and_then(|command| command["durationMilliseconds"].as_i64());
        ensure!(took.is_some_and(|took| took >= 1000), "{end}");
        last_segments(&end).map(drop)
    });
}
