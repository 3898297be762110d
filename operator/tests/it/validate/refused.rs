//! The table of what is refused, or without effect.

use crate::support::{defaults, hello};
use flux_operator::cluster::validate::validate;

/// `spec` and what is said of it, each in an indented line.
fn said(spec: &str) -> Vec<String> {
    let object = hello(&serde_saphyr::from_str(spec).unwrap());
    let by = if object.validate_cel().is_err() { "both" } else { "operator" };
    let said: Vec<String> = match validate(&object, &defaults()) {
        Err(faults) => faults.0.iter().map(|fault| format!("    {by}: {fault}")).collect(),
        Ok(cluster) => {
            cluster.not_acted_on.iter().map(|it| format!("    no effect: {it}")).collect()
        }
    };
    [vec![spec.to_owned()], said].concat()
}

#[test]
fn what_is_refused_or_without_effect_is_named_with_its_place() {
    let table = include_str!("refused.txt").lines().filter(|line| !line.starts_with("    "));
    let lines = table.flat_map(|line| match line.strip_prefix('{') {
        Some(_) => said(line),
        None => vec![line.to_owned()],
    });
    let table = lines.collect::<Vec<_>>().join("\n") + "\n";
    expect_test::expect_file!["refused.txt"].assert_eq(&table);
}
