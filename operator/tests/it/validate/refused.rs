//! The table of what is refused, or without effect.

use crate::support::{defaults, hello};
use flux_operator::cluster::validate::validate;
use serde_json::Value;

/// What is said of a specification, each in an indented line.
fn said(spec: &str) -> String {
    let spec: Value = serde_saphyr::from_str(spec).unwrap();
    let object = hello(&spec);
    let by = if object.validate_cel().is_err() { "both" } else { "operator" };
    match validate(&object, &defaults()) {
        Err(faults) => faults.0.iter().map(|fault| format!("    {by}: {fault}\n")).collect(),
        Ok(cluster) => {
            cluster.not_acted_on.iter().map(|path| format!("    no effect: {path}\n")).collect()
        }
    }
}

#[test]
fn what_is_refused_or_without_effect_is_named_with_its_place() {
    let specifications = include_str!("refused.txt").lines().filter(|it| !it.starts_with("    "));
    let line = |line: &str| match line.starts_with('{') {
        true => format!("{line}\n{}", said(line)),
        false => format!("{line}\n"),
    };
    expect_test::expect_file!["refused.txt"]
        .assert_eq(&specifications.map(line).collect::<String>());
}
