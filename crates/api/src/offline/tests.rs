use super::*;
use crate::fixtures;

const VALID: &str = "apiVersion: flux-framework.org/v1alpha2\nkind: MiniCluster\nmetadata:\n  name: hello\nspec:\n  containers: [{image: app}]\n";

#[test]
fn a_flood_of_faults_is_cut_short() {
    let text = (0..FAULT_LIMIT + 5)
        .fold(VALID.to_owned(), |text, number| text + &format!("  x{number}: 1\n"));
    let faults = Checker::new(fixtures::defaults()).findings(Path::new("a"), &text).faults;
    assert_eq!(faults.len(), FAULT_LIMIT + 1);
    assert_eq!(faults[FAULT_LIMIT].to_string(), "a: hello: 5 further faults");
}

#[test]
fn an_endless_input_is_not_read() {
    let checker = Checker::new(fixtures::defaults());
    let endless = checker.check(Path::new("-"), &mut "#".repeat(17 << 20).as_bytes()).unwrap_err();
    assert!(endless.to_string().contains("larger than 16 MiB"), "{endless}");
}
