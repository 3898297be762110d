//! The label of a reason. Reasons of Kubernetes and of runtimes become [`OTHER`], so that label values are bounded.

use flux_api::crd::Reason;

pub(super) const OTHER: &str = "Other";

fn labels() -> impl Iterator<Item = &'static str> {
    let groups = [Reason::COMPLETE, Reason::FAILED, Reason::UNDER_WAY];
    groups.into_iter().flatten().map(|reason| reason.as_str())
}

pub(super) fn label(reason: &str) -> &'static str {
    labels().find(|it| *it == reason).unwrap_or(OTHER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Reasons of `Progressing` after the end of a run, where `status.reason` is that of the end.
    const NOT_SHOWN: [&str; 2] = ["Finished", "NotRunAgain"];

    /// The reasons in the page's table of conditions that can be in `status.reason`.
    fn reasons_on_the_page() -> BTreeSet<&'static str> {
        let page = include_str!("../../../docs/troubleshooting.md");
        let (mut reasons, mut is_shown) = (BTreeSet::new(), false);
        for row in page.lines().filter(|line| line.starts_with('|')) {
            let cells: Vec<_> = row.split('|').map(str::trim).collect();
            let [_, condition, reason, _, _, _] = cells[..] else { continue };
            if !condition.is_empty() {
                let shown = ["Accepted=False", "Progressing=", "Complete=", "Failed="];
                is_shown = shown.iter().any(|it| condition.trim_matches('`').starts_with(it));
            }
            let words = reason.split('`').skip(1).step_by(2).filter(|_| is_shown);
            reasons.extend(words.filter(|word| !NOT_SHOWN.contains(word)));
        }
        reasons
    }

    #[test]
    fn labels_are_the_reasons_of_the_troubleshooting_page() {
        assert_eq!(labels().collect::<BTreeSet<_>>(), reasons_on_the_page());
        assert_eq!(label("Waiting"), "Waiting");
        assert_eq!(label("BackoffLimitExceeded"), OTHER);
    }
}
