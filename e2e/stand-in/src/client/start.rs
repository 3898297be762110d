//! `flux start`: becomes the broker.

use std::os::unix::process::CommandExt;
use std::process::Command;

use super::Call;
use crate::failure::{Failure, strerror};
use crate::options::{Argument, Parsed, long, short};
use crate::output;

/// Takes the words after `flux start` to the words after `flux broker`, and what wraps them.
pub(crate) fn broker_words(call: &Call) -> Result<(Parsed, Vec<String>), Failure> {
    if std::env::current_dir().is_err() {
        return Err(Failure::new("flux-start: Unable to get current working directory"));
    }
    let choices = [
        short("setattr", 'S', Argument::Split),
        short("config-path", 'c', Argument::Required),
        long("conf", Argument::Required),
        short("recovery", 'r', Argument::Optional),
        long("sysconfig", Argument::None),
        short("verbose", 'v', Argument::Optional),
        short("noexec", 'X', Argument::None),
        short("broker-opts", 'o', Argument::Split),
        long("wrap", Argument::Split),
        short("test-size", 's', Argument::Required),
        long("test-hosts", Argument::Required),
        long("test-exit-timeout", Argument::Required),
        long("test-exit-mode", Argument::Required),
        long("test-start-mode", Argument::Required),
        long("test-rundir", Argument::Required),
        long("test-rundir-cleanup", Argument::None),
        long("test-pmi-clique", Argument::Required),
    ];
    let parsed = call.options("start", &choices)?;
    for option in ["test-size", "recovery", "sysconfig"] {
        if parsed.has(option) {
            return Err(Failure::not_simulated(&format!("start --{option}")));
        }
    }
    let test = [
        "test-hosts",
        "test-exit-timeout",
        "test-exit-mode",
        "test-start-mode",
        "test-rundir",
        "test-rundir-cleanup",
        "test-pmi-clique",
    ];
    if let Some(option) = parsed.first_of(&test) {
        return Err(Failure::new(format!("flux-start: --{option} only works with --test-size")));
    }
    let mut words: Vec<String> =
        parsed.values("setattr").iter().map(|value| format!("-S{value}")).collect();
    words.extend(parsed.values("broker-opts").into_iter().map(str::to_owned));
    words.extend(parsed.value("config-path").map(|path| format!("-c{path}")));
    words.extend(parsed.values("conf").iter().map(|value| format!("--conf={value}")));
    words.extend(parsed.rest.iter().cloned());
    Ok((parsed, words))
}

/// `flux start`: replaces this process, so that process id and exit code are the broker's.
pub(crate) fn run(call: &Call) -> Result<u8, Failure> {
    let (parsed, words) = broker_words(call)?;
    let own = std::env::current_exe()
        .map_err(|error| Failure::new(format!("flux-start: Could not locate broker: {error}")))?;
    let mut line: Vec<String> = parsed.values("wrap").into_iter().map(str::to_owned).collect();
    line.push(own.display().to_string());
    line.push("broker".to_owned());
    line.extend(words);
    if parsed.has("verbose") {
        output::error_line(&format!("flux-start: {}", line.join(" ")));
    }
    if parsed.has("noexec") {
        return Ok(0);
    }
    let Some((program, arguments)) = line.split_first() else {
        return Err(Failure::new("flux-start: nothing to run"));
    };
    let error = Command::new(program).args(arguments).env_clear().envs(&call.environment).exec();
    Err(Failure::new(format!("flux-start: error execing broker: {}", strerror(&error))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Result<Vec<String>, Failure> {
        let words = text.split(' ').map(str::to_owned).collect();
        let call = Call { words, environment: crate::front::Environment::new() };
        broker_words(&call).map(|(_, words)| words)
    }

    #[test]
    fn attributes_are_split_at_commas_and_the_program_comes_last() {
        let given = words("-Sa=1,b=2 -o,-v --config-path=/c run -x").expect("parses");
        assert_eq!(given, ["-Sa=1", "-Sb=2", "-v", "-c/c", "run", "-x"]);
    }

    #[test]
    fn test_options_need_a_test_size() {
        let error = words("--test-rundir=/x").expect_err("refused");
        assert_eq!(error.message, "flux-start: --test-rundir only works with --test-size");
        assert_eq!(words("-s2 true").expect_err("refused").code, 64);
    }
}
