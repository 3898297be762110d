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
async fn any_command_of_flux_runs_in_the_lead() {
    let scene = Scene::hello("Running", "running").await;
    // The simulated API server starts no programs.
    scene.each_ends(&[("flux hello -- jobs -a", 125, "")]).await;
    let argv = "command=%2Fmnt%2Fflux%2Fbin%2Fflux&command=jobs&command=-a";
    let requests = scene.endpoint.requests();
    let is_run = |it: &String| it.contains("/hello-0-a/exec?") && it.contains(argv);
    assert!(requests.iter().any(is_run), "{requests:?}");
}
