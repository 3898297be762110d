//! `completion`: the script with which a shell completes `kubectl-flux`.

use crate::output::print;
use anyhow::{Context as _, Result};
use clap::Args;
use clap_complete::Shell;
use clap_complete::env::Shells;

/// The program whose command lines are completed; it also prints the candidates.
const PROGRAM: &str = "kubectl-flux";
/// The environment variable by which the script asks for candidates.
const VARIABLE: &str = "COMPLETE";

#[derive(Debug, Args)]
#[command(after_help = "\
bash:        source <(kubectl flux completion bash)
zsh:         source <(kubectl flux completion zsh)
fish:        kubectl flux completion fish | source
kubectl:     ln -s \"$(command -v kubectl-flux)\" ~/.local/bin/kubectl_complete-flux

The first three complete `kubectl-flux` and the names of MiniClusters. kubectl completes `kubectl flux` if its own \
completion is set up (`kubectl completion --help`): it runs kubectl_complete-flux, which is this program under another \
name, from any directory in PATH.")]
pub(crate) struct Completion {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

impl Completion {
    pub(crate) fn execute(&self) -> Result<()> {
        print(&self.text()?);
        Ok(())
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
