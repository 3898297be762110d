//! The check of `doctor` whether the image's own Python can import Flux's modules.

use crate::commands::client::connected;
use crate::commands::pod::PodContext;
use crate::system::check::Found;
use crate::system::files::is_executable;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;
use tokio::time::timeout;

/// Prints the version of Python, and the error of the import if there is one.
const SCRIPT: &str = "import sys
print('%d.%d.%d' % sys.version_info[:3])
try:
    import flux.job
except Exception as error:
    print('%s: %s' % (type(error).__name__, error))
";

/// How long the import may take, also from a disk whose files are not cached.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The modules of other packages that Flux imports.
const PACKAGES: [&str; 3] = ["_cffi_backend", "yaml", "ply"];

pub(super) async fn python(pod: &PodContext) -> Found {
    if !pod.config.view.enabled {
        return Found::skipped("flux.container.disable is set: Flux's modules are the image's own");
    }
    let own = pod.facts.site_packages.as_deref();
    let Some(modules) = pod.config.view.python_path.as_deref().map(Path::new).or(own) else {
        return Found::skipped("the view has no modules of Flux for Python");
    };
    let Ok((session, _)) = connected(pod) else {
        return Found::skipped("needs the broker, as whose user Python is started");
    };
    let view = PathBuf::from(pod.config.layout.view());
    let is_own = |path: &Path| !path.starts_with(&view) && is_executable(&pod.root.at(path));
    let Some(program) = session.find("python3", is_own) else {
        return Found::skipped("the image has no python3 of its own");
    };
    let shown = program.display().to_string();
    let argv = [&pod.root.at(&program).display().to_string(), "-c", SCRIPT].map(str::to_owned);
    let mut python = Command::from(session.command(&pod.facts.agent, &argv));
    // Python also searches its working directory for modules.
    python.current_dir("/").stdin(Stdio::null()).kill_on_drop(true);
    let remedy = "flux python of the view works without it";
    match timeout(TIMEOUT, python.output()).await {
        Ok(Ok(output)) if output.status.success() => {
            imported(&shown, &String::from_utf8_lossy(&output.stdout), modules)
        }
        Ok(Ok(output)) => {
            let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            Found::warning(format!("{shown}: {}: {text}", output.status), remedy)
        }
        Ok(Err(error)) => Found::warning(format!("start {shown}: {error}"), remedy),
        Err(_) => {
            let seen = format!("{shown}: no end after {} s", TIMEOUT.as_secs());
            Found::warning(seen, remedy)
        }
    }
}

/// The result for the `output` of [`SCRIPT`] from `python`. `modules` is the directory of Flux's modules.
fn imported(python: &str, output: &str, modules: &Path) -> Found {
    let mut lines = output.lines();
    let version = lines.next().unwrap_or_default();
    let Some(error) = lines.next() else {
        return Found::ok(format!("{python} ({version}) imports flux.job"));
    };
    let mut parts = modules.iter().filter_map(|part| part.to_str());
    let built_for = parts.rfind(|part| part.starts_with("python3."));
    let built_for = built_for.unwrap_or("a Python that its path does not name");
    let seen = format!(
        "{python} ({version}) cannot import flux.job: {error}; Flux's modules are for {built_for}"
    );
    Found::warning(seen, remedy(error))
}

fn remedy(error: &str) -> &'static str {
    let missing = error.split_once("No module named '").map(|(_, rest)| rest);
    let missing = missing.and_then(|rest| rest.split(['.', '\'']).next());
    match missing {
        Some("flux" | "_flux") => {
            "PYTHONPATH has to keep the view's directory: add to it in the image or in a hook, and do not replace it"
        }
        Some(module) if PACKAGES.contains(&module) => {
            "only for programs of the image that import flux: python3 -m pip install cffi pyyaml ply in the image, \
             or run them with flux python"
        }
        Some(_) | None => {
            "only for programs of the image that import flux: take an image with the C library and the Python that \
             the view was made with, or newer ones, or run them with flux python"
        }
    }
}
