//! Tables for the terminal.

/// Columns as wide as what they hold; the first is aligned to the left, the others to the right.
pub(super) fn render(table: &[Vec<String>]) -> String {
    let width =
        |column: usize| table.iter().filter_map(|row| row.get(column)).map(String::len).max();
    let line = |row: &Vec<String>| {
        let cells = row.iter().enumerate().map(|(column, cell)| {
            let width = width(column).unwrap_or_default();
            if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        cells.collect::<Vec<_>>().join("  ")
    };
    table.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_what_they_hold() {
        let table = [["name", "s"], ["a", "10.0"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(render(&table), "name     s\na     10.0");
    }
}
