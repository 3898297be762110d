//! Every field of `status` says something at some time: the fields are taken from the definition, so
//! that a new one cannot be forgotten.

use crate::support::any_spec::{OBJECT, VERSION};
use crate::support::field_path::{get, leaves};
use crate::support::world::{CLUSTER, JOB, World, finish};
use serde_json::json;

#[tokio::test]
async fn every_field_of_the_status_says_something_at_some_time() {
    let world = World::reconciled(&json!({})).await;
    let reported = || world.server.get(CLUSTER).unwrap()["status"].clone();
    let mut life = vec![reported()];
    world.server.change(JOB, |job| {
        job["status"] = json!({ "startTime": "2026-01-01T00:00:00Z", "active": 4, "ready": 4 });
    });
    world.reconcile().await.unwrap();
    life.push(reported());
    finish(&world, "Failed", 7);
    world.reconcile().await.unwrap();
    life.push(reported());
    let fields = leaves(&OBJECT["properties"]["status"]);
    assert!(fields.len() > 15, "only {} fields were found", fields.len());
    let is_silent = |path: &&str| {
        life.iter().all(|status| [json!(null), json!(0), json!("")].contains(&get(status, path, 0)))
    };
    let silent = fields.iter().map(|(path, _)| path.as_str()).filter(is_silent);
    assert_eq!(silent.collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn columns_and_the_scale_subresource_name_fields_that_exist() {
    let fields: Vec<String> = leaves(&OBJECT).into_iter().map(|(path, _)| path).collect();
    let scale = VERSION["subresources"]["scale"].as_object().unwrap().values();
    let columns = VERSION["additionalPrinterColumns"].as_array().unwrap();
    let paths = scale.chain(columns.iter().map(|column| &column["jsonPath"]));
    for path in paths.map(|path| path.as_str().unwrap()) {
        assert!(fields.iter().any(|it| it == path) || path.starts_with(".metadata."), "{path}");
    }
}
