use super::*;
use axum::http::StatusCode;
use flux_api::crd::{Reason, State, TimelineEntry};
use jiff::Timestamp;
use std::collections::BTreeSet;

/// Most series of an operator, beside those that states, failures and answers of the API server make.
const SERIES_LIMIT: usize = 450;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn seen(state: State, reason: &str, in_queue: bool, waits_since: Option<i64>) -> KnownMiniCluster {
    let summary = Summary::new(state, reason, in_queue, waits_since.map(at));
    KnownMiniCluster { summary: Some(summary), is_pending: false }
}

fn phase(name: &str, duration_milliseconds: i64) -> TimelineEntry {
    TimelineEntry { name: name.to_owned(), start_milliseconds: 0, duration_milliseconds }
}

/// Metrics of an operator that has done everything once.
fn full() -> Metrics {
    let metrics = Metrics::default();
    metrics.observe(Duration::from_millis(3), Some("ApplyFailed"));
    metrics.requests.count("get", Some(StatusCode::OK));
    metrics.add_count(|population| {
        population.add(seen(State::Pending, "Waiting", false, Some(40)), at(100));
        population.add(seen(State::Suspended, "Suspended", true, Some(10)), at(100));
    });
    metrics
}

fn lines<'text>(text: &'text str, with: &str) -> Vec<&'text str> {
    text.lines().filter_map(|line| line.strip_prefix(with)).collect()
}

/// The labels of each metric, by the beginnings of their names.
fn labels<'text>(text: &'text str, name: &str) -> BTreeSet<&'text str> {
    let labelled = lines(text, name).into_iter().filter_map(|line| line.split_once('{'));
    let of_metric = labelled.filter(|(end, _)| ["", "_total", "_info", "_bucket"].contains(end));
    let sets = of_metric.filter_map(|(_, set)| set.split_once('}'));
    let labels = sets.flat_map(|(set, _)| set.split(',')).filter_map(|it| it.split_once('='));
    labels.map(|(label, _)| label).filter(|label| *label != "le").collect()
}

#[test]
fn the_operations_page_has_every_metric_and_alert() {
    let page = include_str!("../../../docs/operations.md");
    let rules = include_str!("../../../deploy/chart/files/rules.yaml");
    let text = full().text().unwrap();
    let described = |with: &str| {
        lines(&text, with).into_iter().map(|line| line.split_once(' ').unwrap()).collect::<Vec<_>>()
    };
    let (helps, kinds) = (described("# HELP "), described("# TYPE "));
    assert_eq!(helps.len(), 14, "{text}");
    assert_eq!(lines(page, "| `flux_operator_").len(), helps.len());
    for ((name, help), (_, kind)) in helps.into_iter().zip(kinds) {
        let end = match kind {
            "counter" => "_total",
            "info" => "_info",
            _ => "",
        };
        let labels: Vec<_> = labels(&text, name).iter().map(|it| format!("`{it}`")).collect();
        let (labels, help) = (labels.join(", "), help.trim_end_matches('.'));
        let row = format!("| `{name}{end}` | {kind} | {labels} | {help} |");
        assert!(page.contains(&row), "docs/operations.md has no row {row}");
    }
    let alerts: Vec<_> = rules.lines().filter_map(|it| it.split_once("alert: ")).collect();
    assert_eq!(lines(page, "### Flux").len(), alerts.len());
    for (_, alert) in alerts {
        assert!(page.contains(&format!("\n### {alert}\n")), "docs/operations.md lacks {alert}");
    }
}

/// What is exported, without the buckets of histograms and the release.
fn exported(metrics: &Metrics) -> String {
    let text = metrics.text().unwrap().replace(env!("CARGO_PKG_VERSION"), "RELEASE");
    let is_shown = |line: &&str| !line.starts_with('#') && !line.contains("_bucket{");
    // The families have their series in any order.
    let lines: BTreeSet<_> = text.lines().filter(is_shown).map(|it| format!("{it}\n")).collect();
    lines.into_iter().collect()
}

#[test]
fn what_a_leader_has_done_is_exported() {
    let metrics = Metrics::default();
    expect_test::expect_file!["tests/stand_by.txt"].assert_eq(&exported(&metrics));
    metrics.observe(Duration::from_millis(3), None);
    metrics.observe(Duration::from_millis(3), Some("ApplyFailed"));
    metrics.set_leader(true);
    let timeline = [phase("quorum", 1500), phase("made up", -7)];
    let after = Some(Duration::from_secs(90));
    let end = End { after, state: State::Failed, reason: "CommandFailed", timeline: &timeline };
    let ready = Some(Duration::from_secs(4));
    metrics.observe_status_change(&StatusChange { size: 8, ready, end: Some(end) });
    metrics.observe_status_change(&StatusChange { size: 9, ready, end: None });
    // Two controllers.
    let waits = || seen(State::Pending, "Waiting", false, Some(40));
    metrics.add_count(move |population| population.add(waits(), at(100)));
    metrics.add_count(|population| {
        let new = KnownMiniCluster { summary: None, is_pending: true };
        let all = [
            seen(State::Pending, "Waiting", false, Some(70)),
            seen(State::Suspended, "Suspended", true, Some(10)),
            seen(State::Suspended, "Suspended", false, None),
            seen(State::Failed, "BackoffLimitExceeded", false, None),
            // The status has a time in the future.
            seen(State::Degraded, "Degraded", false, Some(200)),
            new,
        ];
        for it in all {
            population.add(it, at(100));
        }
    });
    expect_test::expect_file!["tests/leader.txt"].assert_eq(&exported(&metrics));
}

#[test]
fn events_in_a_cluster_add_no_series() {
    let metrics = full();
    for number in 0..2000 {
        let (name, state) = (format!("word{number}"), State::Failed);
        let timeline = [phase(&name, number)];
        let end = End { after: None, state, reason: &name, timeline: &timeline };
        let size = i32::try_from(number).unwrap();
        let ready = Some(Duration::MAX);
        metrics.observe_status_change(&StatusChange { size, ready, end: Some(end) });
    }
    let text = metrics.text().unwrap();
    assert!(!text.contains("word"), "{text}");
    let series = text.lines().filter(|line| !line.starts_with('#')).count();
    assert!(series < SERIES_LIMIT, "{series} series");
    let reasons: BTreeSet<_> = (0..2000)
        .map(|number| Summary::new(State::Failed, &format!("word{number}"), false, None).reason)
        .collect();
    assert_eq!(reasons.into_iter().collect::<Vec<_>>(), ["Other"]);
}

#[test]
fn alerts_and_dashboard_use_only_existing_metrics() {
    let rules = include_str!("../../../deploy/chart/files/rules.yaml");
    let dashboard = include_str!("../../../deploy/chart/files/dashboard.json");
    let text = full().text().unwrap();
    let (mut names, mut categories) = (0, 0);
    for part in [rules, dashboard].iter().flat_map(|it| it.split("flux_operator_").skip(1)) {
        let end = part.find(|it: char| it != '_' && !it.is_ascii_lowercase());
        let (name, rest) = part.split_at(end.unwrap_or(part.len()));
        let name = format!("flux_operator_{name}");
        assert!(!lines(&text, &name).is_empty(), "{name}");
        let set = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'));
        for matcher in set.iter().flat_map(|(set, _)| set.split(',')) {
            let label = matcher.split(['=', '!']).next().unwrap();
            assert!(label == "job" || labels(&text, &name).contains(label), "{name} {matcher}");
        }
        names += 1;
    }
    for line in rules.lines() {
        let listed = line.split_once("category=~\"").and_then(|(_, rest)| rest.split_once('"'));
        for category in listed.iter().flat_map(|(listed, _)| listed.split('|')) {
            assert!(Reason::UNDER_WAY.iter().any(|it| it.as_str() == category), "{category}");
            categories += 1;
        }
    }
    assert!(names >= 28 && categories == 7, "{names} {categories}");
}
