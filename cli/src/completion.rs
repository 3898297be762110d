//! Completion of command lines for shells and for kubectl.
//!
//! kubectl runs an executable named `kubectl_complete-flux` with the words after `kubectl flux`, and reads the output
//! format of cobra (`pkg/cmd/plugin_completion.go` of kubectl). That executable is this program under another name.

use crate::cli::Cli;
use crate::connection::{Connection, ConnectionArguments};
use crate::output::print;
use anyhow::{Context as _, Result};
use clap::{CommandFactory as _, FromArgMatches as _};
use clap_complete::engine::{CompletionCandidate, complete};
use clap_complete::env::CompleteEnv;
use flux_api::crd::MiniCluster;
use kube::ResourceExt;
use kube::api::ListParams;
use std::env;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::time::timeout;

/// The name under which kubectl runs this program.
const KUBECTL_NAME: &str = "kubectl_complete-flux";

/// How long a shell waits at most for the names of MiniClusters.
const NAMES_TIMEOUT: Duration = Duration::from_secs(2);

/// Directive of cobra: the shell adds no files to the candidates (`ShellCompDirectiveNoFileComp`).
const NO_FILES: &str = ":4";

/// Prints candidates and returns true if a shell or kubectl requests them. The async runtime must not run yet.
pub(crate) fn answer() -> Result<bool> {
    let mut words = env::args_os();
    let program = words.next().unwrap_or_default();
    let directory = env::current_dir().ok();
    if Path::new(&program).file_stem() == Some(OsStr::new(KUBECTL_NAME)) {
        print(&for_kubectl(words.collect(), directory.as_deref())?);
        return Ok(true);
    }
    let shell = CompleteEnv::with_factory(Cli::command);
    shell.try_complete(env::args_os(), directory.as_deref()).context("complete the line")
}

/// The candidates for the last of the `words`, in the output format of cobra.
fn for_kubectl(words: Vec<OsString>, directory: Option<&Path>) -> Result<String> {
    let last = words.len();
    let line = [OsString::from("kubectl-flux")].into_iter().chain(words).collect();
    let candidates = complete(&mut Cli::command(), line, last, directory);
    let shown = candidates.context("complete the line")?.into_iter().filter(|it| !it.is_hide_set());
    let lines = shown.map(|candidate| {
        let value = candidate.get_value().to_string_lossy();
        match candidate.get_help().map(ToString::to_string) {
            Some(help) => format!("{value}\t{}\n", help.lines().next().unwrap_or_default()),
            None => format!("{value}\n"),
        }
    });
    Ok(format!("{}{NO_FILES}\n", lines.collect::<String>()))
}

/// The names of MiniClusters that start with `begin`; none if no cluster answers.
pub(crate) fn names(begin: &OsStr) -> Vec<CompletionCandidate> {
    let begin = begin.to_string_lossy();
    let names = all_names().unwrap_or_default().into_iter();
    names.filter(|name| name.starts_with(&*begin)).map(CompletionCandidate::new).collect()
}

fn all_names() -> Result<Vec<String>> {
    let mut words: Vec<OsString> = env::args_os().collect();
    // The completion script puts `--` before the command line.
    if words.get(1).is_some_and(|word| word == "--") {
        words.drain(..2);
    }
    let arguments = connection(words)?;
    let list = async {
        let api = Connection::new(&arguments).await?.api::<MiniCluster>();
        anyhow::Ok(api.list_metadata(&ListParams::default()).await?)
    };
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let list = runtime.block_on(async { timeout(NAMES_TIMEOUT, list).await })??;
    Ok(list.iter().map(ResourceExt::name_any).collect())
}

/// The options that choose the cluster, in a command line that may be incomplete or wrong.
fn connection(words: Vec<OsString>) -> Result<ConnectionArguments> {
    let found = Cli::command().ignore_errors(true).try_get_matches_from(words)?;
    Ok(ConnectionArguments::from_arg_matches(&found)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(line: &str) -> String {
        for_kubectl(line.split(' ').map(OsString::from).collect(), None).unwrap()
    }

    #[test]
    fn kubectl_gets_subcommands_and_options_with_their_help() {
        let subcommands = candidates("susp");
        assert!(subcommands.starts_with("suspend\tSuspend a MiniCluster"), "{subcommands}");
        assert!(subcommands.ends_with("\n:4\n"), "{subcommands}");
        for (line, first) in [("wait hello --ti", "--timeout"), ("wait hello --for r", "ready")] {
            let candidates = candidates(line);
            assert!(candidates.starts_with(first), "{candidates}");
        }
        assert_eq!(candidates("no-such-command x"), ":4\n");
    }

    #[test]
    fn an_incomplete_line_chooses_the_cluster() {
        let found = |line: &str| connection(line.split(' ').map(OsString::from).collect()).unwrap();
        let namespace = |name: &str| ConnectionArguments {
            namespace: Some(name.to_owned()),
            ..ConnectionArguments::default()
        };
        for line in ["logs -n a", "logs -fna b", "logs --since=1h --namespace=a hel", "-n a --co"] {
            assert_eq!(found(&format!("kubectl-flux {line}")), namespace("a"), "{line}");
        }
        let all = found("kubectl-flux --kubeconfig k --context=c list");
        assert_eq!((all.kubeconfig, all.context), (Some("k".into()), Some("c".to_owned())));
        assert_eq!(found("kubectl-flux exec hello -- x -n a").namespace, None);
    }
}
