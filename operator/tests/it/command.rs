//! The command `flux-operator`, as people and scripts run it.

use flux_operator::manifests::VIEW_IMAGE;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const VALID: &str = "apiVersion: flux-framework.org/v1alpha2\nkind: MiniCluster\nmetadata: {name: hello}\nspec:\n  containers: [{}]\n";

fn operator(arguments: &[&str], directory: &Path, input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_flux-operator"))
        .args(arguments)
        .current_dir(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn validate_reports_every_fault_of_everything_named_and_ends_with_0_1_or_2() {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("a.yaml", VALID.replace("containers", "size: 0\n  containers")),
        ("b.yaml", VALID.replace("containers", "taks: 1\n  containers")),
        ("c.yaml", VALID.to_owned()),
    ] {
        fs::write(directory.path().join(name), text).unwrap();
    }
    let validate = |arguments: &[&str], input: &str| {
        let output = operator(&[&["validate"], arguments].concat(), directory.path(), input);
        (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
    };
    assert_eq!(validate(&["c.yaml"], ""), (0, "c.yaml: 1 valid\n".to_owned(), String::new()));
    assert_eq!(validate(&["-"], VALID).0, 0);
    let (code, valid, faults) = validate(&["."], "");
    assert_eq!((code, valid.as_str()), (1, "./c.yaml: 1 valid\n"));
    assert_eq!(
        faults,
        "./a.yaml:5: hello: spec.size: 0 is out of range: give 1 to 100000\n\
         ./b.yaml:5: hello: spec.taks: no such field: remove it, or correct its name and place\n"
    );
    let (code, valid, faults) = validate(&["none.yaml", "a.yaml", "c.yaml"], "");
    assert_eq!((code, valid.as_str()), (2, "c.yaml: 1 valid\n"));
    assert!(faults.contains("read none.yaml: No such file") && faults.contains("spec.size"));
    let deep = "[".repeat(10_000);
    for endless in [&deep, &format!("{VALID}  pod: {{overlay: {deep}")] {
        let (code, _, faults) = validate(&["-"], endless);
        assert!(code == 1 && faults.len() < 2_000, "{code} {faults}");
    }
    assert_eq!(validate(&[], "").0, 2);
}

#[test]
fn manifests_are_written_or_printed_and_every_fault_of_the_options_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let manifests = |arguments: &[&str]| {
        let output = operator(&[&["manifests"], arguments].concat(), directory.path(), "");
        (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
    };
    let (code, printed, _) = manifests(&["--watch-namespace", "team", "--output-directory", "-"]);
    assert!(code == 0 && printed.contains("- --namespace=team"), "{code} {printed}");
    let (code, written, _) = manifests(&["--format", "helm", "--output-directory", "."]);
    assert!(code == 0 && written.contains("wrote ./templates/operator.yaml"), "{code} {written}");
    assert!(directory.path().join("crds/crd.yaml").is_file());
    let (code, _, faults) = manifests(&["--output-directory", "nosuch"]);
    assert!(code == 1 && faults.contains("there is no such directory"), "{code} {faults}");
    let wrong = ["--namespace", "A", "--registry", "a b", "--format", "helm"];
    let (code, printed, faults) = manifests(&[&wrong[..], &["--output-directory", "-"]].concat());
    assert_eq!((code, printed.as_str(), faults.lines().count()), (2, "", 4), "{faults}");
    assert!(faults.starts_with("flux-operator: --namespace: \"A\" cannot be"), "{faults}");
}

#[test]
fn images_are_listed_a_line_each_or_as_json() {
    let images = |arguments: &[&str]| {
        let output = operator(&[&["images"], arguments].concat(), Path::new("."), "");
        (output.status.code().unwrap(), text(&output.stdout))
    };
    let version = env!("CARGO_PKG_VERSION");
    let [operator_image, agent_image] =
        ["", "-agent"].map(|name| format!("r.example/flux-operator-rs{name}:{version}"));
    let names = [operator_image, agent_image, VIEW_IMAGE.to_owned()];
    let registry = ["--registry", "r.example"];
    assert_eq!(images(&registry), (0, format!("{}\n", names.join("\n"))));
    let (code, json) = images(&[&registry[..], &["--output", "json"]].concat());
    assert_eq!((code, serde_json::from_str::<Vec<String>>(&json).unwrap()), (0, names.to_vec()));
    assert_eq!(images(&["--registry", "r.example/"]).0, 2);
}

#[test]
fn every_example_is_valid() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let entries = fs::read_dir(examples).unwrap().map(|entry| entry.unwrap().path());
    let directories = entries.filter(|path| path.is_dir());
    let all = directories.flat_map(|path| [path.join("later"), path]).filter(|path| path.is_dir());
    let all: Vec<String> = all.map(|path| path.display().to_string()).collect();
    let arguments: Vec<&str> =
        ["validate"].into_iter().chain(all.iter().map(String::as_str)).collect();
    let output = operator(&arguments, Path::new("."), "");
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    assert!(text(&output.stdout).lines().count() >= 36);
}
