//! Jobs as the clients of flux-restful know them.

use flux_protocol::client::job_list::Job;
use serde_json::{Value, json};

/// The job as Flux lists it, with its numbers of states and results. What does not apply to it is left out.
pub(super) fn listed(job: &Job) -> Value {
    let Value::Object(mut fields) = json!(job) else { return Value::Null };
    fields.remove("dependencies");
    if job.is_inactive() {
        fields.insert("exception_occurred".to_owned(), job.exception_type.is_some().into());
    } else {
        fields.remove("success");
    }
    fields.retain(|_, value| !value.is_null());
    fields.into()
}

/// The job with names of state and result, and an empty text for what is not known. `now` is in seconds.
pub(super) fn detailed(job: &Job, now: f64) -> Value {
    let end = job.t_cleanup.or(job.t_inactive).unwrap_or(now);
    let known = |value: Value| if value.is_null() { "".into() } else { value };
    let of_end = |value: Value| if job.is_inactive() { known(value) } else { "".into() };
    let mut fields = listed(job);
    for name in ["priority", "nnodes", "ranks", "nodelist", "waitstatus", "duration", "expiration"]
    {
        fields[name] = known(fields[name].take());
    }
    fields["state"] = job.state().name().to_ascii_uppercase().into();
    fields["result"] = of_end(json!(job.status()));
    fields["returncode"] = of_end(job.returncode().into());
    fields["runtime"] = job.t_run.map_or(0.0, |start| (end - start).max(0.0)).into();
    fields["exception"] = json!({
        "occurred": of_end(job.exception_type.is_some().into()), "severity": "",
        "type": known(json!(job.exception_type)), "note": known(json!(job.exception_note)),
    });
    fields
}

/// The jobs that are asked for, of those that have `text` in any of their values: from `start` on, at most `length`.
pub(super) fn found(jobs: Vec<Value>, text: &str, start: usize, length: usize) -> Vec<Value> {
    let has_text = |value: &Value| match value.as_str() {
        Some(value) => value.contains(text),
        None => value.to_string().contains(text),
    };
    let values = |job: &Value| job.as_object().is_some_and(|job| job.values().any(has_text));
    let found = jobs.into_iter().filter(|job| text.is_empty() || values(job));
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
    use crate::job::tests::listed as job;

    #[test]
    fn a_job_has_numbers_in_a_list_and_names_in_detail() {
        let waits = job(&json!({ "state": 8 }));
        insta::assert_snapshot!(listed(&waits), @r#"{"id":58,"name":"a","ntasks":2,"priority":16,"state":8,"t_submit":10.5,"urgency":16,"userid":1000}"#);
        insta::assert_snapshot!(detailed(&waits, 12.0), @r#"{"duration":"","exception":{"note":"","occurred":"","severity":"","type":""},"expiration":"","id":58,"name":"a","nnodes":"","nodelist":"","ntasks":2,"priority":16,"ranks":"","result":"","returncode":"","runtime":0.0,"state":"SCHED","t_submit":10.5,"urgency":16,"userid":1000,"waitstatus":""}"#);
        let runs =
            job(&json!({ "state": 16, "t_run": 11.5, "ranks": "0", "nodelist": "a", "nnodes": 1 }));
        let runs = detailed(&runs, 12.0);
        assert_eq!(
            json!([runs["state"], runs["runtime"], runs["result"]]),
            json!(["RUN", 0.5, ""])
        );
        let canceled = job(&json!({
            "state": 64, "t_run": 11.5, "t_cleanup": 11.75, "t_inactive": 13.0, "result": 4, "waitstatus": 36608,
            "exception_type": "cancel", "exception_note": "by hand",
        }));
        let numbers = listed(&canceled);
        assert_eq!(json!([numbers["result"], numbers["state"]]), json!([4, 64]));
        insta::assert_snapshot!(detailed(&canceled, 20.0), @r#"{"duration":"","exception":{"note":"by hand","occurred":true,"severity":"","type":"cancel"},"exception_note":"by hand","exception_occurred":true,"exception_type":"cancel","expiration":"","id":58,"name":"a","nnodes":"","nodelist":"","ntasks":2,"priority":16,"ranks":"","result":"CANCELED","returncode":143,"runtime":0.25,"state":"INACTIVE","success":false,"t_cleanup":11.75,"t_inactive":13.0,"t_run":11.5,"t_submit":10.5,"urgency":16,"userid":1000,"waitstatus":36608}"#);
    }

    #[test]
    fn a_search_finds_texts_and_numbers() {
        let jobs: Vec<_> = ["sleep", "echo", "sleepy"].into_iter().zip(101..).collect();
        let of = |(name, id): (&str, u64)| json!({ "name": name, "id": id });
        let ids = |text, start, length| {
            let found = found(jobs.iter().copied().map(of).collect(), text, start, length);
            found.iter().filter_map(|job| job["id"].as_u64()).collect::<Vec<_>>()
        };
        assert_eq!([ids("sleep", 0, 9), ids("102", 0, 9)], [vec![101, 103], vec![102]]);
        assert_eq!(
            [ids("", 1, 1), ids("sleep", 1, 9), ids("", 3, 9)],
            [vec![102], vec![103], vec![]]
        );
    }

    #[test]
    fn output_is_lines_with_their_ends() {
        assert_eq!(lines(b"one\n\nt\xffo"), ["one\n", "\n", "t\u{fffd}o"]);
        assert!(lines(b"").is_empty());
    }
}
