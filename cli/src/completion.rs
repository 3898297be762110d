//! Words that complete a command line and that only a cluster knows.

use crate::cli::Cli;
use crate::connection::{Connection, ConnectionArguments};
use anyhow::Result;
use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _};
use clap_complete::engine::CompletionCandidate;
use flux_api::crd::MiniCluster;
use kube::ResourceExt;
use kube::api::ListParams;
use std::env;
use std::ffi::{OsStr, OsString};
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::time::timeout;

const TIMEOUT: Duration = Duration::from_secs(2);

pub(crate) struct Line {
    pub arguments: ConnectionArguments,
    pub matches: ArgMatches,
}

impl Line {
    /// Reads what can be read of a command line that may be incomplete or wrong.
    fn parse(words: Vec<OsString>) -> Result<Self> {
        let matches = Cli::command().ignore_errors(true).try_get_matches_from(words)?;
        Ok(Self { arguments: ConnectionArguments::from_arg_matches(&matches)?, matches })
    }

    pub(crate) fn read() -> Result<Self> {
        let mut words: Vec<OsString> = env::args_os().collect();
        // The completion script puts `--` before the command line.
        if words.get(1).is_some_and(|word| word == "--") {
            words.drain(..2);
        }
        Self::parse(words)
    }
}

/// Those words that `find` reads from the cluster of the line and that start with `begin`; none if no cluster answers.
pub(crate) fn from_cluster<Found: Future<Output = Result<Vec<String>>>>(
    begin: &OsStr,
    find: impl FnOnce(Line) -> Found,
) -> Vec<CompletionCandidate> {
    let found = || {
        let found = find(Line::read()?);
        let runtime = Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async { timeout(TIMEOUT, found).await })?
    };
    starting_with(begin, found().unwrap_or_default())
}

pub(crate) fn starting_with(begin: &OsStr, words: Vec<String>) -> Vec<CompletionCandidate> {
    let begin = begin.to_string_lossy();
    let words = words.into_iter().filter(|word| word.starts_with(&*begin));
    words.map(CompletionCandidate::new).collect()
}

pub(crate) fn names(begin: &OsStr) -> Vec<CompletionCandidate> {
    from_cluster(begin, async |line| {
        let api = Connection::new(&line.arguments).await?.api::<MiniCluster>();
        let list = api.list_metadata(&ListParams::default()).await?;
        Ok(list.iter().map(ResourceExt::name_any).collect())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_incomplete_line_chooses_the_cluster() {
        let found = |line: &str| {
            Line::parse(line.split(' ').map(OsString::from).collect()).unwrap().arguments
        };
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
