//! How a figure grows with the number of MiniClusters: a straight line through the logarithms.

use serde::Serialize;

/// How far from 1 an exponent may be that is still called linear.
const LINEAR: f64 = 0.1;

/// `figure = factor * number ^ exponent`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Fit {
    pub(super) exponent: f64,
    /// Share of the variation that the line explains.
    pub(super) r_squared: f64,
}

/// The line of least squares through the logarithms of `points`; none for less than three.
pub(super) fn fit(points: &[(f64, f64)]) -> Option<Fit> {
    let logarithms: Vec<(f64, f64)> = points
        .iter()
        .filter(|(x, y)| *x > 0.0 && *y > 0.0)
        .map(|(x, y)| (x.ln(), y.ln()))
        .collect();
    if logarithms.len() < 3 {
        return None;
    }
    let mean = |of: fn(&(f64, f64)) -> f64| {
        let sum: f64 = logarithms.iter().map(of).sum();
        // A handful of points.
        sum / f64::from(u32::try_from(logarithms.len()).unwrap_or(u32::MAX))
    };
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let sum = |of: &dyn Fn(&(f64, f64)) -> f64| -> f64 { logarithms.iter().map(of).sum() };
    let in_x = sum(&|point| (point.0 - x).powi(2));
    let in_y = sum(&|point| (point.1 - y).powi(2));
    let both = sum(&|point| (point.0 - x) * (point.1 - y));
    if in_x == 0.0 {
        return None;
    }
    let r_squared = if in_y == 0.0 { 1.0 } else { both.powi(2) / (in_x * in_y) };
    Some(Fit { exponent: both / in_x, r_squared })
}

impl Fit {
    /// The fit in a sentence about `what`.
    pub(super) fn sentence(&self, what: &str) -> String {
        let Self { exponent, r_squared } = self;
        let verdict = if *exponent > 1.0 + LINEAR {
            "faster than linearly"
        } else if *exponent < 1.0 - LINEAR {
            "more slowly than linearly"
        } else {
            "linearly"
        };
        format!(
            "{what} grow {verdict} with the number of MiniClusters: exponent {exponent:.2}, R2 {r_squared:.3}."
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(figure: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
        [10.0, 100.0, 1000.0].map(|number| (number, figure(number))).to_vec()
    }

    #[test]
    fn the_exponent_of_a_power_is_found() {
        for exponent in [0.0, 0.5, 1.0, 2.0] {
            let found = fit(&points(|number| 3.0 * number.powf(exponent))).unwrap();
            assert!((found.exponent - exponent).abs() < 1e-9, "{found:?}");
            assert!((found.r_squared - 1.0).abs() < 1e-9, "{found:?}");
        }
    }

    #[test]
    fn two_points_or_nothing_above_zero_prove_nothing() {
        assert_eq!(fit(&[(1.0, 1.0), (2.0, 2.0)]), None);
        assert_eq!(fit(&points(|_| 0.0)), None);
        assert_eq!(fit(&[(5.0, 1.0), (5.0, 2.0), (5.0, 3.0)]), None);
    }

    #[test]
    fn the_sentence_says_whether_it_is_linear() {
        let say = |exponent| Fit { exponent, r_squared: 0.9996 }.sentence("Requests");
        assert_eq!(
            say(1.02),
            "Requests grow linearly with the number of MiniClusters: exponent 1.02, R2 1.000."
        );
        assert!(say(0.7).contains("more slowly") && say(1.4).contains("faster"));
    }
}
