//! The page for those who run the operator: its table of flags is what the program says. That of metrics is
//! checked beside them.

use crate::reference::in_repository;
use clap::{Arg, CommandFactory as _};
use flux_operator::cli::Cli;

/// Written anew by `UPDATE_EXPECT=1 cargo test -p flux-operator --test it reference`.
#[test]
fn the_flags_of_the_operator_are_those_of_the_program() {
    let page = std::fs::read_to_string(in_repository("docs/operations.md")).unwrap();
    let page = with_table(&page, "flags", &flags());
    expect_test::expect_file!["../../../../docs/operations.md"].assert_eq(&page);
}

/// `page` with `table` below the comment that announces it.
fn with_table(page: &str, name: &str, table: &str) -> String {
    let announcement = format!("<!-- {name}, as the program says: -->\n");
    let end = "<!-- end -->";
    let (before, rest) = page.split_once(&announcement).unwrap();
    let (_, after) = rest.split_once(end).unwrap();
    format!("{before}{announcement}\n{table}\n{end}{after}")
}

fn flags() -> String {
    let command = Cli::command();
    let run = command.find_subcommand("run").unwrap();
    let rows = run.get_arguments().filter(|flag| flag.get_env().is_some()).map(row);
    let rows: String = rows.collect();
    format!("| flag | variable | default | what it says |\n|---|---|---|---|\n{rows}")
}

fn row(flag: &Arg) -> String {
    let name = flag.get_long().unwrap();
    let variable = flag.get_env().unwrap().to_string_lossy();
    let default = flag.get_default_values().first();
    let default = default.map(|value| format!("`{}`", value.to_string_lossy()));
    let default = default.unwrap_or_default();
    let help = flag.get_help().unwrap().to_string();
    let values = flag.get_possible_values().into_iter().map(|value| value.get_name().to_owned());
    let values: Vec<_> = values.map(|value| format!("`{value}`")).collect();
    let is_choice = !values.is_empty() && !values.contains(&"`true`".to_owned());
    let values = if is_choice { format!(": {}", values.join(", ")) } else { String::new() };
    format!("| `--{name}` | `{variable}` | {default} | {help}{values} |\n")
}
