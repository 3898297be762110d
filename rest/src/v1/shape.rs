//! Jobs as the clients of flux-restful know them.

use flux_protocol::client::job_list::Job;
use serde_json::{Map, Value, json};

/// The job as Flux lists it, with its numbers of states and results. What does not apply to it is left out.
pub(super) fn listed(job: &Job) -> Map<String, Value> {
    let mut fields = json!({
        "id": job.id, "userid": job.userid, "urgency": job.urgency, "priority": job.priority,
        "t_submit": job.t_submit, "t_run": job.t_run, "t_cleanup": job.t_cleanup,
        "t_inactive": job.t_inactive, "state": job.state, "name": job.name, "ntasks": job.ntasks,
        "ncores": job.ncores, "nnodes": job.nnodes, "ranks": job.ranks, "nodelist": job.nodelist,
        "exception_type": job.exception_type, "exception_note": job.exception_note,
        "result": job.result, "waitstatus": job.waitstatus, "annotations": job.annotations,
    });
    if job.is_inactive() {
        fields["success"] = job.success.into();
        fields["exception_occurred"] = job.exception_type.is_some().into();
    }
    let Value::Object(mut fields) = fields else { return Map::new() };
    fields.retain(|_, value| !value.is_null());
    fields
}

/// The job with names of state and result, and an empty text for what is not known. `now` is in seconds.
pub(super) fn detailed(job: &Job, now: f64) -> Map<String, Value> {
    let ended = job.is_inactive();
    let known = |value: Value| if value.is_null() { "".into() } else { value };
    let end = job.t_cleanup.or(job.t_inactive).unwrap_or(now);
    let of_end = |value: Value| known(if ended { value } else { Value::Null });
    let mut fields = listed(job);
    let more = json!({
        "state": job.state().name().to_ascii_uppercase(),
        "result": of_end(json!(job.status())),
        "returncode": of_end(json!(job.returncode())),
        "runtime": job.t_run.map_or(0.0, |start| (end - start).max(0.0)),
        "priority": known(json!(job.priority)),
        "nnodes": known(json!(job.nnodes)),
        "ranks": known(json!(job.ranks)),
        "nodelist": known(json!(job.nodelist)),
        "waitstatus": known(json!(job.waitstatus)),
        "exception": {
            "occurred": of_end(json!(job.exception_type.is_some())),
            "severity": "",
            "type": known(json!(job.exception_type)),
            "note": known(json!(job.exception_note)),
        },
        "duration": "",
        "expiration": "",
    });
    if let Value::Object(more) = more {
        fields.extend(more);
    }
    fields
}

/// The jobs that are asked for, of those that have `text` in any of their values: from `start` on, at most `length`.
pub(super) fn found(
    jobs: Vec<Map<String, Value>>,
    text: &str,
    start: usize,
    length: usize,
) -> Vec<Map<String, Value>> {
    let has_text = |value: &Value| match value.as_str() {
        Some(value) => value.contains(text),
        None => value.to_string().contains(text),
    };
    let found = jobs.into_iter().filter(|job| text.is_empty() || job.values().any(has_text));
    found.skip(start).take(length).collect()
}

/// The output as a list of lines with their ends.
pub(super) fn lines(output: &[u8]) -> Vec<String> {
    let lines = output.split_inclusive(|byte| *byte == b'\n');
    lines.map(|line| String::from_utf8_lossy(line).into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(fields: &Value) -> Job {
        let mut all = json!({
            "id": 58, "userid": 1000, "urgency": 16, "priority": 16, "t_submit": 10.5, "name": "a", "ntasks": 2,
        });
        all.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        serde_json::from_value(all).unwrap()
    }

    #[test]
    fn a_job_has_numbers_in_a_list_and_names_in_detail() {
        let waits = job(&json!({ "state": 8 }));
        let text = |fields: Map<String, Value>| Value::from(fields).to_string();
        insta::assert_snapshot!(text(listed(&waits)), @r#"{"id":58,"name":"a","ntasks":2,"priority":16,"state":8,"t_submit":10.5,"urgency":16,"userid":1000}"#);
        insta::assert_snapshot!(text(detailed(&waits, 12.0)), @r#"{"duration":"","exception":{"note":"","occurred":"","severity":"","type":""},"expiration":"","id":58,"name":"a","nnodes":"","nodelist":"","ntasks":2,"priority":16,"ranks":"","result":"","returncode":"","runtime":0.0,"state":"SCHED","t_submit":10.5,"urgency":16,"userid":1000,"waitstatus":""}"#);
        let runs =
            job(&json!({ "state": 16, "t_run": 11.5, "ranks": "0", "nodelist": "a", "nnodes": 1 }));
        let runs = detailed(&runs, 12.0);
        assert_eq!(
            (&runs["state"], &runs["runtime"], &runs["result"]),
            (&json!("RUN"), &json!(0.5), &json!(""))
        );
        let canceled = job(&json!({
            "state": 64, "t_run": 11.5, "t_cleanup": 11.75, "t_inactive": 13.0, "result": 4, "waitstatus": 36608,
            "exception_type": "cancel", "exception_note": "by hand",
        }));
        assert_eq!(
            (&listed(&canceled)["result"], &listed(&canceled)["state"]),
            (&json!(4), &json!(64))
        );
        insta::assert_snapshot!(text(detailed(&canceled, 20.0)), @r#"{"duration":"","exception":{"note":"by hand","occurred":true,"severity":"","type":"cancel"},"exception_note":"by hand","exception_occurred":true,"exception_type":"cancel","expiration":"","id":58,"name":"a","nnodes":"","nodelist":"","ntasks":2,"priority":16,"ranks":"","result":"CANCELED","returncode":143,"runtime":0.25,"state":"INACTIVE","success":false,"t_cleanup":11.75,"t_inactive":13.0,"t_run":11.5,"t_submit":10.5,"urgency":16,"userid":1000,"waitstatus":36608}"#);
    }

    #[test]
    fn a_search_finds_texts_and_numbers() {
        let jobs: Vec<_> = ["sleep", "echo", "sleepy"].into_iter().zip(101..).collect();
        let of = |(name, id): (&str, u64)| {
            Map::from_iter([("name".to_owned(), name.into()), ("id".to_owned(), id.into())])
        };
        let ids = |text, start, length| {
            let found = found(jobs.iter().copied().map(of).collect(), text, start, length);
            found.iter().filter_map(|job| job["id"].as_u64()).collect::<Vec<_>>()
        };
        assert_eq!(ids("sleep", 0, 9), [101, 103]);
        assert_eq!(ids("102", 0, 9), [102]);
        assert_eq!(ids("", 1, 1), [102]);
        assert_eq!(ids("sleep", 1, 9), [103]);
        assert_eq!(ids("", 3, 9), Vec::<u64>::new());
    }

    #[test]
    fn output_is_lines_with_their_ends() {
        assert_eq!(lines(b"one\n\nt\xffo"), ["one\n", "\n", "t\u{fffd}o"]);
        assert!(lines(b"").is_empty());
    }
}
