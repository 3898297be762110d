//! The initial program: how it is called, and whether rc1 could run at all.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::front::{self, Environment};

/// Names and prefixes (with `*`) the program does not inherit (flux-core, `broker/runat.c`).
const DROPPED: &[&str] = &[
    "FLUX_JOB_ID",
    "FLUX_ENCLOSING_ID",
    "FLUX_JOB_SIZE",
    "FLUX_JOB_NNODES",
    "FLUX_JOB_TMPDIR",
    "FLUX_TASK_RANK",
    "FLUX_TASK_LOCAL_ID",
    "FLUX_URI",
    "FLUX_KVS_NAMESPACE",
    "FLUX_PROXY_REMOTE",
    "PMI_*",
    "PMIX_*",
    "FLUX_PMI_LIBRARY_PATH",
    "I_MPI_PMI_LIBRARY",
    "SLURM_*",
    "NOTIFY_SOCKET",
    "PALS_*",
];

/// What rank 0 runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Program {
    /// Words of the command.
    pub(crate) words: Vec<String>,
    /// An interactive shell.
    pub(crate) interactive: bool,
}

impl Program {
    /// The command as logs show it.
    pub(crate) fn shown(&self) -> String {
        match self.words.as_slice() {
            [_, option, command] if option == "-c" => command.clone(),
            words => words.join(" "),
        }
    }
}

/// The shell Flux uses.
fn shell(environment: &Environment) -> &str {
    environment.get("SHELL").map_or("/bin/bash", String::as_str)
}

/// Decides how the words after the options are run; the error is Flux's text.
pub(crate) fn choose(words: &[String], environment: &Environment) -> Result<Program, String> {
    let (words, interactive) = match words {
        [] => (vec![shell(environment).to_owned()], true),
        [one] if is_login_shell(one) => (vec![one.clone()], true),
        [one] if !runs_directly(one) => {
            (vec![shell(environment).to_owned(), "-c".to_owned(), one.clone()], false)
        }
        words => (words.to_vec(), false),
    };
    if interactive && !std::io::IsTerminal::is_terminal(&std::io::stdin()) {
        return Err("stdin is not a tty - can't run interactive shell".to_owned());
    }
    Ok(Program { words, interactive })
}

fn is_login_shell(word: &str) -> bool {
    // Without /etc/shells the C library knows these two.
    let listed =
        std::fs::read_to_string("/etc/shells").unwrap_or_else(|_| "/bin/sh\n/bin/csh\n".to_owned());
    listed
        .lines()
        .map(str::trim)
        .filter(|line| line.starts_with('/'))
        .any(|path| word == path || Path::new(path).file_name().is_some_and(|name| name == word))
}

fn runs_directly(word: &str) -> bool {
    let path = Path::new(word);
    let readable =
        std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.mode() & 0o444 != 0);
    !word.contains(char::is_whitespace) && readable && front::is_executable(path)
}

/// The program's environment.
pub(crate) fn environment(broker: &Environment, uri: &str) -> Environment {
    let dropped = |name: &str| {
        DROPPED.iter().any(|rule| match rule.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => name == *rule,
        })
    };
    let mut environment: Environment = broker
        .iter()
        .filter(|(name, _)| !dropped(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    environment.insert("FLUX_URI".to_owned(), uri.to_owned());
    environment
}

/// Why rc1 fails where its shells are missing: exit code and what is said.
pub(crate) fn rc1_fault(environment: &Environment, leader: bool) -> Option<(i32, String)> {
    let shell = Path::new(shell(environment));
    if !shell.exists() {
        return Some((
            127,
            "rc1.0: flux modprobe rc1 No such file or directory (rc=127)".to_owned(),
        ));
    }
    if !front::is_executable(shell) {
        return Some((126, "rc1.0: flux modprobe rc1 Permission denied (rc=126)".to_owned()));
    }
    let path = environment.get("PATH").map_or("", String::as_str);
    if front::search_path(path, "flux").is_none() {
        return Some((127, "rc1.0: flux: command not found".to_owned()));
    }
    let bash = front::search_path(path, "bash").is_some();
    (leader && !bash).then(|| {
        let text = "rc1.0: flux-modprobe: ERROR: [Errno 2] No such file or directory: 'bash'";
        (1, text.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    fn with(pairs: &[(&str, &str)]) -> Environment {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn one_word_that_is_a_file_runs_directly_and_a_line_goes_through_the_shell() {
        let environment = with(&[("SHELL", "/x/sh")]);
        let run = |words: &[String]| choose(words, &environment).expect("runs").words;
        assert_eq!(run(&words("/usr/bin/env")), words("/usr/bin/env"));
        assert_eq!(run(&words("true now")), words("true now"));
        assert_eq!(run(&["true; false".to_owned()]), ["/x/sh", "-c", "true; false"]);
        assert_eq!(run(&words("true")), ["/x/sh", "-c", "true"]);
    }

    #[test]
    fn the_program_does_not_inherit_an_outer_instance() {
        let broker =
            with(&[("A", "1"), ("NOTIFY_SOCKET", "x"), ("PMI_FD", "3"), ("FLUX_URI", "y")]);
        let expected = with(&[("A", "1"), ("FLUX_URI", "local:///z")]);
        assert_eq!(environment(&broker, "local:///z"), expected);
    }

    #[test]
    fn without_a_shell_there_is_no_rc1() {
        let missing = with(&[("SHELL", "/nowhere/bash"), ("PATH", "/bin")]);
        assert_eq!(rc1_fault(&missing, false).map(|(code, _)| code), Some(127));
        let folder = tempfile::tempdir().expect("temporary directory");
        let flux = folder.path().join("flux");
        std::fs::copy("/proc/self/exe", &flux).expect("copies");
        let path = folder.path().display().to_string();
        let shell = flux.display().to_string();
        let no_bash = with(&[("SHELL", &shell), ("PATH", &path)]);
        assert_eq!(rc1_fault(&no_bash, false), None);
        assert_eq!(rc1_fault(&no_bash, true).map(|(code, _)| code), Some(1));
        std::fs::copy("/proc/self/exe", folder.path().join("bash")).expect("copies");
        assert_eq!(rc1_fault(&no_bash, true), None);
    }
}
