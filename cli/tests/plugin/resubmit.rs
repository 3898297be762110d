//! `resubmit`: the new object; `flux`: what runs where.

use crate::scene::{MINICLUSTERS, Scene};
use serde_json::{Value, json};

#[tokio::test]
async fn a_resubmission_has_the_specification_of_the_old() {
    let scene = Scene::new().await;
    scene.minicluster("hello-x7k2p", "Failed", "CommandFailed", Some(1));
    scene.endpoint.server.change(&format!("{MINICLUSTERS}/hello-x7k2p"), |old| {
        old["metadata"]["labels"] = json!({ "team": "a" });
        old["metadata"]["annotations"] = json!({ "note": "b", "flux-framework.org/resume": "c" });
        old["spec"]["suspend"] = json!(true);
        old["spec"]["fieldOfANewerOperator"] = json!(1);
    });
    let ended = scene.ends(&["resubmit", "hello-x7k2p"]).await;
    assert_eq!(ended.code, 0, "{}", ended.err);
    let name =
        ended.out.trim_end().strip_prefix("minicluster.flux-framework.org/").unwrap().to_owned();
    assert!(name.starts_with("hello-") && name.len() == 11 && name != "hello-x7k2p", "{name}");
    let new = scene.get(&name).unwrap();
    assert_eq!(new["metadata"]["labels"], json!({ "team": "a" }));
    assert_eq!(new["metadata"]["annotations"], json!({ "note": "b" }));
    assert_eq!((&new["status"], &new["spec"]["suspend"]), (&Value::Null, &Value::Null));
    assert_eq!(new["spec"]["fieldOfANewerOperator"], 1);
    assert_eq!(new["spec"]["containers"][0]["command"], "true");
    let lines = [
        ("resubmit hello-x7k2p --name=again", 0, "minicluster.flux-framework.org/again\n"),
        ("resubmit hello-x7k2p --name=@last", 2, "@last is the newest"),
        ("resubmit nosuch", 1, "there is no MiniCluster"),
    ];
    scene.each_ends(&lines).await;
}

#[tokio::test]
async fn a_resubmission_in_place_changes_only_the_run_id() {
    let scene = Scene::new().await;
    scene.minicluster("hello", "Failed", "CommandFailed", Some(1));
    let before = scene.get("hello").unwrap();
    let mut seen = Vec::new();
    for _ in 0..2 {
        let line = ("resubmit hello --in-place", 0, "minicluster.flux-framework.org/hello\n");
        scene.each_ends(&[line]).await;
        let mut spec = scene.get("hello").unwrap()["spec"].clone();
        seen.push(spec.as_object_mut().unwrap().remove("runId").unwrap());
        assert_eq!(spec, before["spec"]);
    }
    assert!(seen[0] != seen[1] && seen[0].as_str().is_some_and(|id| id.starts_with("run-")));
    let lines = [
        ("resubmit hello --in-place --name=b", 2, "cannot be used with"),
        ("resubmit nosuch --in-place", 1, "there is no MiniCluster"),
    ];
    scene.each_ends(&lines).await;
}

#[tokio::test]
async fn the_status_shows_earlier_runs_and_numbers_of_jobs() {
    let scene = Scene::new().await;
    scene.minicluster("hello", "Failed", "CommandFailed", Some(1));
    let run = |id: &str, state: &str, code: u8, second: u8, jobs: Value| {
        json!({
            "runId": id, "state": state, "exitCode": code, "size": 2, "jobs": jobs,
            "startTime": "2026-01-01T00:00:00Z",
            "completionTime": format!("2026-01-01T00:00:{second:02}Z"),
        })
    };
    scene.change("hello", |object| {
        let numbers = json!({ "successful": 3, "failed": 1, "notRun": 12 });
        object["status"]["result"] = json!({ "exitCode": 1, "jobs": numbers });
        object["status"]["history"] =
            json!([run("b", "Failed", 1, 7, numbers), run("a", "Complete", 0, 42, Value::Null)]);
    });
    let ended = scene.ends(&["status", "hello"]).await;
    assert!(ended.out.contains("jobs: 3 successful, 1 failed, 12 not run\n"), "{}", ended.out);
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines: Vec<String> = ended.out.lines().map(words).collect();
    for line in [
        "RUN STATE EXIT PODS TOOK JOBS",
        "b Failed 1 2 7s 3 successful, 1 failed, 12 not run",
        "a Complete 0 2 42s -",
    ] {
        assert!(lines.iter().any(|it| it == line), "{line}: {lines:#?}");
    }
}

#[tokio::test]
async fn any_command_of_flux_runs_in_the_lead() {
    let scene = Scene::hello("Running", "running").await;
    // The simulated API server starts no programs.
    scene.each_ends(&[("flux hello -- jobs -a", 125, "")]).await;
    let argv = "command=%2Fmnt%2Fflux%2Fbin%2Fflux&command=jobs&command=-a";
    let requests = scene.endpoint.requests();
    let is_run = |it: &String| it.contains("/hello-0-a/exec?") && it.contains(argv);
    assert!(requests.iter().any(is_run), "{requests:?}");
}
