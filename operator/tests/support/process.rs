//! Programs beside a test, and the operator as one.

use serde_json::json;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A program that runs; it is ended when this goes.
pub(crate) struct Process {
    child: Child,
    log: PathBuf,
}

impl Drop for Process {
    fn drop(&mut self) {
        // It has ended already, or this ends it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    /// Starts it, with all that it writes in the file `log`.
    pub(crate) fn start(command: &mut Command, log: PathBuf) -> Self {
        let file = File::create(&log).unwrap();
        command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file);
        Self { child: command.spawn().unwrap(), log }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }
}

/// Starts `program`, an operator for the namespace `work`, with its files in `directory` and its endpoints at a port of
/// the loopback that its log names. Its API server is at `address`.
pub(crate) fn operator(program: &Path, address: &str, directory: &Path) -> Process {
    let kubeconfig = directory.join("kubeconfig");
    let config = json!({
        "clusters": [{"name": "it", "cluster": {"server": format!("http://{address}")}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "users": [{"name": "it", "user": {}}],
        "current-context": "it",
    });
    std::fs::write(&kubeconfig, config.to_string()).unwrap();
    let words =
        ["run", "--namespace=work", "--metrics-bind=127.0.0.1:0", "--health-bind=127.0.0.1:0"];
    let mut command = Command::new(program);
    Process::start(command.args(words).env("KUBECONFIG", kubeconfig), directory.join("log"))
}
