//! `flux-agent connect`: a shell, or a command, of the user whose broker this is, connected to it.
//! `flux-connect.sh` is this as well.

use crate::commands::arguments::PodArguments;
use crate::commands::client::{Client, Leaves};
use crate::commands::failure::Done;
use crate::commands::pod::Pod;
use crate::plan::environment::chosen_shell;
use crate::system::output::complain;
use flux_contract::Exit;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;

/// Becomes `words`, or a shell; returns only when it failed.
pub(crate) fn run(arguments: &PodArguments, words: &[OsString]) -> Done {
    let pod = Pod::read(arguments)?;
    let around = pod.surroundings()?;
    let socket = pod.root.at(&around.socket);
    let owner = fs::metadata(&socket).map_err(|error| {
        complain(&format!(
            "look at the broker's socket {}: {error}: the broker is not up (yet): see flux-agent status, flux-agent doctor",
            socket.display()
        ));
        Exit::Broker.code()
    })?;
    let client = Client::new(&pod, &around, (owner.uid(), owner.gid()));
    if let Some((program, arguments)) = words.split_first() {
        return Err(client.become_program(program, arguments, Leaves::Useless));
    }
    let shell = chosen_shell(&pod.config, &pod.facts);
    Err(client.become_program(shell.as_os_str(), &[], Leaves::Closed))
}
