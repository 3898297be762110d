//! `flux start`: becomes the broker.

use std::os::unix::process::CommandExt;
use std::process::Command;

use super::Call;
use crate::failure::{Failure, strerror};
use crate::options::Parsed;

const OPTIONS: &str = "S|setattr= o|broker-opts= wrap= c|config-path= conf=! r|recovery?! sysconfig! \
                       v|verbose?! X|noexec! s|test-size=!";

/// The command line that a call of `flux start` becomes, `own` being this program.
fn command_line(parsed: &Parsed, own: String) -> Vec<String> {
    let split = |name| parsed.values(name).flat_map(|text| text.split(','));
    let wrap = split("wrap").map(str::to_owned);
    let mut words: Vec<String> = wrap.chain([own, "broker".to_owned()]).collect();
    words.extend(split("setattr").map(|value| format!("-S{value}")));
    words.extend(split("broker-opts").map(str::to_owned));
    words.extend(parsed.value("config-path").map(|path| format!("-c{path}")));
    words.extend(parsed.rest.iter().cloned());
    words
}

/// `flux start`: replaces this process, so that process id and exit code are the broker's.
pub(crate) fn run(call: &Call) -> Result<u8, Failure> {
    let parsed = call.options("start", OPTIONS)?;
    let fault = |error| Failure::new(format!("flux-start: {}", strerror(&error)));
    let own = std::env::current_exe().map_err(fault)?;
    let line = command_line(&parsed, own.display().to_string());
    let Some((program, arguments)) = line.split_first() else {
        return Err(Failure::new("flux-start: nothing to run"));
    };
    Err(fault(Command::new(program).args(arguments).env_clear().envs(&call.environment).exec()))
}
