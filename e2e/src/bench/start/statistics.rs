//! Medians and what is around them.

use serde::Serialize;

/// Several measurements of the same.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Spread {
    /// Half of them took no longer.
    pub(super) median: f64,
    /// The shortest.
    pub(super) least: f64,
    /// The longest.
    pub(super) most: f64,
    /// How many there are.
    pub(super) count: usize,
}

impl Spread {
    /// Of these values; none if there are none.
    pub(super) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (least, most, count) = (*sorted.first()?, *sorted.last()?, sorted.len());
        let median = f64::midpoint(sorted[(count - 1) / 2], sorted[count / 2]);
        Some(Self { median, least, most, count })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        let median = |values: &[f64]| Spread::of(values.iter().copied()).unwrap().median;
        assert!((median(&[3.0, 1.0, 9.0]) - 3.0).abs() < 1e-9);
        assert!((median(&[4.0, 1.0, 2.0, 9.0]) - 3.0).abs() < 1e-9);
    }

    #[test]
    fn a_spread_has_both_ends() {
        let spread = Spread::of([3.0, 1.0, 9.0]).unwrap();
        assert!(spread.least < 1.1 && spread.most > 8.9 && spread.count == 3);
        assert_eq!(Spread::of([]), None);
    }
}
