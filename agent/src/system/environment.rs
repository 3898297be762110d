//! Changes of environment variables, and the environment that a hook reports.

use crate::system::limits::Limits;
use serde::Serialize;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::{fmt, io};

pub(crate) type Environment = BTreeMap<OsString, OsString>;

/// Variables that a shell sets itself, not its script.
const SHELLS_OWN: [&str; 2] = ["_", "SHLVL"];

/// One change of the environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// Appends an entry to a colon-separated list, unless the list has it.
    Append {
        name: String,
        value: String,
    },
    /// Prepends an entry to a colon-separated list, unless it is the first.
    Prepend {
        name: String,
        value: String,
    },
    Set {
        name: String,
        value: String,
    },
    /// Sets a variable, unless it is set.
    Default {
        name: String,
        value: String,
    },
    Unset {
        name: String,
    },
}

impl Change {
    pub(crate) fn append(name: &str, value: impl Into<String>) -> Self {
        Self::Append { name: name.to_owned(), value: value.into() }
    }

    pub(crate) fn prepend(name: &str, value: impl Into<String>) -> Self {
        Self::Prepend { name: name.to_owned(), value: value.into() }
    }

    pub(crate) fn set(name: &str, value: impl Into<String>) -> Self {
        Self::Set { name: name.to_owned(), value: value.into() }
    }

    pub(crate) fn fallback(name: &str, value: impl Into<String>) -> Self {
        Self::Default { name: name.to_owned(), value: value.into() }
    }

    pub(crate) fn apply(&self, environment: &mut Environment) {
        match self {
            Self::Append { name, value } => {
                let list = environment.entry(name.into()).or_default();
                if entries(list).all(|entry| entry != value.as_bytes()) {
                    *list = joined(list, value.as_ref());
                }
            }
            Self::Prepend { name, value } => {
                let list = environment.entry(name.into()).or_default();
                if entries(list).next() != Some(value.as_bytes()) {
                    *list = joined(value.as_ref(), list);
                }
            }
            Self::Set { name, value } => {
                environment.insert(name.into(), value.into());
            }
            Self::Default { name, value } => {
                environment.entry(name.into()).or_insert_with(|| value.into());
            }
            Self::Unset { name } => {
                environment.remove(OsStr::new(name));
            }
        }
    }
}

fn entries(list: &OsStr) -> impl Iterator<Item = &[u8]> {
    list.as_bytes().split(|byte| *byte == b':')
}

fn joined(first: &OsStr, last: &OsStr) -> OsString {
    let separator = if first.is_empty() || last.is_empty() { "" } else { ":" };
    [first, separator.as_ref(), last].into_iter().collect()
}

impl fmt::Display for Change {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Append { name, value } => write!(formatter, "{name}+=:{value}"),
            Self::Prepend { name, value } => write!(formatter, "{name}={value}:+"),
            Self::Set { name, value } => write!(formatter, "{name}={value}"),
            Self::Default { name, value } => write!(formatter, "{name}?={value}"),
            Self::Unset { name } => write!(formatter, "-{name}"),
        }
    }
}

/// The state of a shell at the end of its script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Report {
    pub working_directory: PathBuf,
    pub limits: Limits,
    /// The exported variables.
    pub environment: Environment,
}

impl Report {
    /// The report as bytes: the working directory, the limits, and `NAME=value` pairs, each with a NUL at its end.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let limits = self.limits.to_string();
        let directory = self.working_directory.as_os_str().as_bytes();
        let mut parts = vec![directory, b"\0", limits.as_bytes(), b"\0"];
        for (name, value) in &self.environment {
            parts.extend([name.as_bytes(), b"=", value.as_bytes(), b"\0"]);
        }
        parts.concat()
    }

    /// Reads the bytes of [`Self::to_bytes`] without the shell's own variables; `None` if they are incomplete.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut entries = bytes.strip_suffix(&[0])?.split(|byte| *byte == 0);
        let working_directory = PathBuf::from(OsStr::from_bytes(entries.next()?));
        let limits = str::from_utf8(entries.next()?).ok()?.parse().ok()?;
        let mut environment = Environment::new();
        for entry in entries {
            let equals = entry.iter().position(|byte| *byte == b'=')?;
            let [name, value] = [&entry[..equals], &entry[equals + 1..]].map(OsStr::from_bytes);
            if !SHELLS_OWN.map(OsStr::new).contains(&name) {
                environment.insert(name.to_owned(), value.to_owned());
            }
        }
        Some(Self { working_directory, limits, environment })
    }

    pub(crate) fn of_this_process() -> io::Result<Self> {
        let working_directory = std::env::current_dir()?;
        let environment = std::env::vars_os().collect();
        Ok(Self { working_directory, limits: Limits::of_this_process(), environment })
    }
}

/// The first file `program` on the `PATH` of `environment`, as for execvp(3), that is executable by `exists`.
pub(crate) fn find_program(
    environment: &Environment,
    program: &str,
    exists: impl Fn(&Path) -> bool,
) -> Option<PathBuf> {
    let path = environment.get(OsStr::new("PATH"))?;
    std::env::split_paths(path).map(|directory| directory.join(program)).find(|path| exists(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> Environment {
        pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    #[test]
    fn an_entry_is_added_once_and_a_default_replaces_nothing() {
        let (append, prepend) = (Change::append("A", "/new"), Change::prepend("A", "/new"));
        let default = Change::fallback("A", "/new");
        for (change, before, after) in [
            (&append, Some("/a"), "/a:/new"),
            (&append, Some("/new:/a"), "/new:/a"),
            (&append, None, "/new"),
            (&prepend, Some("/a:/new"), "/new:/a:/new"),
            (&prepend, Some("/new:/a"), "/new:/a"),
            (&prepend, Some(""), "/new"),
            (&default, Some(""), ""),
            (&default, None, "/new"),
        ] {
            let mut changed: Environment =
                before.map(|value| ("A".into(), value.into())).into_iter().collect();
            change.apply(&mut changed);
            assert_eq!(changed, environment(&[("A", after)]), "{change} of {before:?}");
        }
    }

    #[test]
    fn a_report_reads_back_without_the_shells_variables() {
        let report = Report {
            working_directory: "/tmp/work dir".into(),
            limits: "nofile=1:2,umask=0027".parse().unwrap(),
            environment: environment(&[("A", "x\ny=z"), ("_", "/bin/sh"), ("SHLVL", "2")]),
        };
        let read = Report::from_bytes(&report.to_bytes()).unwrap();
        assert_eq!(read.working_directory, report.working_directory);
        assert_eq!(read.limits, report.limits);
        assert_eq!(read.environment, environment(&[("A", "x\ny=z")]));
        for cut_off in [&b"/tmp\0A=1"[..], b""] {
            assert_eq!(Report::from_bytes(cut_off), None);
        }
    }
}
