//! Tests of lifecycle, decision and status: each case in the files of `cases/` is a MiniCluster with its objects, as YAML,
//! and what follows from them, after `>`. `UPDATE_EXPECT=1 cargo test -p flux-operator --lib cases` writes the latter anew.

mod case;
mod decision;
mod kstatus;
mod objects;
mod pod;
mod state;
mod table;

pub(crate) use pod::PodCase;

use case::Conclusion;
use table::{DECISIONS, RESULT, STATES, Table};

/// `text` with other results: `results` gives them for a case by its title and the lines that are given.
pub(crate) fn renewed(text: &str, results: impl Fn(&str, &str) -> Option<Vec<String>>) -> String {
    let renewed = |block: &str| {
        let (title, lines) = block.split_once('\n').unwrap_or((block, ""));
        let given: Vec<_> = lines.lines().filter(|line| !line.starts_with(RESULT)).collect();
        let Some(results) = results(title, &given.join("\n")) else { return block.to_owned() };
        let results = results.iter().flat_map(|it| it.lines()).map(|it| format!("{RESULT}{it}"));
        let given = [title].into_iter().chain(given).map(str::to_owned);
        given.chain(results).collect::<Vec<_>>().join("\n")
    };
    text.trim_end().split("\n\n").map(renewed).collect::<Vec<_>>().join("\n\n") + "\n"
}

/// Compares the results in `files` of the directory `kind` with those that `lines` gives for each case.
fn check(kind: &str, files: &[(&str, &str)], lines: fn(&Conclusion) -> Vec<String>) {
    let table = Table::new(files);
    for (name, text) in files {
        let renewed = renewed(text, |title, _| {
            let is_case = table.0.iter().any(|(it, _)| *it == title);
            is_case.then(|| lines(&table.conclude(title)))
        });
        let path = format!("cases/{kind}/{name}.txt");
        expect_test::expect_file![path].assert_eq(&renewed);
    }
}

#[test]
fn each_case_has_its_decision() {
    check("decisions", &DECISIONS, decision::lines);
}

#[test]
fn each_case_has_its_status() {
    check("states", &STATES, state::lines);
}
