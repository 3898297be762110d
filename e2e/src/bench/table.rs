//! Tables of results, in Markdown that is aligned for the terminal.

/// A table whose first column has `rows`' names; every row has as many cells as there are `heads`.
pub(super) fn render(heads: &[&str], rows: &[(String, Vec<String>)]) -> String {
    let head = (String::new(), heads.iter().map(|head| (*head).to_owned()).collect());
    let table: Vec<Vec<&str>> = [&head].into_iter().chain(rows).map(cells).collect();
    let width =
        |column: usize| table.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..=heads.len()).map(width).collect();
    let line = |row: &Vec<&str>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
    };
    let mut lines: Vec<String> = table.iter().map(line).collect();
    let rule = widths.iter().map(|width| "-".repeat(width + 2)).collect::<Vec<_>>().join("|");
    lines.insert(1, format!("|{rule}|\n"));
    lines.concat()
}

fn cells((name, cells): &(String, Vec<String>)) -> Vec<&str> {
    [name].into_iter().chain(cells).map(String::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_what_they_hold() {
        let rows = [("mounted".to_owned(), vec!["1.00".to_owned(), String::new()])];
        insta::assert_snapshot!(render(&["s", "pods"], &rows), @r"
        |         | s    | pods |
        |---------|------|------|
        | mounted | 1.00 |      |
        ");
    }
}
