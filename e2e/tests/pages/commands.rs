//! Each command line of this project in the pages has existing subcommands and options.

use crate::page::{Page, pages};
use crate::repository;
use clap::CommandFactory as _;
use clap::error::ErrorKind;
use flux_operator::cli::Cli;
use std::path::Path;

/// Words of a shell that separate one command from the next, or from a file.
const OPERATORS: [&str; 5] = ["&&", "||", "|", ";", ">"];

#[derive(Debug)]
struct Call {
    program: &'static str,
    arguments: Vec<String>,
}

const PROGRAMS: [&str; 5] = ["flux-agent", "flux-view", "flux-operator", "kubectl-flux", "e2e"];

fn alias(name: &str) -> Option<Vec<String>> {
    let configuration = std::fs::read_to_string(repository().join(".cargo/config.toml")).unwrap();
    let lines = configuration.lines().filter_map(|line| line.split_once(" = "));
    let (_, words) = lines.into_iter().find(|(alias, _)| *alias == name)?;
    shlex::split(words.trim_matches('"'))
}

/// The calls of this project's programs in `words`.
fn calls_in(words: &[String]) -> Vec<Call> {
    let assigns = |word: &&String| word.split_once('=').is_some_and(|(name, _)| is_variable(name));
    let mut words = words[words.iter().take_while(assigns).count()..].to_vec();
    if words.starts_with(&["kubectl", "flux"].map(str::to_owned)) {
        words.splice(..2, ["kubectl-flux".to_owned()]);
    }
    if words.len() > 1 && words[0] == "cargo" {
        let subcommand = words[1].clone();
        words.splice(..2, alias(&subcommand).unwrap_or_else(|| vec![subcommand]));
        if words[0] != "run" {
            return Vec::new();
        }
    }
    // Behind `--` is a command that runs in a container.
    let called =
        |at: usize| at == 0 || ["--", "--bin", "--package", "-p"].contains(&&*words[at - 1]);
    let calls = (0..words.len()).filter(|&at| called(at)).filter_map(|at| {
        let name = Path::new(&words[at]).file_name()?;
        let program = PROGRAMS.into_iter().find(|program| name == *program)?;
        let by_cargo = words.get(at + 1).is_some_and(|word| word == "--");
        Some(Call { program, arguments: words[at + 1 + usize::from(by_cargo)..].to_vec() })
    });
    calls.collect()
}

fn is_variable(name: &str) -> bool {
    !name.is_empty()
        && name.chars().all(|it| it.is_ascii_uppercase() || it.is_ascii_digit() || it == '_')
}

fn calls(line: &str) -> Vec<Call> {
    // A text that is no whole command line, such as a part of one in a sentence, calls nothing.
    let mut words = shlex::split(line).unwrap_or_default();
    words.retain(|word| word != "...");
    words.split(|word| OPERATORS.contains(&word.as_str())).flat_map(calls_in).collect()
}

/// The lines of a page behind a prompt, and the code within its sentences.
fn typed(page: &Page) -> Vec<String> {
    let blocks = page.blocks().into_iter().filter(|block| block.language == "console");
    let lines = blocks.flat_map(|block| {
        let typed = |line: &str| {
            let typed = line.strip_prefix("$ ").or_else(|| line.strip_prefix("# "));
            typed.map(str::to_owned)
        };
        block.text.lines().filter_map(typed).collect::<Vec<_>>()
    });
    lines.chain(page.code()).collect()
}

/// The error of a call with a subcommand or an option that does not exist. Values are often placeholders, so they are not
/// checked.
fn fault(call: &Call) -> Option<String> {
    let command = match call.program {
        "flux-agent" => flux_agent::commands::command_line(),
        "flux-view" => flux_view::command_line(),
        "flux-operator" => Cli::command(),
        "kubectl-flux" => kubectl_flux::command_line(),
        _ => e2e::commands::command_line(),
    };
    let words = std::iter::once(call.program.to_owned()).chain(call.arguments.iter().cloned());
    let error = command.try_get_matches_from(words).err()?;
    [ErrorKind::UnknownArgument, ErrorKind::InvalidSubcommand]
        .contains(&error.kind())
        .then(|| error.to_string())
}

#[test]
fn every_command_line_of_this_project_in_the_pages_exists() {
    let mut faults = Vec::new();
    let mut checked = 0;
    for page in pages() {
        for call in typed(&page).iter().flat_map(|line| calls(line)) {
            checked += 1;
            let fault = fault(&call);
            faults.extend(fault.map(|fault| format!("{}: {call:?}: {fault}", page.path.display())));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(checked > 150, "only {checked} command lines were found");
}
