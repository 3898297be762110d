//! What the operator finds in the pods of a Job: each case in `cases.txt` has pods and their Events, as YAML, and what
//! follows from them, after `>`. `UPDATE_EXPECT=1 cargo test -p flux-operator --lib cases` writes the latter anew.

use super::pods::{failure_rank, select_lead, unstarted_leads};
use super::waiting::{Waiting, lead_waiting, waiting};
use crate::controller::cases::{PodCase, renewed};
use crate::controller::fixtures::at;
use crate::controller::pod_ext::{has_failed, is_unstarted};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::ResourceExt as _;
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Case {
    now: i64,
    /// The number of other pods that are not ready.
    others: i32,
    pods: Vec<PodCase>,
    /// Pod, second, reason and message of each Event.
    events: Vec<(String, i64, String, String)>,
}

impl Default for Case {
    fn default() -> Self {
        Self { now: 300, others: 0, pods: Vec::new(), events: Vec::new() }
    }
}

fn event((pod, second, reason, message): &(String, i64, String, String)) -> Event {
    serde_json::from_value(json!({
        "metadata": { "name": "e" }, "involvedObject": { "uid": pod }, "reason": reason,
        "lastTimestamp": at(*second), "message": message,
    }))
    .unwrap()
}

fn shown(what: &str, waiting: Waiting) -> String {
    let Waiting { message, is_persistent } = waiting.with_remedy("hello");
    format!("{what}{}: {message}", if is_persistent { "" } else { ", for a moment" })
}

impl Case {
    fn lines(&self) -> Vec<String> {
        let pods: Vec<Pod> = self.pods.iter().map(PodCase::pod).collect();
        let events: Vec<Event> = self.events.iter().map(event).collect();
        let named = |what: &str, pod: Option<&Pod>| Some(format!("{what}: {}", pod?.name_any()));
        let leads = pods.iter().filter(|pod| pod.name_any().starts_with("hello-0-")).cloned();
        let places = unstarted_leads(&leads.clone().collect::<Vec<_>>(), "hello");
        let (lead, earlier) = select_lead(leads.collect(), "hello");
        let failed = pods.iter().filter(|pod| has_failed(pod));
        let unstarted = pods.iter().filter(|pod| is_unstarted(pod, "hello"));
        let now = at(self.now);
        let of_lead = lead.as_ref().and_then(|lead| lead_waiting(lead, self.others, &now));
        let mut lines = Vec::from_iter(named("lead", lead.as_ref()));
        lines.extend(named("earlier lead", earlier.as_ref()));
        lines.extend((!places.is_empty()).then(|| format!("unstarted leads: {places:?}")));
        lines.extend(unstarted.filter_map(|pod| named("unstarted", Some(pod))));
        lines.extend(named("failed", failed.min_by_key(|pod| failure_rank(pod, "hello"))));
        lines.extend(waiting(&pods, &events, &now).map(|it| shown("waits", it)));
        lines.extend(of_lead.map(|it| shown("lead waits", it)));
        lines
    }
}

#[test]
fn each_case_of_pods_has_its_findings() {
    let renewed = renewed(include_str!("cases.txt"), |title, given| {
        let is_case = !title.starts_with('#');
        is_case.then(|| serde_saphyr::from_str::<Case>(given).unwrap().lines())
    });
    expect_test::expect_file!["cases.txt"].assert_eq(&renewed);
}
