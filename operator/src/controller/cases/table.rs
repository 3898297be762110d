//! The files with cases.

use super::case::{Case, Conclusion};
use super::objects::{change, observed};
use crate::controller::fixtures::at;
use crate::controller::run_record::{RECORD_ANNOTATION, RunRecord};
use kube::ResourceExt as _;
use serde_json::Value;
use std::collections::BTreeSet;

/// The files with decisions, each with its text.
pub(super) const DECISIONS: [(&str, &str); 6] = [
    ("again", include_str!("decisions/again.txt")),
    ("edits", include_str!("decisions/edits.txt")),
    ("gangs", include_str!("decisions/gangs.txt")),
    ("objects", include_str!("decisions/objects.txt")),
    ("sizes", include_str!("decisions/sizes.txt")),
    ("times", include_str!("decisions/times.txt")),
];
/// The files with states.
pub(super) const STATES: [(&str, &str); 7] = [
    ("again", include_str!("states/again.txt")),
    ("changes", include_str!("states/changes.txt")),
    ("deletions", include_str!("states/deletions.txt")),
    ("ends", include_str!("states/ends.txt")),
    ("results", include_str!("states/results.txt")),
    ("starts", include_str!("states/starts.txt")),
    ("waits", include_str!("states/waits.txt")),
];

/// Begins a line with something that follows from a case.
pub(super) const RESULT: &str = "  > ";

/// The cases of files: title, and the lines below it without the results.
pub(super) struct Table<'text>(pub(super) Vec<(&'text str, String)>);

impl<'text> Table<'text> {
    pub(super) fn new(files: &[(&str, &'text str)]) -> Self {
        let blocks = files.iter().flat_map(|(_, text)| text.trim_end().split("\n\n"));
        let cases = blocks.filter(|block| !block.starts_with('#')).map(|block| {
            let (title, lines) = block.split_once('\n').unwrap_or((block, ""));
            let given = lines.lines().filter(|line| !line.starts_with(RESULT));
            (title, given.collect::<Vec<_>>().join("\n"))
        });
        let table = Self(cases.collect());
        let titles: BTreeSet<_> = table.0.iter().map(|(title, _)| title).collect();
        assert_eq!(titles.len(), table.0.len(), "two cases have the same title");
        table
    }

    /// The fields of the case with this title; `like` names another case, whose other fields it has.
    fn fields(&self, title: &str) -> Value {
        let found = self.0.iter().find(|(it, _)| *it == title);
        let (_, given) = found.unwrap_or_else(|| panic!("there is no case: {title}"));
        let mut fields: Value = if given.is_empty() {
            Value::Object(serde_json::Map::new())
        } else {
            serde_saphyr::from_str(given).unwrap_or_else(|error| panic!("{title}: {error}"))
        };
        let own = fields.as_object_mut().unwrap();
        if let Some(like) = own.remove("like") {
            let mut others = self.fields(like.as_str().unwrap());
            others.as_object_mut().unwrap().append(own);
            return others;
        }
        fields
    }

    pub(super) fn conclude(&self, title: &str) -> Conclusion {
        let case: Case = serde_json::from_value(self.fields(title))
            .unwrap_or_else(|error| panic!("{title}: {error}"));
        let old = case.after.as_ref().map(|before| self.conclude(before).status);
        let mut live = observed(&case);
        if case.recorded {
            let case = Case { generation: None, spec: None, ..case.clone() };
            let Conclusion { live: run, plan, status, .. } = case.conclude(None, live.clone());
            let record = RunRecord::of(run.job.as_ref(), None, &status, plan.generation, &at(300));
            let annotations = live.config_map.as_mut().unwrap().annotations_mut();
            let record = serde_json::to_string(&record.unwrap()).unwrap();
            annotations.insert(RECORD_ANNOTATION.to_owned(), record);
        }
        change(&case, &mut live);
        case.conclude(old.as_ref(), live)
    }
}
