//! Completes command lines for shells and for kubectl.
//!
//! kubectl runs an executable named `kubectl_complete-flux` with the words after `kubectl flux`, and reads the output
//! format of cobra (`pkg/cmd/plugin_completion.go` of kubectl). That executable is this program under another name.

use crate::cli::Cli;
use crate::completion::{Line, from_cluster, names, starting_with};
use crate::connection::Connection;
use crate::minicluster::{MiniClusterRef, NameArgument};
use crate::output::print;
use crate::rank_pod::RankPod;
use anyhow::{Context as _, Result};
use clap::{Arg, Command, CommandFactory as _, FromArgMatches as _, ValueHint};
use clap_complete::engine::{
    ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter as _, complete,
};
use clap_complete::env::CompleteEnv;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::ListParams;
use kube::config::Kubeconfig;
use kube::{Api, ResourceExt};
use std::env;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The name under which kubectl runs this program.
pub(crate) const KUBECTL_NAME: &str = "kubectl_complete-flux";

/// Directive of cobra (`ShellCompDirective`): the shell itself completes files. As a candidate it stands for all files.
const FILES: &str = ":0";
/// There are no other candidates.
const NO_FILES: &str = ":4";
/// There are no other candidates, and more may follow the word.
const NO_SPACE: &str = ":6";

/// Prints candidates and returns true if a shell or kubectl requests them. The async runtime must not run yet.
pub(crate) fn answer() -> Result<bool> {
    let mut words = env::args_os();
    let program = words.next().unwrap_or_default();
    if Path::new(&program).file_stem() == Some(OsStr::new(KUBECTL_NAME)) {
        print(&for_kubectl(words.collect())?);
        return Ok(true);
    }
    let directory = env::current_dir().ok();
    let shell = CompleteEnv::with_factory(command);
    shell.try_complete(env::args_os(), directory.as_deref()).context("complete the line")
}

/// The candidates for the last of the `words`, in the output format of cobra.
fn for_kubectl(words: Vec<OsString>) -> Result<String> {
    let last = words.len();
    let line: Vec<OsString> = [OsString::from("kubectl-flux")].into_iter().chain(words).collect();
    let leave_files = |arg: Arg| {
        let takes_files = matches!(arg.get_value_hint(), ValueHint::AnyPath | ValueHint::FilePath);
        let files = |_: &OsStr| vec![CompletionCandidate::new(FILES)];
        if takes_files { arg.add(ArgValueCompleter::new(files)) } else { arg }
    };
    let command = command().mut_args(leave_files);
    let mut command = command.mut_subcommands(|it| it.mut_args(leave_files));
    let candidates = complete(&mut command, line, last, None).context("complete the line")?;
    let (mut text, mut directive) = (String::new(), NO_FILES);
    for candidate in candidates.into_iter().filter(|it| !it.is_hide_set()) {
        let value = candidate.get_value().to_string_lossy();
        if value.ends_with(FILES) {
            return Ok(format!("{FILES}\n"));
        }
        if value.ends_with([':', '/']) {
            directive = NO_SPACE;
        }
        let help = candidate.get_help().map(ToString::to_string).unwrap_or_default();
        let help = help.lines().next().map(|line| format!("\t{line}")).unwrap_or_default();
        text.extend([&*value, &help, "\n"]);
    }
    Ok(format!("{text}{directive}\n"))
}

fn command() -> Command {
    let complete = |arg: Arg| {
        let completer = match arg.get_id().as_str() {
            "namespace" => namespaces,
            "context" => contexts,
            "rank" => ranks,
            "container" => containers,
            "job" | "jobs" => jobs,
            "from" | "to" => places,
            _ => return arg,
        };
        arg.add(ArgValueCompleter::new(completer))
    };
    Cli::command().mut_args(complete).mut_subcommands(|it| it.mut_args(complete))
}

fn contexts(begin: &OsStr) -> Vec<CompletionCandidate> {
    let found = || match Line::read()?.arguments.kubeconfig {
        Some(path) => anyhow::Ok(Kubeconfig::read_from(path)?),
        None => Ok(Kubeconfig::read()?),
    };
    let contexts = found().unwrap_or_default().contexts.into_iter();
    starting_with(begin, contexts.map(|context| context.name).collect())
}

fn namespaces(begin: &OsStr) -> Vec<CompletionCandidate> {
    from_cluster(begin, async |line| {
        let api: Api<Namespace> = Api::all(Connection::new(&line.arguments).await?.client);
        let list = api.list_metadata(&ListParams::default()).await?;
        Ok(list.iter().map(ResourceExt::name_any).collect())
    })
}

async fn target(line: Line) -> Result<MiniClusterRef> {
    let (_, subcommand) = line.matches.subcommand().context("there is no subcommand")?;
    let name = NameArgument::from_arg_matches(subcommand)?;
    Ok(name.target(Connection::new(&line.arguments).await?))
}

fn ranks(begin: &OsStr) -> Vec<CompletionCandidate> {
    from_cluster(begin, async |line| {
        Ok(target(line).await?.pods().await?.keys().map(ToString::to_string).collect())
    })
}

fn containers(begin: &OsStr) -> Vec<CompletionCandidate> {
    from_cluster(begin, async |line| {
        let pods = target(line).await?.pods().await?;
        let spec = pods.into_values().next().and_then(|pod| pod.spec).unwrap_or_default();
        let all = spec.init_containers.into_iter().flatten().chain(spec.containers);
        Ok(all.map(|container| container.name).collect())
    })
}

fn jobs(begin: &OsStr) -> Vec<CompletionCandidate> {
    // Ids are also accepted without the letter that is hard to type.
    let is_plain = begin.to_string_lossy().starts_with('f');
    from_cluster(begin, async move |line| {
        let jobs = RankPod::lead(target(line).await?).await?.report(false, None).await?.jobs;
        let id = |id: String| if is_plain { id.replace('ƒ', "f") } else { id };
        Ok(jobs.into_iter().map(|job| id(job.id)).collect())
    })
}

fn places(begin: &OsStr) -> Vec<CompletionCandidate> {
    let names = names(begin).into_iter();
    let names = names.map(|it| {
        let mut place = it.get_value().to_owned();
        place.push(":");
        CompletionCandidate::new(place)
    });
    names.chain(PathCompleter::any().complete(begin)).collect()
}
