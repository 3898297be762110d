//! `flux-agent batch`: submits the batch script, waits for its end, and exits with its code. Flux writes the output of the
//! script and of its jobs to files. After a failure, this prints the output of the script and of the failed lines.

use crate::plan::directives;
use crate::plan::step::BATCH_SCRIPT_VARIABLE;
use crate::process::exit_status::exit_code;
use crate::system::output;
use clap::Args;
use flux_contract::Exit;
use nix::unistd::{AccessFlags, access};
use std::collections::BTreeMap;
use std::env;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

/// How many of the last bytes of an output file are printed.
const SHOWN: u64 = 64 * 1024;
/// The reason of a line that Flux has refused.
const NOT_SUBMITTED: &str = "it was not submitted";
/// The placeholder for the id of the job in the name of an output file.
const ID: &str = "{{id}}";
/// How many failed lines the reason of the failure has.
const NAMED: usize = 5;

#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub(crate) struct Batch {
    /// The `flux` program.
    #[arg(long, value_name = "PATH")]
    pub flux: String,
    /// Directory of the jobs' output files (`logs`).
    #[arg(long, value_name = "PATH")]
    pub output_directory: PathBuf,
    /// File into which the failed lines are written for PID 1.
    #[arg(long, value_name = "PATH")]
    pub failure: PathBuf,
    /// Leave out the id of the job.
    #[arg(long)]
    pub quiet: bool,
    /// Node, task and option flags.
    #[arg(last = true)]
    pub flags: Vec<String>,
}

/// Submits the script that the environment names, and returns the exit code.
pub(crate) fn run(batch: &Batch) -> u8 {
    try_run(batch).unwrap_or_else(|text| {
        output::log_line(&text);
        Exit::Internal.code()
    })
}

fn try_run(batch: &Batch) -> Result<u8, String> {
    if let Some(reason) = closed(&batch.output_directory) {
        output::log_line(&reason);
        leave_reason(batch, &reason);
        return Ok(Exit::Prepare.code());
    }
    let script = env::var_os(BATCH_SCRIPT_VARIABLE).map(PathBuf::from);
    let script = script.ok_or_else(|| format!("read {BATCH_SCRIPT_VARIABLE}: it is not set"))?;
    let chosen = chosen_output(batch, &script)?;
    let usual = format!("{}/flux-{ID}.out", script.parent().unwrap_or(&script).display());
    let fail = |what, error: io::Error| format!("run {} {what}: {error}", batch.flux);
    let submitted = Command::new(&batch.flux)
        .arg("batch")
        .args(chosen.is_none().then(|| format!("--output={usual}")))
        .args(&batch.flags)
        .arg("--flags=waitable")
        .arg(&script)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| fail("batch", error))?;
    if !submitted.status.success() {
        return Ok(code(submitted.status));
    }
    let job = String::from_utf8_lossy(&submitted.stdout).trim().to_owned();
    if !batch.quiet {
        output::print_line(&job);
        if let Some(path) = &chosen {
            output::log_line(&format!("the output of the batch script goes to {path}"));
        }
    }
    let mut status = Command::new(&batch.flux);
    let ended = status.args(["job", "status", &job]).stdin(Stdio::null()).status();
    let code = code(ended.map_err(|error| fail("job status", error))?);
    if code != 0 {
        show(batch, &chosen.unwrap_or(usual), &job);
    }
    Ok(code)
}

/// The path of the script's output in the specification or in the script itself. An option of the command line would
/// override the option in the script.
fn chosen_output(batch: &Batch, script: &Path) -> Result<Option<String>, String> {
    let reading = |error| format!("read the batch script {}: {error}", script.display());
    let text = fs::read_to_string(script).map_err(reading)?;
    Ok(directives::output_option(&batch.flags).or_else(|| directives::output(&text)))
}

fn code(status: ExitStatus) -> u8 {
    u8::try_from(exit_code(status)).unwrap_or(u8::MAX)
}

fn show(batch: &Batch, path: &str, job: &str) {
    let paths = output_paths(path, job);
    let Some(text) = paths.iter().find_map(|path| end_of_file(Path::new(path)).ok()) else {
        output::log_line(&format!(
            "the batch script failed; what it printed is not here ({}): it never started, ran in another pod, or printed nothing",
            paths[0]
        ));
        return;
    };
    show_text(&text);
    let failed = failed_lines(&text);
    for Line { name, command, why } in &failed {
        output::log_line(&format!("{name} failed: {why}: {command}"));
        let file = |suffix| batch.output_directory.join(format!("{name}.{suffix}"));
        let texts = ["out", "err"].map(|suffix| end_of_file(&file(suffix)));
        texts.iter().flatten().for_each(|text| show_text(text));
        if why != NOT_SUBMITTED && texts.iter().all(Result::is_err) {
            let directory = batch.output_directory.display();
            output::log_line(&format!("its output is in {directory} of the pod where it ran"));
        }
    }
    if let Some(reason) = reason(&failed) {
        leave_reason(batch, &reason);
    }
}

fn leave_reason(batch: &Batch, reason: &str) {
    if let Err(error) = fs::write(&batch.failure, reason) {
        output::log_line(&format!("write {}: {error}", batch.failure.display()));
    }
}

/// The reason if `directory` is not writable. Flux would only record it in the eventlog of a job.
fn closed(directory: &Path) -> Option<String> {
    let error = access(directory, AccessFlags::W_OK | AccessFlags::X_OK).err()?;
    Some(format!(
        "the jobs cannot write their output into {} (logs): {}; give the directory to Flux's user, or \
         name another",
        directory.display(),
        error.desc()
    ))
}

fn show_text(text: &str) {
    if !text.is_empty() {
        output::print_stderr(text.trim_end_matches('\n'));
    }
}

/// The possible paths of `path`, as `flux-{{id}}.out`. Flux writes an id with `ƒ` or with `f`, depending on the locale of the
/// process (flux-core, `fluid.c`): the job has the locale of the container, and `flux batch`, a Python program, its own.
fn output_paths(path: &str, job: &str) -> [String; 2] {
    [job.to_owned(), format!("f{}", bare_id(job))].map(|id| path.replace(ID, &id))
}

fn bare_id(id: &str) -> &str {
    id.strip_prefix('ƒ').or_else(|| id.strip_prefix('f')).unwrap_or(id)
}

fn end_of_file(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(SHOWN)))?;
    let mut bytes = Vec::new();
    file.take(SHOWN).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    /// `job-<number>`, as its output files are called.
    name: String,
    command: String,
    why: String,
}

/// The failed lines, from the output of the script: `job-<number>: <command>` before each submission, then the ids of its
/// jobs; `<id>: <why>` for each failed job; `job-<number> was not submitted`.
fn failed_lines(text: &str) -> Vec<Line> {
    let mut commands: BTreeMap<u64, &str> = BTreeMap::new();
    let mut jobs: BTreeMap<&str, u64> = BTreeMap::new();
    let mut failed: BTreeMap<u64, &str> = BTreeMap::new();
    let mut present = None;
    for line in text.lines() {
        let (name, rest) = line.split_once(": ").unwrap_or((line, ""));
        if let Some(number) = number(name).filter(|_| name != line) {
            commands.insert(number, rest);
            present = Some(number);
        } else if let Some(number) = jobs.get(bare_id(name)).filter(|_| name != line) {
            failed.entry(*number).or_insert(rest);
        } else if let Some(number) = line.strip_suffix(" was not submitted").and_then(number) {
            failed.entry(number).or_insert(NOT_SUBMITTED);
        } else if let Some(number) = present.filter(|_| is_id(line)) {
            jobs.insert(bare_id(line), number);
        }
    }
    let line = |(number, why): (u64, &str)| {
        let command = (*commands.get(&number)?).to_owned();
        Some(Line { name: format!("job-{number}"), command, why: why.to_owned() })
    };
    failed.into_iter().filter_map(line).collect()
}

fn number(name: &str) -> Option<u64> {
    name.strip_prefix("job-")?.parse().ok()
}

fn is_id(text: &str) -> bool {
    let bare = bare_id(text);
    bare.len() < text.len() && !bare.is_empty() && bare.chars().all(char::is_alphanumeric)
}

fn reason(failed: &[Line]) -> Option<String> {
    let shown = |Line { name, command, why }: &Line| format!("{name} ({command}): {why}");
    let mut parts: Vec<String> = failed.iter().take(NAMED).map(shown).collect();
    let others = failed.len().saturating_sub(NAMED);
    parts.extend((others > 0).then(|| format!("{others} more")));
    (!parts.is_empty()).then(|| parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_file_is_found_in_every_locale() {
        let paths = output_paths("/t/flux-{{id}}.out", "ƒJEEewR");
        assert_eq!(paths, ["/t/flux-ƒJEEewR.out", "/t/flux-fJEEewR.out"]);
        assert_eq!(output_paths("o.{{id}}", "fJEEewR")[0], "o.fJEEewR");
    }

    #[test]
    fn other_scripts_have_no_failed_lines() {
        assert_eq!(failed_lines("step 1: ok\nfoo: bar\nƒab: x\n"), []);
        assert_eq!(reason(&[]), None);
    }
}
