//! What users can do about the reason of a condition, or about a line of a log. `docs/troubleshooting.md` has the same
//! remedies, with links; a test compares the two.

/// A remedy for reasons, for parts of the messages with them, or for parts of a log, where there are no reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remedy {
    reasons: &'static str,
    parts: &'static str,
    /// What to do.
    pub advice: &'static str,
    /// Whether this changes fields of the specification that cannot change while the instance exists.
    pub changes_specification: bool,
}

fn remedies() -> impl Iterator<Item = Remedy> {
    include_str!("remedies.txt").lines().filter_map(|line| {
        let mut columns = line.split('|').map(str::trim);
        let [reasons, parts, advice] = [columns.next()?, columns.next()?, columns.next()?];
        let changes_specification = columns.next() == Some("change");
        Some(Remedy { reasons, parts, advice, changes_specification })
    })
}

/// The remedy for a condition with this `reason` and `message`. `code` is the exit code of the run.
pub fn of_reason(reason: &str, message: &str, code: Option<i32>) -> Option<Remedy> {
    let has_reason =
        |row: &Remedy| !reason.is_empty() && row.reasons.split(", ").any(|it| it == reason);
    let is_in = |row: &Remedy| row.parts.split(", ").any(|part| message.contains(part));
    let by_message = remedies().find(|row| has_reason(row) && !row.parts.is_empty() && is_in(row));
    let with_code = code.map(|code| format!("{reason}, {code}")).unwrap_or_default();
    let mut others = remedies().filter(|row| row.parts.is_empty());
    let by_code = others.find(|row| row.reasons == with_code);
    let by_reason = remedies().find(|row| row.parts.is_empty() && has_reason(row));
    by_message.or(by_code).or(by_reason)
}

/// The remedy for the message of an agent, or for a line of its log.
pub fn of_log(text: &str) -> Option<Remedy> {
    remedies().find(|row| row.reasons.is_empty() && text.contains(row.parts))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = include_str!("../../../docs/troubleshooting.md");

    /// The rows of `columns` cells in the tables of the page, without links.
    fn rows(columns: usize) -> impl Iterator<Item = Vec<String>> {
        let rows = PAGE.lines().filter_map(|line| line.strip_prefix('|')?.strip_suffix('|'));
        let rows = rows.map(|row| row.split('|').map(|cell| plain(cell.trim())).collect());
        rows.filter(move |cells: &Vec<String>| cells.len() == columns)
    }

    /// A text of the page with the texts of its links; a link in parentheses is left out.
    fn plain(text: &str) -> String {
        let link = text.split_once('[').and_then(|(before, rest)| {
            let (shown, rest) = rest.split_once("](")?;
            Some((before, shown, rest.split_once(')')?.1))
        });
        let Some((before, shown, after)) = link else { return text.to_owned() };
        match before.strip_suffix(" (").zip(after.strip_prefix(')')) {
            Some((before, after)) => format!("{before}{}", plain(after)),
            None => format!("{before}{shown}{}", plain(after)),
        }
    }

    #[test]
    fn the_page_has_the_same_remedies() {
        let pair = |key: &str, remedy: &str| (key.replace('`', ""), remedy.to_owned());
        let has_remedy = |row: &Vec<String>| row[1].starts_with('`') && !row[3].is_empty();
        let page: Vec<_> = rows(4).filter(has_remedy).map(|row| pair(&row[1], &row[3])).collect();
        let by_reason = remedies().filter(|row| row.parts.is_empty());
        assert_eq!(page, by_reason.map(|row| pair(row.reasons, row.advice)).collect::<Vec<_>>());
        let is_quoted =
            |row: &Vec<String>| row[0].starts_with("reason `") || row[0].starts_with("the log: `");
        let page: Vec<_> = rows(3).filter(is_quoted).map(|row| pair(&row[0], &row[2])).collect();
        let by_part = remedies().filter(|row| !row.parts.is_empty()).map(|row| match row.reasons {
            "" => pair(&format!("the log: {}", row.parts), row.advice),
            reasons => pair(&format!("reason {reasons}: {}", row.parts), row.advice),
        });
        assert_eq!(page, by_part.collect::<Vec<_>>());
    }

    #[test]
    fn messages_and_exit_codes_come_before_reasons() {
        let of = |reason, message, code| of_reason(reason, message, code).unwrap().advice;
        assert!(of("CommandFailed", "", Some(1)).contains("output"));
        assert!(of("CommandFailed", "", Some(127)).contains("the full path"));
        assert!(of("Waiting", "pod a has no node: 0/1 nodes", None).contains("add nodes"));
        assert!(of("Waiting", "ImagePullBackOff", None).contains("pull secrets"));
        let memory = "container hello ran out of the memory that its limits allow";
        for reason in ["LeadReplaced", "Running"] {
            assert!(of(reason, memory, None).starts_with("raise `resources.limits.memory`"));
        }
        assert!(of("LeadReplaced", "it was deleted", None).contains("keep its jobs"));
        assert!(of("Waiting", "something else", None).contains("what the message says"));
        assert!(of("LeadUnreachable", "", Some(68)).contains("why the lead did not start"));
        assert_eq!(of_reason("CommandSucceeded", "", Some(0)), None);
        assert!(of_log("10.0.0.1:8050: refused").unwrap().advice.contains("NetworkPolicy"));
        assert_eq!(of_log("something else"), None);
    }

    #[test]
    fn a_column_marks_what_changes_the_specification() {
        for (reason, message, changes) in [
            ("Waiting", "ErrImagePull", true),
            ("Waiting", "persistentvolumeclaim \"a\" not found", false),
            ("OOMKilled", "", true),
            // There is no Job yet.
            ("NoPodGroups", "", false),
        ] {
            let found = of_reason(reason, message, None).unwrap();
            assert_eq!(found.changes_specification, changes, "{reason} {message}");
        }
        let columns = include_str!("remedies.txt").lines().map(|line| line.split('|').skip(3));
        assert!(columns.flatten().all(|column| column == " change"));
    }
}
