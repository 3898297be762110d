//! `flux-agent mpi`: chooses the PMI for a job of several tasks. Flux's shell runs it before it starts the tasks of any job
//! ([`SHELL_RC`]).
//!
//! Without it, each task of a program with Open MPI 5, which supports PMIx alone, would succeed as rank 0 of 1.

use crate::linking::{Mpi, Sysroot, has_open_mpi_5, mpi_of};
use crate::system::environment::find_program;
use crate::system::files::is_executable;
use crate::system::output::print_line;
use clap::Args;
use std::path::{Path, PathBuf};

/// The script for Flux's shell. `@AGENT@` stands for this program as a string of Lua.
pub(crate) const SHELL_RC: &str = include_str!("mpi.lua");
/// The plugin of Flux's shell with a PMIx server (flux-pmix).
const PLUGIN: &str = "pmix.so";

/// The program of brokers, which a job of a nested instance runs.
const FLUX: &str = "flux";
/// How many words of a command are examined, as one may be the text of a whole script.
const WORD_LIMIT: usize = 64;
/// The separators between the words of a shell script.
const SEPARATORS: &[char] = &[';', '&', '|', '(', ')', '<', '>', '"', '\'', '`'];

#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub(crate) struct MpiArguments {
    /// Where Flux's shell looks for plugins, separated by colons
    #[arg(long, value_name = "DIRECTORIES")]
    plugins: String,
    /// `PATH` of the job
    #[arg(long, value_name = "DIRECTORIES")]
    path: String,
    /// `LD_LIBRARY_PATH` of the job
    #[arg(long, default_value = "", value_name = "DIRECTORIES")]
    library_path: String,
    /// The job's own option `pmi`
    #[arg(long, value_name = "LIST")]
    pmi: Option<String>,
    /// Program and arguments
    #[arg(last = true)]
    command: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Choice {
    /// The job runs, with this option `pmi` if it needs another than Flux's default.
    Pmi(Option<&'static str>),
    /// The tasks of the job could not find each other, for this reason.
    Refuse(String),
}

/// Prints `refuse REASON`, or `pmi LIST`, or nothing.
pub(crate) fn run(arguments: &MpiArguments) {
    let MpiArguments { plugins, path, library_path, pmi, command } = arguments;
    let mut plugins = plugins.split(':').map(|directory| Path::new(directory).join(PLUGIN));
    let has_pmix = plugins.any(|plugin| plugin.is_file());
    match of_command(command, pmi.as_deref(), has_pmix, path, library_path) {
        Choice::Refuse(reason) => print_line(&format!("refuse {reason}")),
        Choice::Pmi(pmi) => pmi.iter().for_each(|list| print_line(&format!("pmi {list}"))),
    }
}

pub(crate) fn has_pmix(prefix: &Path) -> bool {
    let plugins = ["lib", "lib64"].map(|lib| prefix.join(lib).join("flux/shell/plugins"));
    plugins.iter().any(|directory| directory.join(PLUGIN).exists())
}

/// Decides about `command`, a job of several tasks with the option `pmi` and this `PATH` and `LD_LIBRARY_PATH`.
pub(crate) fn of_command(
    command: &[String],
    pmi: Option<&str>,
    has_pmix: bool,
    path: &str,
    library_path: &str,
) -> Choice {
    let sysroot = Sysroot { root: Some("/".into()), ..Sysroot::default() };
    let mpi = |word: &str| {
        found(word, path).map_or(Mpi::Unknown, |file| mpi_of(&sysroot, &file, library_path))
    };
    let words: Vec<&str> = words(command).take(WORD_LIMIT).collect();
    let known = words.iter().map(|word| (*word, mpi(word))).find(|(_, mpi)| *mpi != Mpi::Unknown);
    let first = words.first().copied().unwrap_or_default();
    let is_broker = Path::new(first).file_name() == Some(FLUX.as_ref());
    let may_load = || !is_broker && has_open_mpi_5(&sysroot, library_path);
    let (word, mpi) = known.filter(|_| !is_broker).unwrap_or((first, Mpi::Unknown));
    choice(word, mpi, pmi, has_pmix, may_load)
}

/// The possible programs of `command`: its first argument, and the words in the others, because `sh -c` and `env` start a
/// program from their arguments.
fn words(command: &[String]) -> impl Iterator<Item = &str> {
    let (first, rest) = command.split_at(1.min(command.len()));
    let is_separator =
        |character: char| character.is_whitespace() || SEPARATORS.contains(&character);
    let inner = rest.iter().flat_map(move |word| word.split(is_separator));
    first.iter().map(String::as_str).chain(inner.filter(|word| !word.is_empty()))
}

/// The program that `word` names, as execvp(3) finds it.
fn found(word: &str, path: &str) -> Option<PathBuf> {
    if word.contains('/') {
        return Some(PathBuf::from(word)).filter(|path| is_executable(path));
    }
    find_program(&[("PATH".into(), path.into())].into(), word, is_executable)
}

/// `may_load` returns whether a program could load Open MPI 5 at run time.
fn choice(
    program: &str,
    mpi: Mpi,
    asked: Option<&str>,
    has_pmix: bool,
    may_load: impl FnOnce() -> bool,
) -> Choice {
    if let Some(asked) =
        asked.filter(|list| !has_pmix && list.split(',').any(|entry| entry == "pmix"))
    {
        return Choice::Refuse(format!(
            "the option pmi={asked} needs flux-pmix, and this Flux has no shell plugin {PLUGIN}: use a view with it, or \
             leave the option out"
        ));
    }
    let pmi = match mpi {
        Mpi::OpenMpi5 | Mpi::Pmix if asked.is_none() && !has_pmix => {
            let name = if mpi == Mpi::OpenMpi5 { "Open MPI 5" } else { "PMIx" };
            return Choice::Refuse(format!(
                "{program} is linked to {name}, whose ranks find each other by PMIx alone, and this Flux has no shell \
                 plugin {PLUGIN}: each task would be rank 0 of 1. Use a view with flux-pmix, or an image with another \
                 MPI; where each task is to be alone, the option -o pmi=off says so"
            ));
        }
        Mpi::OpenMpi5 | Mpi::Pmix => Some("pmix"),
        // A script may also load another MPI, so Flux's own PMI stays available.
        Mpi::Unknown if has_pmix && may_load() => Some("simple,pmix"),
        Mpi::Unknown | Mpi::Other => None,
    };
    Choice::Pmi(pmi.filter(|_| asked.is_none()))
}
