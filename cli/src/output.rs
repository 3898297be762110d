//! Output: tables and lines for people, objects for scripts. Without a terminal, or with `NO_COLOR`, there are no
//! colours.

use crate::exit::FAILED;
use anstyle::{AnsiColor, Style};
use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use comfy_table::{Table, presets};
use flux_api::crd::State;
use flux_api::offline::Remark;
use jiff::{Timestamp, Unit};
use serde::Serialize;
use std::future::pending;
use std::io::{self, Write as _};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// JSON.
    Json,
    /// YAML.
    Yaml,
    /// Only names, in the form that kubectl accepts.
    Name,
}

#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct FormatArgument {
    /// Format of the output [default: text]
    #[arg(long, short, value_enum, value_name = "FORMAT")]
    output: Option<Format>,
}

/// What checks a change that is not made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DryRun {
    /// The plugin.
    Client,
    /// Also the API server.
    Server,
}

impl Format {
    /// Prints `object` or, in this format, `names`.
    pub(crate) fn print<T: Serialize>(
        self,
        object: &T,
        names: impl IntoIterator<Item = String>,
    ) -> Result<()> {
        match self {
            Self::Json => print(&serde_json::to_string_pretty(object).context("write JSON")?),
            Self::Yaml => print(&serde_saphyr::to_string(object).context("write YAML")?),
            Self::Name => names.into_iter().for_each(|name| print(&name)),
        }
        Ok(())
    }
}

impl FormatArgument {
    /// Prints in the requested format. Returns false if the user requested text, which the caller prints.
    pub(crate) fn print<T: Serialize>(
        self,
        object: &T,
        names: impl IntoIterator<Item = String>,
    ) -> Result<bool> {
        self.output.map(|format| format.print(object, names)).transpose().map(|it| it.is_some())
    }
}

pub(crate) fn print(text: &str) {
    end_without_reader(writeln!(anstream::stdout(), "{}", text.trim_end()));
}

/// Prints a label, the bytes of a line as they are, and a newline.
pub(crate) fn print_line(label: &str, line: &[u8]) {
    let print = || {
        let mut output = anstream::stdout().lock();
        output.write_all(label.as_bytes())?;
        let mut output = output.into_inner();
        output.write_all(line)?;
        output.write_all(b"\n")
    };
    end_without_reader(print());
}

/// Ends this process if the reader of its standard output has gone, as SIGPIPE ends other programs. This is no failure:
/// `head` has read as much as it needs. Another error, as of a full disk, is one.
#[expect(clippy::exit, reason = "nothing that this process could still do reaches anybody")]
fn end_without_reader(written: io::Result<()>) {
    let Err(error) = written else { return };
    if error.kind() == io::ErrorKind::BrokenPipe {
        std::process::exit(0);
    }
    print_stderr(&format!("kubectl flux: write to the standard output: {error}"));
    std::process::exit(FAILED.into());
}

/// Waits until the reader of the standard output has gone. Where the system does not tell, this never returns.
pub(crate) async fn reader_gone() {
    #[cfg(unix)]
    {
        use std::os::fd::AsFd as _;
        use tokio::io::Interest;
        use tokio::net::unix::pipe::Sender;
        let output = io::stdout().as_fd().try_clone_to_owned();
        // A file has no reader, and this fails.
        let output = output.and_then(Sender::from_owned_fd_unchecked);
        if let Ok(output) = output
            && output.ready(Interest::ERROR).await.is_ok()
        {
            return;
        }
    }
    pending::<()>().await;
}

pub(crate) fn print_stderr(text: &str) {
    let _ = writeln!(anstream::stderr(), "{}", text.trim_end());
}

pub(crate) fn print_remarks(remarks: &[Remark]) {
    for remark in remarks {
        print_stderr(&remark.to_string());
    }
}

pub(crate) fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(header.to_vec());
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let lines = table.lines().map(|line| format!("{}\n", line.trim_end()));
    lines.collect()
}

pub(crate) fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

pub(crate) fn coloured(state: Option<State>) -> String {
    let Some(state) = state else { return "-".to_owned() };
    let colour = match state {
        State::Running | State::Complete => AnsiColor::Green,
        State::Failed | State::Invalid | State::Degraded => AnsiColor::Red,
        State::Pending | State::Starting | State::Ending | State::Suspended => AnsiColor::Yellow,
        State::Other(name) => return name.to_string(),
    };
    paint(colour, &state.to_string())
}

pub(crate) fn paint(colour: AnsiColor, text: &str) -> String {
    let style = Style::new().fg_color(Some(colour.into()));
    format!("{style}{text}{style:#}")
}

pub(crate) fn bold(text: &str) -> String {
    let style = Style::new().bold();
    format!("{style}{text}{style:#}")
}

/// The time from `since` to `now`, in the format of kubectl.
pub(crate) fn age(since: Timestamp, now: Timestamp) -> String {
    let seconds = now.since(since).ok().and_then(|span| span.total(Unit::Second).ok());
    #[expect(clippy::cast_possible_truncation, reason = "only whole seconds are shown")]
    let seconds = seconds.unwrap_or_default().max(0.0) as i64;
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// How long a job has run or waited, as `59.9s`, `59m59s` or `25h01m`.
pub(crate) fn duration(seconds: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "only whole seconds are shown")]
    let whole = seconds as i64;
    match whole {
        0..60 => format!("{seconds:.1}s"),
        60..3600 => format!("{}m{:02}s", whole / 60, whole % 60),
        _ => format!("{}h{:02}m", whole / 3600, whole / 60 % 60),
    }
}

/// The bar of an interval on an axis of `width` cells that stands for the time `whole`: the number of empty cells before
/// it, and its own cells, at least one.
pub(crate) fn cells(start: i64, duration: i64, whole: i64, width: usize) -> (usize, usize) {
    let cell = |time: i64| {
        let time = u128::from(time.clamp(0, whole.max(0)).unsigned_abs());
        let cell = time * width as u128 / u128::from(whole.max(1).unsigned_abs());
        usize::try_from(cell).unwrap_or(width)
    };
    let from = cell(start).min(width.saturating_sub(1));
    (from, cell(start.saturating_add(duration)).saturating_sub(from).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_those_of_kubectl() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let ages = [0, 119, 120, 7199, 7200, 172_800].map(|it| age(at(0), at(it)));
        assert_eq!(ages, ["0s", "119s", "2m", "119m", "2h", "2d"]);
        assert_eq!(age(at(9), at(0)), "0s", "clocks differ");
    }

    #[test]
    fn durations_are_short() {
        let times = [0.04, 59.94, 60.0, 3599.0, 3600.0, 90_061.0].map(duration);
        assert_eq!(times, ["0.0s", "59.9s", "1m00s", "59m59s", "1h00m", "25h01m"]);
    }

    #[test]
    fn bars_have_a_cell_and_stay_inside() {
        for (start, duration, bar) in [
            (0, 100, (0, 40)),
            (50, 25, (20, 10)),
            (50, 0, (20, 1)),
            (100, 0, (39, 1)),
            (100, 100, (39, 1)),
            (-5, 10, (0, 2)),
            (0, i64::MAX, (0, 40)),
        ] {
            assert_eq!(cells(start, duration, 100, 40), bar, "{start} {duration}");
        }
        assert_eq!(cells(0, 0, 0, 40), (0, 1));
    }
}
