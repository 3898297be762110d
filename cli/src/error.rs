//! Errors, each on one line.

use crate::exit::MISUSED;
use crate::output::print_stderr;
use kube::core::Status;
use kube::runtime::watcher;
use std::process::ExitCode;
use std::sync::OnceLock;

/// The API server of this command, with its context.
static SERVER: OnceLock<String> = OnceLock::new();

pub(crate) fn set_server(server: String) {
    // A command has one connection.
    let _ = SERVER.set(server);
}

pub(crate) fn print_error(error: &anyhow::Error) {
    print_stderr(&format!("kubectl flux: {}", line(error)));
}

/// Prints what is wrong with the command line or with a file that it names.
pub(crate) fn misuse(error: &anyhow::Error) -> ExitCode {
    print_error(error);
    ExitCode::from(MISUSED)
}

/// What was done, and why it failed. The errors of kube repeat their causes, and print a refusal as a Rust value.
pub(crate) fn line(error: &anyhow::Error) -> String {
    let mut parts: Vec<String> = Vec::new();
    for cause in error.chain() {
        if let Some(request) = cause.downcast_ref() {
            parts.push(failure(request, &error.root_cause().to_string()));
            break;
        }
        let text = cause.to_string();
        if !cause.is::<watcher::Error>() && !parts.iter().any(|part| part.contains(&text)) {
            parts.push(text);
        }
    }
    parts.join(": ").trim().replace('\n', "; ")
}

pub(crate) fn reason(error: &anyhow::Error) -> String {
    let request = error.chain().find_map(|cause| cause.downcast_ref());
    let root = || error.root_cause().to_string();
    request.map_or_else(|| line(error), |request| failure(request, &root()))
}

/// Whether the same request may succeed later: the API server or the node is away or busy, or the API server has just
/// started, and does not have all its paths yet. The answer about an object that does not exist has details.
pub(crate) fn is_temporary(status: &Status) -> bool {
    let is_of_path = status.code == 404 && status.details.is_none();
    status.code >= 500 || status.code == 429 || is_of_path
}

fn failure(error: &kube::Error, root: &str) -> String {
    if let kube::Error::Api(status) = error {
        // The API server answers without a Status where it has no such path.
        let is_unknown = status.code == 404 && status.details.is_none();
        let remedy = "install the operator first, the cluster lacks its CRD";
        return if is_unknown { remedy.to_owned() } else { status.message.clone() };
    }
    if matches!(error, kube::Error::Service(_) | kube::Error::HyperError(_)) {
        let server = SERVER.get().map(String::as_str).unwrap_or_default();
        return format!("no answer of the API server {server}: {root}");
    }
    error.to_string()
}
