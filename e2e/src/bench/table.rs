//! Tables of results, in Markdown that is aligned for the terminal.

/// A table of these rows, the first of which is the head. All have as many cells.
pub(super) fn render(rows: &[Vec<String>]) -> String {
    let columns = 0..rows.first().map_or(0, Vec::len);
    let width =
        |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = columns.map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
    };
    let mut lines: Vec<String> = rows.iter().map(line).collect();
    let rule = widths.iter().map(|width| "-".repeat(width + 2)).collect::<Vec<_>>().join("|");
    lines.insert(1, format!("|{rule}|\n"));
    lines.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_what_they_hold() {
        let rows = [["", "s", "pods"], ["mounted", "1.00", ""]];
        let table = render(&rows.map(|row| row.map(str::to_owned).to_vec()));
        insta::assert_snapshot!(table, @r"
        |         | s    | pods |
        |---------|------|------|
        | mounted | 1.00 |      |
        ");
    }
}
