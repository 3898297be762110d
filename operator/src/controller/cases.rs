//! Tests of lifecycle, decision and status: each case in the files of `cases/` is a MiniCluster with its objects, as YAML,
//! and what follows from them, after `>`. `UPDATE_EXPECT=1 cargo test -p flux-operator --lib cases` writes the latter anew.

mod decision;
mod kstatus;
mod objects;
mod state;

use super::decide::deletion::expires;
use super::decide::{DecisionInput, Plan, decide};
use super::error::{Error, NameConflict, ObjectName, Verb};
use super::fixtures::{at, defaults, images, mini_cluster};
use super::observe::Observed;
use super::observe::demand::Answer;
use super::run_record::{RECORD_ANNOTATION, RunRecord};
use super::status::{Facts, status};
use flux_api::cluster::validate::validate;
use flux_api::crd::{MiniCluster, MiniClusterStatus};
use flux_contract::demand::Demand;
use flux_protocol::Redacted;
use kube::ResourceExt as _;
use objects::{PodCase, observed};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The files with decisions, each with its text.
const DECISIONS: [(&str, &str); 5] = [
    ("edits", include_str!("cases/decisions/edits.txt")),
    ("gangs", include_str!("cases/decisions/gangs.txt")),
    ("objects", include_str!("cases/decisions/objects.txt")),
    ("sizes", include_str!("cases/decisions/sizes.txt")),
    ("times", include_str!("cases/decisions/times.txt")),
];
/// The files with states.
const STATES: [(&str, &str); 4] = [
    ("ends", include_str!("cases/states/ends.txt")),
    ("results", include_str!("cases/states/results.txt")),
    ("starts", include_str!("cases/states/starts.txt")),
    ("waits", include_str!("cases/states/waits.txt")),
];

/// Begins a line with something that follows from a case.
const RESULT: &str = "  > ";

/// A MiniCluster and its objects.
#[derive(Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Case {
    /// The specification of generation 1, whose objects exist; without it nothing exists.
    started: Option<Value>,
    /// The specification of generation 2, if it was edited. A field `annotations` is for the MiniCluster itself.
    spec: Option<Value>,
    generation: Option<i64>,
    /// The second at which the operator decides; 300 if absent.
    now: Option<i64>,
    /// Number of ready pods of the Job, which started at second 100.
    ready: Option<i32>,
    /// Type and reason of the condition by which the Job ended at second 200.
    ended: Option<String>,
    /// The operator has recorded the run.
    recorded: bool,
    /// Merge patches of live objects.
    job: Option<Value>,
    config_map: Option<Value>,
    /// The same of the agents' configuration.
    agents: Option<Value>,
    services_pod: Option<Value>,
    services: BTreeMap<String, Value>,
    pod_group: Option<Value>,
    /// Live objects that were deleted: `job`, `configMap`, `servicesPod`, `podGroup`, `lead`, or the name of a Service.
    gone: Vec<String>,
    lead: Option<PodCase>,
    earlier_lead: Option<PodCase>,
    failed_worker: Option<PodCase>,
    unstarted_leads: Vec<u32>,
    /// Why pods do not start.
    waiting: Option<String>,
    /// The wait is so short that it is part of every start.
    is_passing: bool,
    /// Why the Job controller creates no pods.
    pods_refused: Option<String>,
    /// Seconds to the next check of the pods.
    next_check: Option<u64>,
    /// The schedulers whose PodGroups the API server has.
    served: Vec<String>,
    /// Kind and name of objects of others.
    taken: Vec<String>,
    /// Kind and name of objects of a deleted MiniCluster.
    left: Vec<String>,
    taken_services: Vec<String>,
    taken_aliases: Vec<String>,
    /// Pods that the queue of Flux wants, and those that it wanted a moment ago.
    demand: Option<(u32, Option<u32>)>,
    /// A quota forbids the write of the Job.
    is_forbidden: bool,
    /// The case that shows the status before.
    after: Option<String>,
}

/// What follows from a case.
struct Conclusion {
    live: Observed,
    plan: Plan,
    status: MiniClusterStatus,
    object: MiniCluster,
    now: i64,
}

impl Case {
    fn now(&self) -> i64 {
        self.now.unwrap_or(300)
    }

    /// The MiniCluster: as started, unless it was edited.
    fn object(&self) -> MiniCluster {
        let mut spec =
            self.spec.clone().or_else(|| self.started.clone()).unwrap_or_else(|| json!({}));
        let annotations = spec.as_object_mut().and_then(|spec| spec.remove("annotations"));
        let mut object = mini_cluster(&spec);
        object.metadata.annotations = annotations.map(|it| serde_json::from_value(it).unwrap());
        let edited = if self.spec.is_some() && self.started.is_some() { 2 } else { 1 };
        object.metadata.generation = Some(self.generation.unwrap_or(edited));
        object
    }

    fn conclude(&self, old: Option<&MiniClusterStatus>, live: Observed) -> Conclusion {
        let (object, now, images) = (self.object(), at(self.now()), images("agent"));
        let generation = object.metadata.generation.unwrap();
        let cluster = validate(&object, &defaults());
        let live = live.classified(cluster.as_ref().ok(), generation, &images.agent, &now);
        let answer = |(wanted, kept)| Answer::Demand(Demand { wanted, kept });
        let input = DecisionInput {
            generation,
            now: now.clone(),
            expires: expires(&object.spec),
            cluster,
            answer: self.demand.map_or(Answer::None, answer),
            images: &images,
            image_volumes: Err("not checked".to_owned()),
            rest_token: Some(Redacted::new("secret-token".to_owned())),
            draw: |bytes| {
                bytes.fill(7);
                Ok(())
            },
        };
        let plan = decide(&input, &live);
        assert!(!format!("{plan:?}").contains("secret-token"));
        let quota = self.is_forbidden.then(forbidden);
        let facts =
            Facts { live: &live, plan: &plan, error: quota.as_ref().or(plan.obstacle.as_ref()) };
        let status = status(old, "hello", &facts, now);
        Conclusion { live, plan, status, object, now: self.now() }
    }
}

fn forbidden() -> Error {
    let status = kube::core::Status::failure("exceeded quota", "Forbidden");
    Error::of(Verb::Apply, "Job", "hello")(kube::Error::Api(Box::new(status)))
}

/// Objects whose kinds and names are in `texts`.
fn conflicts(
    texts: &[String],
    of: fn(ObjectName) -> NameConflict,
) -> impl Iterator<Item = NameConflict> {
    texts.iter().map(move |text| {
        let (kind, name) = text.split_once(' ').unwrap();
        of(ObjectName { kind: kind.to_owned(), name: name.to_owned() })
    })
}

/// The cases of files: title, and the lines below it without the results.
struct Table<'text>(Vec<(&'text str, String)>);

impl<'text> Table<'text> {
    fn new(files: &[(&str, &'text str)]) -> Self {
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

    fn conclude(&self, title: &str) -> Conclusion {
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
        objects::change(&case, &mut live);
        case.conclude(old.as_ref(), live)
    }
}

/// Compares the results in `files` of the directory `kind` with those that `lines` gives for each case.
fn check(kind: &str, files: &[(&str, &str)], lines: fn(&Conclusion) -> Vec<String>) {
    let table = Table::new(files);
    let renewed = |block: &str| {
        let title = block.lines().next().unwrap();
        let Some((_, given)) = table.0.iter().find(|(it, _)| *it == title) else {
            return block.to_owned();
        };
        let results =
            lines(&table.conclude(title)).join("\n").replace('\n', &format!("\n{RESULT}"));
        let given = if given.is_empty() { String::new() } else { format!("{given}\n") };
        format!("{title}\n{given}{RESULT}{results}")
    };
    for (name, text) in files {
        let blocks: Vec<_> = text.trim_end().split("\n\n").map(renewed).collect();
        let path = format!("cases/{kind}/{name}.txt");
        expect_test::expect_file![path].assert_eq(&(blocks.join("\n\n") + "\n"));
    }
}

/// The lifecycle, without the end, which the status has.
fn lifecycle(live: &Observed) -> String {
    let lifecycle = &live.lifecycle;
    match lifecycle.end() {
        Some(_) if lifecycle.record().is_some() => "Ended, recorded".to_owned(),
        Some(_) => "Ended".to_owned(),
        None => format!("{lifecycle:?}"),
    }
}

#[test]
fn each_case_has_its_decision() {
    check("decisions", &DECISIONS, decision::lines);
}

#[test]
fn each_case_has_its_status() {
    check("states", &STATES, state::lines);
}
