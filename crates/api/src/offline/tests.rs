use super::*;
use crate::fixtures;
use std::fs;

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
fn files_directories_and_the_standard_input_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let checker = Checker::new(fixtures::defaults());
    let check = |argument: &Path, input: &str| checker.check(argument, &mut input.as_bytes());
    let texts = |all: Vec<Findings>| -> Vec<String> {
        all.iter().flat_map(|findings| &findings.faults).map(ToString::to_string).collect()
    };
    assert_eq!(
        texts(check(directory.path(), "").unwrap()),
        [format!("{}: no MiniCluster in here", directory.path().display())]
    );
    let pod = "apiVersion: v1\nkind: Pod\n";
    for (name, text) in [("b.yaml", VALID), ("a.yml", pod), ("c.txt", "a: [")] {
        fs::write(directory.path().join(name), text).unwrap();
    }
    let all = check(directory.path(), "").unwrap();
    let files: Vec<&Path> = all.iter().map(|findings| findings.file.as_path()).collect();
    assert_eq!(files, [directory.path().join("b.yaml")]);
    let pod = check(&directory.path().join("a.yml"), "").unwrap();
    assert!(texts(pod)[0].ends_with("a.yml: no MiniCluster in here"));
    assert_eq!(check(Path::new("-"), VALID).unwrap()[0].checked, 1);
    assert_eq!(texts(check(Path::new("-"), "").unwrap()), ["-: no MiniCluster in here"]);
    let missing = check(&directory.path().join("none"), "").unwrap_err();
    assert!(missing.to_string().starts_with("read "), "{missing}");
    let endless = check(Path::new("-"), &"#".repeat(17 << 20)).unwrap_err();
    assert!(endless.to_string().contains("larger than 16 MiB"), "{endless}");
}
