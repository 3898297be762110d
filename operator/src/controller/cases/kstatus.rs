//! What tools that know no MiniClusters make of a status.

use super::table::{STATES, Table};
use crate::controller::fixtures::mini_cluster;
use flux_api::crd::{MiniCluster, MiniClusterStatus};
use mlua::Lua;
use serde_json::{Value, json};
use std::io::Write as _;
use std::process::{Command, Stdio};

/// The result of the health check for Argo CD in docs/how-to/gitops.md.
pub(super) fn health(object: &MiniCluster, status: &MiniClusterStatus) -> String {
    health_of(&with_status(object, &json!(status)))
}

fn with_status(object: &MiniCluster, status: &Value) -> Value {
    let mut object = json!(object);
    object["status"] = status.clone();
    object
}

fn health_of(object: &Value) -> String {
    let page = include_str!("../../../../docs/how-to/gitops.md");
    let (_, entry) = page.split_once("health.flux-framework.org_MiniCluster: |\n").unwrap();
    let (script, _) = entry.split_once("```").unwrap();
    let lua = Lua::new();
    let object: mlua::Table = lua.load(table(object)).eval().unwrap();
    lua.globals().set("obj", object).unwrap();
    let health: mlua::Table = lua.load(script).eval().unwrap();
    assert!(!health.get::<String>("message").unwrap().is_empty());
    health.get("status").unwrap()
}

/// `value` as a constant of Lua.
fn table(value: &Value) -> String {
    let list = match value {
        Value::Object(fields) => {
            fields.iter().map(|(name, it)| format!("[{name:?}] = {}", table(it))).collect()
        }
        Value::Array(items) => items.iter().map(table).collect::<Vec<_>>(),
        Value::Null => return "nil".to_owned(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => return value.to_string(),
    };
    format!("{{ {} }}", list.join(", "))
}

/// A MiniCluster that no operator has seen yet.
fn new() -> Value {
    with_status(&mini_cluster(&json!({})), &json!({ "observedGeneration": -1 }))
}

#[test]
fn a_minicluster_that_no_operator_has_seen_is_progressing() {
    assert_eq!(health_of(&new()), "Progressing");
}

/// `cargo verify` builds the program: e2e/go/kstatus.
#[test]
#[ignore = "KSTATUS must name the program that calls kstatus itself"]
fn kstatus_itself_agrees() {
    let mut program = Command::new(std::env::var("KSTATUS").unwrap());
    let mut program = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let states = Table::new(&STATES);
    let cases = states.0.iter().map(|(title, _)| {
        let made = states.conclude(title);
        (*title, with_status(&made.object, &json!(made.status)))
    });
    let all: Vec<_> = cases.chain([("not seen yet", new())]).collect();
    let mut input = program.stdin.take().unwrap();
    for (_, object) in &all {
        writeln!(input, "{object}").unwrap();
    }
    drop(input);
    let computed = String::from_utf8(program.wait_with_output().unwrap().stdout).unwrap();
    let expected = all.iter().map(|(title, object)| match health_of(object).as_str() {
        "Healthy" | "Suspended" => format!("{title}: Current"),
        "Degraded" => format!("{title}: Failed"),
        _ => format!("{title}: InProgress"),
    });
    let results = computed.lines().zip(&all);
    let results = results.map(|(result, (title, _))| format!("{title}: {result}"));
    assert_eq!(results.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
}
