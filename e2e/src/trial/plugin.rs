//! Calls of `kubectl flux` in the namespace of a trial.

use super::Trial;
use crate::product::binaries;
use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// What a call has printed.
#[derive(Debug)]
pub struct Printed {
    /// On standard output.
    pub out: String,
    /// On standard error.
    pub err: String,
}

impl Trial {
    /// `kubectl flux` with these arguments, in the trial's namespace.
    pub fn plugin(&self, words: &[&str]) -> Result<Command> {
        let mut command = self.program(&binaries::plugin()?);
        command.args(["--namespace", self.namespace()]).args(words);
        Ok(command)
    }

    /// The same on a terminal of 100 columns, which util-linux' script(1) makes.
    pub fn plugin_on_terminal(&self, words: &[&str]) -> Result<Command> {
        let plugin = self.plugin(words)?;
        let line = [plugin.get_program()].into_iter().chain(plugin.get_args());
        let line: Vec<&str> =
            line.map(|word| word.to_str()).collect::<Option<_>>().context("not UTF-8")?;
        let line = format!("stty rows 40 cols 100; exec {}", shlex::try_join(line)?);
        let mut script = self.program(Path::new("script"));
        script.args(["--quiet", "--return", "--command", &line, "/dev/null"]);
        Ok(script)
    }

    /// Calls it, and fails unless it ends with `code`.
    pub fn plugin_ends(&self, code: i32, words: &[&str]) -> Result<Printed> {
        let output = self.plugin(words)?.output();
        let Output { status, stdout, stderr } =
            output.with_context(|| format!("running kubectl flux {words:?}"))?;
        let [out, err] = [stdout, stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        let is_expected = status.code() == Some(code);
        ensure!(is_expected, "kubectl flux {words:?}: {status}, not {code}:\n{out}\n{err}");
        Ok(Printed { out, err })
    }

    /// Returns its output; fails unless it ends with 0.
    pub fn plugin_prints(&self, words: &[&str]) -> Result<String> {
        Ok(self.plugin_ends(0, words)?.out)
    }

    /// The same as JSON.
    pub fn plugin_json(&self, words: &[&str]) -> Result<Value> {
        let text = self.plugin_prints(&[words, &["--output", "json"]].concat())?;
        serde_json::from_str(&text).with_context(|| format!("reading {text}"))
    }
}
