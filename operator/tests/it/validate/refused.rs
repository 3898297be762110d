//! The table of what is refused.

use crate::support::{defaults, hello};
use flux_operator::cluster::validate::validate;
use serde_json::Value;

/// The faults of a specification, each in an indented line.
fn faults(spec: &str) -> String {
    let spec: Value = serde_saphyr::from_str(spec).unwrap();
    let object = hello(&spec);
    let by = if object.validate_cel().is_err() { "both" } else { "operator" };
    let refused = validate(&object, &defaults()).unwrap_err();
    refused.0.iter().map(|fault| format!("    {by}: {fault}\n")).collect()
}

#[test]
fn what_is_refused_is_named_with_its_place_and_a_remedy() {
    let specifications = include_str!("refused.txt").lines().filter(|it| !it.starts_with("    "));
    let line = |line: &str| match line.starts_with('{') {
        true => format!("{line}\n{}", faults(line)),
        false => format!("{line}\n"),
    };
    expect_test::expect_file!["refused.txt"]
        .assert_eq(&specifications.map(line).collect::<String>());
}
