//! `completion`: what a shell has to read so that it completes `kubectl-flux`.

use crate::output::print;
use anyhow::{Context as _, Result};
use clap::Args;
use clap_complete::Shell;
use clap_complete::env::Shells;
use std::process::ExitCode;

/// The program, as it is called, and as the shell asks it.
const PROGRAM: &str = "kubectl-flux";
/// Tells the program that a shell asks it.
const VARIABLE: &str = "COMPLETE";

/// `completion`.
#[derive(Debug, Args)]
#[command(after_help = "\
bash:        source <(kubectl flux completion bash)
zsh:         source <(kubectl flux completion zsh)
fish:        kubectl flux completion fish | source
kubectl:     ln -s \"$(command -v kubectl-flux)\" ~/.local/bin/kubectl_complete-flux

The shells complete `kubectl-flux` then, and names of MiniClusters with it. `kubectl flux` is completed by kubectl, \
which has to be completed itself (`kubectl completion --help`) and asks kubectl_complete-flux, which is this program \
by another name, in any directory of PATH.")]
pub(crate) struct Completion {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

impl Completion {
    pub(crate) fn execute(&self) -> Result<ExitCode> {
        print(&self.text()?);
        Ok(ExitCode::SUCCESS)
    }

    fn text(&self) -> Result<String> {
        let name = self.shell.to_string();
        let shells = Shells::builtins();
        let shell = shells.completer(&name).with_context(|| format!("complete in {name}"))?;
        let mut text = Vec::new();
        shell.write_registration(VARIABLE, PROGRAM, PROGRAM, PROGRAM, &mut text)?;
        String::from_utf8(text).with_context(|| format!("write the completion for {name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum as _;

    #[test]
    fn every_shell_is_told_to_ask_the_program() {
        for shell in Shell::value_variants() {
            let text = Completion { shell: *shell }.text().unwrap();
            assert!(text.contains(PROGRAM) && text.contains(VARIABLE), "{shell:?}: {text}");
        }
    }
}
