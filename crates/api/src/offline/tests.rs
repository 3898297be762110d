use super::*;
use crate::fixtures;
use std::fs;
use std::path::Path;

const HEADER: &str =
    "apiVersion: flux-framework.org/v1alpha2\nkind: MiniCluster\nmetadata:\n  name: hello\n";

fn checker() -> Checker {
    Checker::new(fixtures::defaults())
}

fn check_text(text: &str) -> Findings {
    checker().findings(Path::new("file.yaml"), text)
}

/// The faults of a MiniCluster whose `spec` is on line 5 and below.
fn faults(spec: &str) -> Vec<String> {
    let found = check_text(&format!("{HEADER}{spec}"));
    found.faults.iter().map(ToString::to_string).collect()
}

#[test]
fn every_fault_is_reported_with_line_and_path() {
    let spec = "spec:
  size: 4
  maxSize: 2
  taks: 3
  containers:
    - command: echo 'a
      fluxUser:
        uid: 0
      image: app
";
    let faults = faults(spec);
    for (fault, begin) in faults.iter().zip([
        "file.yaml:7: hello: spec.maxSize: size must not be greater than maxSize",
        "file.yaml:8: hello: spec.taks: no such field: remove it, or correct its name",
        "file.yaml:10: hello: spec.containers[0].command: ",
        "file.yaml:12: hello: spec.containers[0].fluxUser.uid: 0 is out of range: give at least 1",
    ]) {
        assert!(fault.starts_with(begin), "{fault}");
    }
    assert_eq!(faults.len(), 4, "{faults:#?}");
}

#[test]
fn an_unreadable_value_is_reported_with_line_path_and_type() {
    for (spec, line, fault) in [
        ("size: \"4\"", 6, "spec.size: invalid type: string \"4\", expected i32"),
        ("backoffLimit: 3000000000", 6, "spec.backoffLimit: invalid value: integer `3000000000`"),
        (
            "interactive: 'yes'",
            6,
            "spec.interactive: invalid type: string \"yes\", expected a boolean",
        ),
        ("archive: {}", 6, "spec.archive: missing field `path`"),
        ("logging: true", 6, "spec.logging: invalid type: boolean `true`, expected struct Logging"),
        (
            "pod:\n    labels:\n      a.b: 4",
            8,
            "spec.pod.labels.a.b: invalid type: integer `4`, expected a string",
        ),
        (
            "services:\n    - name: a\n      volumes:\n        - name: data",
            8,
            "spec.services[0].volumes: invalid type: sequence, expected a map",
        ),
    ] {
        let found =
            check_text(&format!("{HEADER}spec:\n  {spec}\n  containers: [{{image: app}}]\n"));
        let texts: Vec<String> = found.faults.iter().map(ToString::to_string).collect();
        assert_eq!(texts.len(), 1, "{found:#?}");
        assert!(texts[0].starts_with(&format!("file.yaml:{line}: hello: {fault}")), "{texts:?}");
        assert_eq!(found.notes.len(), 1, "{found:#?}");
    }
}

#[test]
fn every_unknown_field_is_named() {
    let text = HEADER.to_owned()
        + "  nmespace: b
sepc: {}
spec:
  Interactive: true
  flux: { bursting: { leadBroker: { port: 1, prt: 2 } } }
  pod: { overlay: { anything: 1 } }
  containers:
    - volumes: { a: { path: /a, existing: b } }
      securityContext: { addCapabilities: [] }
      resources: { limits: { any: 1 } }
    - name: b
      enviroment: {}
";
    let found = check_text(&text);
    let named = found.faults.iter().filter_map(|fault| {
        let end = ": no such field: remove it, or correct its name and place";
        Some((fault.line.unwrap(), fault.message.strip_suffix(end)?))
    });
    let expected = [
        (5, "metadata.nmespace"),
        (6, "sepc"),
        (8, "spec.Interactive"),
        (9, "spec.flux.bursting.leadBroker.prt"),
        (12, "spec.containers[0].volumes.a.existing"),
        (13, "spec.containers[0].securityContext.addCapabilities"),
        (16, "spec.containers[1].enviroment"),
    ];
    assert_eq!(named.collect::<Vec<_>>(), expected);
}

#[test]
fn a_field_without_effect_is_a_note() {
    let text = format!("{HEADER}spec:\n  containers:\n    - image: a\n      batchRaw: true\n");
    let found = check_text(&text);
    assert_eq!((found.faults.len(), found.notes.len()), (0, 1), "{found:#?}");
    let note = found.notes[0].to_string();
    assert!(
        note.starts_with("file.yaml:8: hello: note: spec.containers[0].batchRaw: not acted on"),
        "{note}"
    );
}

#[test]
fn a_wrong_api_version_or_kind_is_named() {
    let good = format!("{HEADER}spec: {{containers: [{{image: app}}]}}\n");
    let version = "is not what this operator serves: write flux-framework.org/v1alpha2";
    for (line, replaced, fault) in [
        (
            "kind: MiniCluster\n",
            "kind: Minicluster\n",
            "file.yaml:2: hello: kind: \"Minicluster\" is not what this operator serves: write MiniCluster",
        ),
        (
            "apiVersion: flux-framework.org/v1alpha2\n",
            "",
            "file.yaml:1: hello: apiVersion: missing: write flux-framework.org/v1alpha2",
        ),
        (
            "/v1alpha2\n",
            "/v1alpha1\n",
            &format!("file.yaml:1: hello: apiVersion: \"flux-framework.org/v1alpha1\" {version}"),
        ),
        (
            "kind: MiniCluster\n",
            "",
            "file.yaml:1: kind: missing: every object has apiVersion and kind",
        ),
    ] {
        let found = check_text(&good.replace(line, replaced));
        let texts: Vec<String> = found.faults.iter().map(ToString::to_string).collect();
        assert_eq!(texts, [fault]);
    }
}

#[test]
fn documents_and_lists_are_checked_one_by_one() {
    let one = format!("{HEADER}spec:\n  containers: [{{image: app}}]\n");
    let pod = "apiVersion: v1\nkind: Pod\n";
    assert_eq!(check_text(&format!("{one}---\n{pod}---\n{one}")).checked, 2);
    let list = "apiVersion: v1\nkind: List\nitems:\n- kind: Pod\n- kind: MiniCluster\n  apiVersion: flux-framework.org/v1alpha2\n  metadata: {name: a}\n  spec: {containers: [{image: app}], size: 0}\n";
    let found = check_text(list);
    assert_eq!((found.checked, found.faults[0].line), (1, Some(8)), "{found:#?}");
    let generated =
        HEADER.replace("name", "generateName") + "spec:\n  containers: [{image: app}]\n";
    assert_eq!(check_text(&generated).faults, []);
}

#[test]
fn invalid_or_deeply_nested_yaml_is_one_fault() {
    let deep = format!("{HEADER}spec: {}", "{\"a\":".repeat(10_000) + "1" + &"}".repeat(10_000));
    let overlay = format!("{HEADER}spec:\n  pod: {{overlay: {}", "[".repeat(10_000));
    for text in ["a: [", "a: b: c", &deep, &overlay] {
        let found = check_text(text);
        assert_eq!(found.faults.len(), 1, "{found:#?}");
        assert!(found.faults[0].message.len() < 2_000, "{found:#?}");
        assert!(found.faults[0].line.is_some(), "{found:#?}");
    }
}

#[test]
fn a_flood_of_faults_is_cut_short() {
    let fields = (0..FAULT_LIMIT + 5)
        .fold("spec:\n  containers: [{image: app}]\n".to_owned(), |text, number| {
            text + &format!("  x{number}: 1\n")
        });
    let faults = faults(&fields);
    assert_eq!(faults.len(), FAULT_LIMIT + 1);
    assert_eq!(faults[FAULT_LIMIT], "file.yaml: hello: 5 further faults");
}

#[test]
fn files_directories_and_the_standard_input_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let checker = checker();
    let check = |argument: &Path, input: &str| checker.check(argument, &mut input.as_bytes());
    let texts = |all: Vec<Findings>| -> Vec<String> {
        all.iter().flat_map(|findings| &findings.faults).map(ToString::to_string).collect()
    };
    assert_eq!(
        texts(check(directory.path(), "").unwrap()),
        [format!("{}: no MiniCluster in here", directory.path().display())]
    );
    let valid = format!("{HEADER}spec:\n  containers: [{{image: app}}]\n");
    let pod = "apiVersion: v1\nkind: Pod\n";
    for (name, text) in [("b.yaml", valid.as_str()), ("a.yml", pod), ("c.txt", "a: [")] {
        fs::write(directory.path().join(name), text).unwrap();
    }
    let all = check(directory.path(), "").unwrap();
    let files: Vec<&Path> = all.iter().map(|findings| findings.file.as_path()).collect();
    assert_eq!(files, [directory.path().join("b.yaml")]);
    let pod = check(&directory.path().join("a.yml"), "").unwrap();
    assert!(texts(pod)[0].ends_with("a.yml: no MiniCluster in here"));
    assert_eq!(check(Path::new("-"), &valid).unwrap()[0].checked, 1);
    assert_eq!(texts(check(Path::new("-"), "").unwrap()), ["-: no MiniCluster in here"]);
    let missing = check(&directory.path().join("none"), "").unwrap_err();
    assert!(missing.to_string().starts_with("read "), "{missing}");
    let endless = check(Path::new("-"), &"#".repeat(17 << 20)).unwrap_err();
    assert!(endless.to_string().contains("larger than 16 MiB"), "{endless}");
}
