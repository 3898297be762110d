//! The command `flux-operator`, as people and scripts run it.

use flux_testkit::repository::in_repository;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const VALID: &str = "apiVersion: flux-framework.org/v1alpha2\nkind: MiniCluster\nmetadata: {name: hello}\nspec:\n  containers: [{image: app}]\n";

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
fn validate_reports_every_fault_by_text_and_exit_code() {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("a.yaml", VALID.replace("containers", "size: 0\n  containers")),
        ("b.yaml", VALID.replace("containers", "taks: 1\n  containers")),
        ("c.yaml", VALID.to_owned()),
        ("pod.yml", "apiVersion: v1\nkind: Pod\n".to_owned()),
        ("text.txt", "a: [".to_owned()),
    ] {
        fs::write(directory.path().join(name), text).unwrap();
    }
    fs::create_dir(directory.path().join("empty")).unwrap();
    let validate = |arguments: &[&str], input: &str| {
        let output = operator(&[&["validate"], arguments].concat(), directory.path(), input);
        (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
    };
    assert_eq!(validate(&["c.yaml"], ""), (0, "c.yaml: 1 valid\n".to_owned(), String::new()));
    assert_eq!(validate(&["-"], VALID).0, 0);
    for nothing in ["empty", "pod.yml", "-"] {
        let fault = format!("{nothing}: no MiniCluster in here\n");
        assert_eq!(validate(&[nothing], ""), (1, String::new(), fault));
    }
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
    let twice = VALID.replace("spec:", "spec:\n  size: 1\n  size: 2");
    let (_, _, faults) = validate(&["-"], &twice);
    assert!(faults.contains(":6: ") && faults.contains("duplicate mapping key: size"), "{faults}");
    assert!(!faults.contains("Options"), "nothing that only a programmer could do: {faults}");
    assert_eq!(validate(&[], "").0, 2);
}

/// `UPDATE_EXPECT=1 cargo test -p flux-operator --test it command` writes the files: Helm warns of a link in a chart.
#[test]
fn the_command_prints_the_definition_in_deploy() {
    let printed = text(&operator(&["crd"], Path::new("."), "").stdout);
    let definition: CustomResourceDefinition = serde_saphyr::from_str(&printed).unwrap();
    assert_eq!(definition, flux_api::crd::definition::definition().unwrap());
    for copy in [
        expect_test::expect_file!["../../../deploy/crd.yaml"],
        expect_test::expect_file!["../../../deploy/chart/crds/crd.yaml"],
    ] {
        copy.assert_eq(&printed);
    }
}

#[test]
fn ping_waits_for_a_listener() {
    let ping = |address: &str| {
        let output = operator(&["ping", address, "--timeout=0"], Path::new("."), "");
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let answer = (Some(0), format!("an operator is ready at {address}\n"), String::new());
    assert_eq!(ping(&address), answer);
    drop(listener);
    let (code, _, error) = ping(&address);
    assert!(code == Some(1) && error.contains("NetworkPolicy") && error.contains("refused"));
}

#[test]
fn every_example_is_valid() {
    let entries =
        fs::read_dir(in_repository("examples")).unwrap().map(|entry| entry.unwrap().path());
    let directories = entries.filter(|path| path.is_dir());
    let all = directories.flat_map(|path| [path.join("later"), path]).filter(|path| path.is_dir());
    // What is applied later there is no MiniCluster.
    let is_other =
        |path: &PathBuf| ["metrics-api/later", "resume/later"].iter().any(|it| path.ends_with(it));
    let all = all.filter(|path| !is_other(path));
    let all: Vec<String> = all.map(|path| path.display().to_string()).collect();
    let arguments: Vec<&str> =
        ["validate"].into_iter().chain(all.iter().map(String::as_str)).collect();
    let output = operator(&arguments, Path::new("."), "");
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    assert!(text(&output.stdout).lines().count() >= 36);
}
