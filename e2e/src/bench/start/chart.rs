//! The medians as a drawing: a bar for each contender, a line from the shortest run to the longest.

use std::fmt::Write as _;

use super::{contender::Start, recording::Milestone, report::Report, statistics::Spread};

const WIDTH: f64 = 760.0;
/// Where bars begin, and the room that is left behind the longest for its number.
const LEFT: f64 = 190.0;
const RIGHT: f64 = 60.0;
const ROW: f64 = 26.0;
const HEAD: f64 = 40.0;
/// The first start and the second one.
const COLOURS: [&str; 2] = ["#4878a8", "#a8c4dc"];

/// The drawing, in SVG.
pub(super) fn draw(report: &Report) -> String {
    let mut body = String::new();
    let mut top = 0.0;
    for size in &report.sizes {
        top = panel(report, *size, top, &mut body);
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {top}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{top}\" fill=\"white\"/>\n{body}</svg>\n"
    )
}

/// The bars of one size, below `top`; returns where the next one begins.
fn panel(report: &Report, size: u32, top: f64, body: &mut String) -> f64 {
    let spread = |contender, start| report.spread(contender, size, start, Milestone::PodEnded);
    let contenders = report.contenders();
    let all = contenders.iter().flat_map(|it| Start::BOTH.map(|start| spread(*it, start)));
    let longest = all.flatten().map(|it| it.most).fold(f64::MIN_POSITIVE, f64::max);
    let scale = (WIDTH - LEFT - RIGHT) / longest;
    // Writing to a String cannot fail.
    let _ = writeln!(
        body,
        "<text x=\"8\" y=\"{}\" font-size=\"14\">{size} pods: seconds to the lead's end, first start \
         (dark) and the same name again (light)</text>",
        top + 24.0
    );
    for (row, contender) in (0_u32..).zip(&contenders) {
        let y = top + HEAD + f64::from(row) * ROW;
        let name = contender.name().replace('`', "");
        let _ = writeln!(
            body,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{name}</text>",
            LEFT - 8.0,
            y + 14.0
        );
        for ((half, start), colour) in (0_u32..).zip(Start::BOTH).zip(COLOURS) {
            if let Some(spread) = spread(*contender, start) {
                bar(spread, y + 1.0 + f64::from(half) * 11.0, scale, colour, body);
            }
        }
    }
    top + HEAD + f64::from(u32::try_from(contenders.len()).unwrap_or_default()) * ROW + 8.0
}

fn bar(spread: Spread, y: f64, scale: f64, colour: &str, body: &mut String) {
    let at = |seconds: f64| LEFT + seconds * scale;
    let _ = writeln!(
        body,
        "<rect x=\"{LEFT}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"10\" fill=\"{colour}\"/>\n\
         <path d=\"M{:.1} {:.1}H{:.1}\" stroke=\"#333\"/>\n\
         <text x=\"{:.1}\" y=\"{:.1}\" font-size=\"10\">{:.2}</text>",
        spread.median * scale,
        at(spread.least),
        y + 5.0,
        at(spread.most),
        at(spread.most) + 5.0,
        y + 9.0,
        spread.median,
    );
}

#[cfg(test)]
mod tests {
    use super::{super::report::tests::sample, *};

    #[test]
    fn each_median_is_a_bar_with_its_number() {
        let drawing = draw(&sample());
        assert_eq!(drawing.matches("<rect").count(), 1 + 3, "{drawing}");
        for number in [">4.00<", ">5.00<", ">2.00<"] {
            assert!(drawing.contains(number), "{number}: {drawing}");
        }
        assert!(drawing.contains("this operator, mounted"));
    }

    #[test]
    fn the_longest_run_fits() {
        let drawing = draw(&sample());
        let end = format!("H{:.1}", WIDTH - RIGHT);
        assert!(drawing.contains(&end), "{end}: {drawing}");
    }
}
