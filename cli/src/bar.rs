//! Bars of text cells.

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
