//! `flux-agent connect`: a shell, or a command, of the user whose broker this is, connected to it.
//! `flux-connect.sh` is this as well.

use crate::commands::arguments::PodArguments;
use crate::commands::client::{Client, Leaves};
use crate::commands::failure::failed;
use crate::commands::pod::Pod;
use crate::plan::decide::surroundings;
use crate::plan::environment::chosen_shell;
use crate::system::output::complain;
use flux_contract::Exit;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;

/// Becomes `words`, or a shell; returns only when it failed.
pub(crate) fn run(arguments: &PodArguments, words: &[OsString]) -> u8 {
    let pod = match Pod::read(arguments) {
        Ok(pod) => pod,
        Err(code) => return code,
    };
    let around = match surroundings(&pod.config, &pod.facts) {
        Ok(around) => around,
        Err(error) => return failed(error.exit(), &error),
    };
    let socket = pod.root.at(&around.socket);
    let owner = match fs::metadata(&socket) {
        Ok(found) => (found.uid(), found.gid()),
        Err(error) => {
            complain(&format!(
                "look at the broker's socket {}: {error}: the broker is not up (yet): see flux-agent status, flux-agent doctor",
                socket.display()
            ));
            return Exit::Broker.code();
        }
    };
    let client = Client::new(&pod, &around, owner);
    if let Some((program, arguments)) = words.split_first() {
        return client.become_program(program, arguments, Leaves::Useless);
    }
    let shell = chosen_shell(&pod.config, &pod.facts);
    client.become_program(shell.as_os_str(), &[], Leaves::Closed)
}
