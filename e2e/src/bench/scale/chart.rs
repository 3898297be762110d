//! The picture: a panel for each figure, both axes logarithmic, so that what is linear is as steep as the
//! dotted line.

use std::fmt::Write as _;

/// Side of a panel's inside.
const SIDE: f64 = 220.0;
/// Room around it.
const MARGIN: f64 = 56.0;
const COLOURS: [&str; 4] = ["#1f5fa8", "#c0562b", "#3b7f3b", "#7a4f9a"];

/// A figure, of each contender for each number.
pub(super) struct Curve {
    pub(super) title: String,
    pub(super) lines: Vec<(String, Vec<(f64, f64)>)>,
}

/// All panels beside each other, as SVG.
pub(super) fn chart(curves: &[Curve]) -> String {
    let panel = SIDE + 2.0 * MARGIN;
    let width = panel * f64::from(u32::try_from(curves.len()).unwrap_or(u32::MAX));
    let mut picture = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {panel}\" font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let mut left = 0.0;
    for curve in curves {
        // Writing to a String cannot fail.
        let _ = writeln!(picture, "<g transform=\"translate({left} 0)\">\n{}</g>", one(curve));
        left += panel;
    }
    picture + "</svg>\n"
}

/// The part of an axis that holds all values: whole powers of ten.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Axis {
    from: f64,
    to: f64,
}

impl Axis {
    fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let logarithms: Vec<f64> = values.filter(|it| *it > 0.0).map(f64::log10).collect();
        let from = logarithms.iter().copied().reduce(f64::min)?.floor();
        let to = logarithms.iter().copied().reduce(f64::max)?.ceil().max(from + 1.0);
        Some(Self { from, to })
    }

    /// Between 0 and [`SIDE`].
    fn place(self, value: f64) -> f64 {
        (value.log10() - self.from) / (self.to - self.from) * SIDE
    }

    fn powers(self) -> impl Iterator<Item = f64> {
        let mut exponent = self.from;
        std::iter::from_fn(move || {
            let power = (exponent <= self.to).then(|| 10_f64.powf(exponent));
            exponent += 1.0;
            power
        })
    }
}

fn one(curve: &Curve) -> String {
    let points = || curve.lines.iter().flat_map(|(_, points)| points.iter());
    let horizontal = Axis::of(points().map(|point| point.0));
    let vertical = Axis::of(points().map(|point| point.1));
    let mut text =
        format!("<text x=\"{MARGIN}\" y=\"30\" font-weight=\"bold\">{}</text>\n", curve.title);
    let (Some(horizontal), Some(vertical)) = (horizontal, vertical) else { return text };
    let across = |value: f64| MARGIN + horizontal.place(value);
    let down = |value: f64| MARGIN + SIDE - vertical.place(value);
    let bottom = MARGIN + SIDE;
    for power in horizontal.powers() {
        let x = across(power);
        let _ = writeln!(
            text,
            "<path d=\"M{x:.1} {MARGIN}V{bottom}\" stroke=\"#ddd\"/><text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{power}</text>",
            bottom + 16.0
        );
    }
    for power in vertical.powers() {
        let (y, right) = (down(power), MARGIN + SIDE);
        let _ = writeln!(
            text,
            "<path d=\"M{MARGIN} {y:.1}H{right}\" stroke=\"#ddd\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{power:e}</text>",
            MARGIN - 6.0,
            y + 4.0
        );
    }
    let _ = writeln!(text, "{}", linear(horizontal, vertical));
    for ((name, points), colour) in curve.lines.iter().zip(COLOURS.iter().cycle()) {
        let places: Vec<(f64, f64)> = points
            .iter()
            .filter(|(x, y)| *x > 0.0 && *y > 0.0)
            .map(|(x, y)| (across(*x), down(*y)))
            .collect();
        let line: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(
            text,
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" points=\"{}\"><title>{name}</title></polyline>",
            line.join(" ")
        );
        for (x, y) in &places {
            let _ =
                writeln!(text, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>");
        }
        if let Some((x, y)) = places.last() {
            let _ = writeln!(
                text,
                "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"{colour}\">{name}</text>",
                y - 8.0
            );
        }
    }
    text
}

/// What is linear is as steep as this line from the lower left corner.
fn linear(horizontal: Axis, vertical: Axis) -> String {
    let powers = (horizontal.to - horizontal.from).min(vertical.to - vertical.from);
    let right = MARGIN + powers / (horizontal.to - horizontal.from) * SIDE;
    let (bottom, top) =
        (MARGIN + SIDE, MARGIN + SIDE - powers / (vertical.to - vertical.from) * SIDE);
    format!(
        "<path d=\"M{MARGIN} {bottom}L{right:.1} {top:.1}\" stroke=\"#999\" stroke-dasharray=\"2 3\"/>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_holds_whole_powers_of_ten() {
        let axis = Axis::of([12.0, 0.0, 800.0].into_iter()).unwrap();
        assert_eq!(axis, Axis { from: 1.0, to: 3.0 });
        assert_eq!(axis.powers().collect::<Vec<_>>(), [10.0, 100.0, 1000.0]);
        assert!(axis.place(10.0).abs() < 1e-9 && (axis.place(1000.0) - SIDE).abs() < 1e-9);
        assert_eq!(Axis::of([0.0].into_iter()), None);
    }

    #[test]
    fn every_contender_has_a_line_and_nothing_measured_is_no_fault() {
        let points = vec![(10.0, 1.0), (100.0, 10.0)];
        let lines = vec![("us".to_owned(), points.clone()), ("them".to_owned(), points)];
        let picture = chart(&[
            Curve { title: "t".into(), lines },
            Curve { title: "n".into(), lines: vec![] },
        ]);
        assert_eq!(picture.matches("<polyline").count(), 2);
        assert_eq!(picture.matches("<circle").count(), 4);
        assert!(picture.trim_end().ends_with("</svg>"));
    }
}
