//! Pages and lists: flags, exit codes, differences from the operator in Go. Metrics are checked beside their source.

use clap::{Arg, CommandFactory as _};
use flux_contract::Exit;
use flux_operator::cli::Cli;
use flux_testkit::repository::{in_repository, sources};

/// `UPDATE_EXPECT=1 cargo test -p flux-operator --test it pages` writes the table.
#[test]
fn the_page_lists_the_flags_of_the_operator() {
    let page = std::fs::read_to_string(in_repository("docs/flags.md")).unwrap();
    let page = with_table(&page, "flags", &flags());
    expect_test::expect_file!["../../../docs/flags.md"].assert_eq(&page);
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
    format!("| flag | variable | default | meaning |\n|---|---|---|---|\n{rows}")
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

/// Differences from the operator in Go, each with the tests that show it.
const DIFFERENCES: &str = include_str!("go_differences.txt");

#[test]
fn the_tests_for_differences_from_the_go_operator_exist() {
    let tests = sources(&["operator", "crates", "agent/tests", "e2e/tests"]);
    let bugs =
        (1..=24).map(|number| number.to_string()).chain(["1a", "1b", "9a"].map(String::from));
    let items = bugs.map(|number| format!("BUG {number}"));
    for item in items.chain((1..=19).map(|number| format!("DOC {number}"))) {
        let row = DIFFERENCES.split_once(&format!("\n{item}: "));
        let (_, row) = row.unwrap_or_else(|| panic!("{item} is not listed"));
        let names = row.lines().skip(1).map_while(|line| line.strip_prefix("    "));
        for name in names.clone() {
            assert!(tests.contains(&format!("fn {name}()")), "{item}: there is no test {name}");
        }
        assert!(names.count() > 0, "{item} has no test");
    }
}

#[test]
fn every_exit_code_of_the_agent_is_on_the_pages() {
    let page = |path| std::fs::read_to_string(in_repository(path)).unwrap();
    let (agent, troubleshooting) = (page("docs/agent.md"), page("docs/troubleshooting.md"));
    for exit in Exit::ALL {
        let row = format!("| {} | {} |", exit.code(), exit.reason());
        assert!(agent.contains(&row), "docs/agent.md has no row {row}");
        // No container ends with this code: a person calls its subcommand.
        let is_of_a_run = exit != Exit::Answer;
        let names = troubleshooting.contains(&format!("`{}`", exit.reason()));
        assert!(!is_of_a_run || names, "docs/troubleshooting.md lacks {}", exit.reason());
    }
}
