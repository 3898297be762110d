//! The chart as a picture, in light and in dark, whichever the reader prefers.

use super::chart::{Chart, Kind, Row, Segment};
use crate::commands::status::milliseconds;
use std::fmt::Write as _;

const WIDTH: i64 = 960;
/// Of what stands to the left of the bars, and to the right.
const LEFT: i64 = 72;
const RIGHT: i64 = 72;
const TOP: i64 = 56;
const ROW: i64 = 22;
const BAR: i64 = 16;
/// Below the bars, for the legend.
const BOTTOM: i64 = 44;
/// Of a word of the legend.
const WORD: i64 = 140;
/// About how many times are written at the axis.
const TICKS: i64 = 8;

const STYLE: &str = "
text { font: 12px system-ui, sans-serif; fill: #1f2328 }
.name { font-size: 14px; font-weight: 600 }
.ground { fill: #ffffff } .grid { stroke: #d8dee4 }
.schedule { fill: #c9d1d9 } .start { fill: #e3b341 } .prepare { fill: #54aeff }
.quorum { fill: #0a69da } .command { fill: #1a7f37 } .end { fill: #a475f9 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 }
.ground { fill: #0d1117 } .grid { stroke: #30363d }
.schedule { fill: #484f58 } .start { fill: #bb8009 } .prepare { fill: #388bfd }
.quorum { fill: #79c0ff } .command { fill: #3fb950 } .end { fill: #bc8cff }
}
";

pub(super) fn svg(chart: &Chart) -> String {
    let rows = i64::try_from(chart.rows.len()).unwrap_or_default();
    let height = TOP + rows * ROW + BOTTOM;
    let name = escaped(&chart.name);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n\
         <title>{name}: what each rank did</title>\n<style>{STYLE}</style>\n\
         <rect class=\"ground\" width=\"{WIDTH}\" height=\"{height}\"/>\n\
         <text class=\"name\" x=\"12\" y=\"20\">{name}</text>\n"
    );
    let bottom = height - BOTTOM;
    for time in ticks(chart.milliseconds) {
        let x = place(time, chart.milliseconds);
        let _ = write!(
            text,
            "<line class=\"grid\" x1=\"{x}\" y1=\"{TOP}\" x2=\"{x}\" y2=\"{bottom}\"/>\n\
             <text x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
            TOP - 8,
            seconds(time)
        );
    }
    for (row, y) in chart.rows.iter().zip((0..).map(|index| TOP + index * ROW)) {
        text.push_str(&line(row, y, chart.milliseconds));
    }
    for (kind, x) in Kind::ALL.into_iter().zip((0..).map(|index| LEFT + index * WORD)) {
        let (class, y) = (class(kind), height - 26);
        let _ = write!(
            text,
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"12\" height=\"12\"/>\n\
             <text x=\"{}\" y=\"{}\">{}</text>\n",
            x + 18,
            y + 10,
            kind.words()
        );
    }
    text + "</svg>\n"
}

fn line(row: &Row, y: i64, whole: i64) -> String {
    let base = y + BAR - 3;
    let mut text = format!("<text x=\"12\" y=\"{base}\">rank {}</text>\n", row.rank);
    for segment in &row.segments {
        text.push_str(&rectangle(row.rank, segment, y, whole));
    }
    let end = row.exit_code.map(|code| format!("exit {code}"));
    let x = row.segments.iter().map(Segment::end).max().map_or(LEFT, |end| place(end, whole)) + 6;
    if let Some(end) = end {
        let _ = writeln!(text, "<text x=\"{x}\" y=\"{base}\">{end}</text>");
    }
    text
}

fn rectangle(rank: u32, segment: &Segment, y: i64, whole: i64) -> String {
    let x = place(segment.start_milliseconds, whole);
    let width = (place(segment.end(), whole) - x).max(1);
    let goes_on = if segment.continues { ", so far" } else { "" };
    format!(
        "<rect class=\"{}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{BAR}\">\
         <title>rank {rank}: {}, {}{goes_on}</title></rect>\n",
        class(segment.kind()),
        escaped(&segment.name),
        milliseconds(segment.duration_milliseconds)
    )
}

const fn class(kind: Kind) -> &'static str {
    match kind {
        Kind::Schedule => "schedule",
        Kind::Start => "start",
        Kind::Prepare => "prepare",
        Kind::Quorum => "quorum",
        Kind::Command => "command",
        Kind::End => "end",
    }
}

/// Where a time is from left to right.
fn place(time: i64, whole: i64) -> i64 {
    LEFT + time.clamp(0, whole.max(0)).saturating_mul(WIDTH - LEFT - RIGHT) / whole.max(1)
}

/// Round times, some of them.
fn ticks(whole: i64) -> impl Iterator<Item = i64> {
    let least = (whole / TICKS).max(1);
    let powers = (0..18).map(|power| 10_i64.pow(power));
    let mut steps = powers.flat_map(|power| [power, 2 * power, 5 * power]);
    let step = steps.find(|step| *step >= least).unwrap_or(i64::MAX);
    (0..).map_while(move |index: i64| index.checked_mul(step).filter(|time| *time <= whole))
}

/// A round time in seconds, as short as it can be said.
fn seconds(time: i64) -> String {
    let text = format!("{}.{:03}", time / 1000, time % 1000);
    format!("{} s", text.trim_end_matches('0').trim_end_matches('.'))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
