//! A table of files, and the remarks about each.

use flux_api::offline::Checker;
use flux_testkit::samples::defaults;
use std::path::Path;

/// The first lines of most files.
const BEGIN: &str =
    "apiVersion: flux-framework.org/v1alpha2\nkind: MiniCluster\nmetadata:\n  name: hello";

/// The remarks about a file, in the order in which they are printed.
fn remarks(text: &str) -> Vec<String> {
    let found = Checker::new(defaults()).findings(Path::new("file"), text);
    let remarks = found.faults.iter().chain(&found.warnings).chain(&found.notes);
    let remarks = remarks.map(|remark| remark.to_string().replace('\n', "\\n"));
    [format!("checked: {}", found.checked)].into_iter().chain(remarks).collect()
}

/// `UPDATE_EXPECT=1 cargo test -p flux-api --test it files` writes the remarks anew.
#[test]
fn each_remark_names_line_and_field() {
    let (mut table, mut file) = (Vec::new(), Vec::new());
    for line in include_str!("files.txt").lines().filter(|line| !line.starts_with("    ")) {
        if let Some(text) = line.strip_prefix('|') {
            let text = text.strip_prefix(' ').unwrap_or(text);
            file.push(if text == "HELLO" { BEGIN } else { text });
        } else if !file.is_empty() {
            let remarks = remarks(&std::mem::take(&mut file).join("\n"));
            table.extend(remarks.iter().map(|remark| format!("    {remark}")));
        }
        table.push(line.to_owned());
    }
    expect_test::expect_file!["files.txt"].assert_eq(&(table.join("\n") + "\n"));
}
