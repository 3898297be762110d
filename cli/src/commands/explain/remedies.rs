//! What to do about what. The tables of docs/troubleshooting.md are the one place that says it: this reads them.

const PAGE: &str = include_str!("../../../../docs/troubleshooting.md");

/// A row of a table that begins with a symptom.
struct Row<'page> {
    cells: Vec<&'page str>,
}

fn rows() -> impl Iterator<Item = Row<'static>> {
    PAGE.lines().filter_map(|line| {
        let line = line.strip_prefix('|')?.strip_suffix('|')?;
        Some(Row { cells: line.split('|').map(str::trim).collect() })
    })
}

/// What a page has between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// What to do where the condition with this `reason` says most, and its message says `message`. `code` is the exit
/// code of the run.
pub(super) fn of_reason(reason: &str, message: &str, code: Option<i32>) -> Option<String> {
    if let Some(remedy) = of_symptom(&format!("reason `{reason}`:"), message) {
        return Some(remedy);
    }
    let of_condition = rows().filter(|row| row.cells.len() == 4);
    let mut found: Vec<Row<'_>> =
        of_condition.filter(|row| quoted(row.cells[1]).any(|it| it == reason)).collect();
    let has_code =
        |row: &Row<'_>| code.is_some_and(|code| row.cells[1].ends_with(&format!(", {code}")));
    if let Some(at) = found.iter().position(has_code) {
        found.swap(0, at);
    }
    found.first().map(|row| plain(row.cells[3])).filter(|remedy| !remedy.is_empty())
}

/// What to do where an agent or a log says `said`.
pub(super) fn of_log(said: &str) -> Option<String> {
    of_symptom("the log", said)
}

/// The remedy of the first symptom that begins so, and of which a quoted part is in `said`.
fn of_symptom(begin: &str, said: &str) -> Option<String> {
    let of_symptom = rows().filter(|row| row.cells.len() == 3 && row.cells[0].starts_with(begin));
    let mut fits = of_symptom.filter(|row| {
        let rest = row.cells[0].strip_prefix(begin).unwrap_or_default();
        quoted(rest).any(|part| said.contains(part))
    });
    fits.next().map(|row| plain(row.cells[2]))
}

/// A text of a page without what a terminal has no use for: links, and remarks that are only a link.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, link)) = rest.split_once('[') {
        let Some((words, after)) = link.split_once("](") else { break };
        let after = after.split_once(')').map_or("", |(_, after)| after);
        // A remark that is only a link goes with its parentheses.
        let remark = before.strip_suffix(" (").zip(after.strip_prefix(')'));
        plain.push_str(remark.map_or(before, |(before, _)| before));
        plain.push_str(if remark.is_some() { "" } else { words });
        rest = remark.map_or(after, |(_, after)| after);
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_says_what_to_do() {
        let of = |reason, message, code| of_reason(reason, message, code).unwrap();
        assert!(of("CommandFailed", "", Some(1)).contains("output"));
        assert!(of("CommandFailed", "", Some(127)).contains("the full path"));
        assert!(of("Waiting", "pod a has no node: 0/1 nodes", None).contains("smaller requests"));
        assert!(of("Waiting", "ImagePullBackOff", None).contains("pull secrets"));
        let memory = "container hello ran out of the memory that its limits allow";
        for reason in ["LeadReplaced", "Running"] {
            assert!(of(reason, memory, None).starts_with("raise `resources.limits.memory`"));
        }
        assert!(of("LeadReplaced", "it was deleted", None).contains("keep its jobs"));
        assert!(of("Waiting", "something else", None).contains("as the message says"));
        assert_eq!(of("LeadUnreachable", "", Some(68)), "why the lead did not start");
        assert_eq!(of_reason("CommandSucceeded", "", Some(0)), None);
        assert!(of_log("10.0.0.1:8050: refused").unwrap().contains("NetworkPolicy"));
        assert_eq!(of_log("nothing of that"), None);
    }

    #[test]
    fn links_are_words() {
        assert_eq!(plain("see [a page](x.md#y), or ([why](z.md)) not"), "see a page, or not");
        assert_eq!(plain("[install one](a.md), or `b`"), "install one, or `b`");
    }
}
