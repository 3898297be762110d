//! `completion`: the script with which a shell completes `kubectl-flux`, and the program with which kubectl does.

use crate::completer::KUBECTL_NAME;
use crate::prelude::*;
use clap::builder::PossibleValuesParser;
use clap_complete::env::Shells;
use std::path::PathBuf;
use std::{env, fs};

/// The program whose command lines are completed; it also prints the candidates.
const PROGRAM: &str = "kubectl-flux";
/// The environment variable by which the script asks for candidates.
const VARIABLE: &str = "COMPLETE";
/// Installs the program for kubectl, instead of a script.
const INSTALL: &str = "install";

#[derive(Debug, Args)]
#[command(after_help = "\
bash:        source <(kubectl flux completion bash)
zsh:         source <(kubectl flux completion zsh)
fish:        kubectl flux completion fish | source
kubectl:     kubectl flux completion install

The first three complete `kubectl-flux`. kubectl completes `kubectl flux` if its own completion is set up (`kubectl \
completion --help`): it runs kubectl_complete-flux from any directory in PATH. That is this program under another name; \
`install` puts it beside this program.")]
pub(crate) struct Completion {
    /// The shell, or `install` for kubectl
    #[arg(value_parser = PossibleValuesParser::new(["bash", "elvish", "fish", "powershell", "zsh", INSTALL]))]
    shell: String,
}

impl Completion {
    pub(crate) fn execute(&self) -> Result<()> {
        let name = &self.shell;
        if name == INSTALL {
            print(&install()?.display().to_string());
            return Ok(());
        }
        let shells = Shells::builtins();
        let shell = shells.completer(name).with_context(|| format!("complete in {name}"))?;
        let mut text = Vec::new();
        shell.write_registration(VARIABLE, PROGRAM, PROGRAM, PROGRAM, &mut text)?;
        let text = String::from_utf8(text);
        print(&text.with_context(|| format!("write the completion for {name}"))?);
        Ok(())
    }
}

fn install() -> Result<PathBuf> {
    let program = PathBuf::from(env::args_os().next().unwrap_or_default());
    ensure!(program.is_absolute(), "run it as `kubectl flux completion install`");
    let path = program.with_file_name(format!("{KUBECTL_NAME}{}", env::consts::EXE_SUFFIX));
    let _ = fs::remove_file(&path);
    #[cfg(unix)]
    let made = std::os::unix::fs::symlink(&program, &path);
    // Windows lets only some users make links.
    #[cfg(not(unix))]
    let made = fs::copy(&program, &path);
    made.with_context(|| format!("make {}", path.display()))?;
    Ok(path)
}
