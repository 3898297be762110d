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

/// Compares the results in `files` of the directory `kind` with those that `lines` gives for each case.
fn check(kind: &str, files: &[(&str, &str)], lines: fn(&Conclusion) -> Vec<String>) {
    let table = Table::new(files);
    let renewed = |block: &str| {
        let title = block.lines().next().unwrap();
        let Some((_, given)) = table.0.iter().find(|(it, _)| *it == title) else {
            return block.to_owned();
        };
        let results =
            lines(&table.conclude(title)).join("\n").replace('\n', &format!("\n{RESULT}"));
        let given = if given.is_empty() { String::new() } else { format!("{given}\n") };
        format!("{title}\n{given}{RESULT}{results}")
    };
    for (name, text) in files {
        let blocks: Vec<_> = text.trim_end().split("\n\n").map(renewed).collect();
        let path = format!("cases/{kind}/{name}.txt");
        expect_test::expect_file![path].assert_eq(&(blocks.join("\n\n") + "\n"));
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
