//! The query of a request. A refusal names all that is wrong with it.

use crate::answer::Refusal;
use crate::listing::{ALL_STATES, Cursor, Filter};
use axum::extract::Extension;
use axum::http::Method;
use flux_protocol::job::JobState;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::LazyLock;

/// Jobs of an answer, at most and by default.
pub(crate) const MOST_JOBS: usize = 1000;
const JOBS: usize = 100;

/// The parameters of a query by name.
pub(crate) type Query = BTreeMap<String, String>;
/// The query, as the calls get it.
pub(crate) type Asked = Extension<Query>;

/// The document of the API.
pub(crate) const DOCUMENT: &str = include_str!("openapi.json");

/// The names that the query of a request with this method may have, for a path as the router has it.
pub(crate) fn names(path: &str, method: &Method) -> Vec<&'static str> {
    static PARSED: LazyLock<Value> =
        LazyLock::new(|| serde_json::from_str(DOCUMENT).unwrap_or_default());
    let method = method.as_str().to_lowercase().replace("head", "get");
    let calls = &PARSED["paths"][path];
    // A method that the path has not is refused by the router, whatever the query of the others has.
    let is_call = calls.get(method.as_str()).is_some();
    let calls = calls.as_object().into_iter().flatten();
    let asked = calls.filter(|(name, _)| !is_call || **name == method);
    let parameters = asked.filter_map(|(_, call)| call["parameters"].as_array()).flatten();
    parameters.filter(|it| it["in"] == "query").filter_map(|it| it["name"].as_str()).collect()
}

/// Reads a query that may have parameters with these names.
pub(crate) fn read(text: &str, names: &[&str]) -> Result<Query, Refusal> {
    let (mut query, mut wrong) = (Query::new(), Vec::new());
    for (name, value) in form_urlencoded::parse(text.as_bytes()) {
        if !names.contains(&&*name) {
            let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            wrong.push(format!("{name}: not known (known are: {known})"));
        } else if value.contains('\0') {
            wrong.push(format!("{name}: has a NUL"));
        } else if query.insert(name.to_string(), value.into_owned()).is_some() {
            wrong.push(format!("{name}: given twice"));
        }
    }
    if wrong.is_empty() { Ok(query) } else { Err(Refusal::bad(wrong.join("; "))) }
}

/// The stream of a job that the query names; `None` stands for both.
pub(crate) fn stream(query: &Query) -> Result<Option<String>, Refusal> {
    match query.get("stream").map(String::as_str) {
        None => Ok(None),
        Some(name @ ("stdout" | "stderr")) => Ok(Some(name.to_owned())),
        Some(other) => Err(Refusal::bad(format!("stream: {other:?} is neither stdout nor stderr"))),
    }
}

/// The number that the query has under `name`.
pub(crate) fn number(
    query: &Query,
    name: &str,
    range: RangeInclusive<usize>,
) -> Result<Option<usize>, String> {
    let Some(text) = query.get(name) else { return Ok(None) };
    let number = text.parse().ok().filter(|number| range.contains(number));
    let wrong = || format!("{name}: {text:?} is not in {}..{}", range.start(), range.end());
    number.map(Some).ok_or_else(wrong)
}

/// The jobs that the query selects. `uid_of` finds users by name.
pub(crate) fn filter(
    query: &Query,
    uid_of: impl Fn(&str) -> Option<u32>,
) -> Result<Filter, Refusal> {
    let user = |name: &String| {
        let uid = uid_of(name).or_else(|| name.parse().ok());
        uid.ok_or_else(|| format!("user: {name:?} is no user of this container, and no number"))
    };
    let cursor = |text: &String| {
        Cursor::parse(text).ok_or_else(|| "cursor: take the one of the answer before".to_owned())
    };
    let states = query.get("state").map(|text| states(text)).transpose();
    let user = query.get("user").map(user).transpose();
    let limit = number(query, "limit", 1..=MOST_JOBS);
    let cursor = query.get("cursor").map(cursor).transpose();
    match (states, user, limit, cursor) {
        (Ok(states), Ok(user), Ok(limit), Ok(cursor)) => Ok(Filter {
            states: states.unwrap_or(ALL_STATES),
            name: query.get("name").cloned(),
            user,
            limit: limit.unwrap_or(JOBS),
            cursor: cursor.unwrap_or(Cursor::START),
        }),
        (states, user, limit, cursor) => {
            let wrong = [states.err(), user.err(), limit.err(), cursor.err()];
            Err(Refusal::bad(wrong.into_iter().flatten().collect::<Vec<_>>().join("; ")))
        }
    }
}

fn states(text: &str) -> Result<u32, String> {
    let named = |name: &str| match name {
        "pending" => Some(JobState::PENDING),
        "running" => Some(JobState::RUNNING),
        "active" => Some(JobState::ACTIVE),
        _ => {
            let mut states = JobState::ALL.into_iter();
            states.find(|state| state.name().eq_ignore_ascii_case(name)).map(JobState::number)
        }
    };
    text.split(',').try_fold(0, |states, name| {
        let all = "depend, priority, sched, run, cleanup, inactive, pending, running, active";
        let state = named(name).ok_or_else(|| format!("state: {name:?} is none of {all}"))?;
        Ok(states | state)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter_of(text: &str) -> Result<Filter, String> {
        let uid_of = |name: &str| (name == "flux").then_some(1000);
        let query =
            read(text, &names("/api/v1/jobs", &Method::GET)).map_err(|refusal| refusal.detail)?;
        filter(&query, uid_of).map_err(|refusal| refusal.detail)
    }

    #[test]
    fn a_query_selects_jobs() {
        let all = filter_of("").unwrap();
        assert_eq!((all.states, all.limit, all.user), (126, 100, None));
        let some = filter_of("state=run,pending&name=a%20b&user=flux&limit=7").unwrap();
        assert_eq!((some.states, some.name.as_deref(), some.user), (30, Some("a b"), Some(1000)));
        assert_eq!(filter_of("user=4").unwrap().user, Some(4));
        let cursor = Cursor { ended: true, after: Some((1.5, 58)) };
        assert_eq!(filter_of(&format!("cursor={}", cursor.text())).unwrap().cursor, cursor);
    }

    #[test]
    fn a_refusal_names_all_that_is_wrong() {
        let wrong = filter_of("state=run,x&user=y&limit=0&cursor=z").unwrap_err();
        for text in ["state: \"x\" is none of", "user: \"y\"", "limit: \"0\"", "cursor: take"] {
            assert!(wrong.contains(text), "{wrong}");
        }
        let wrong = filter_of("limit=1&limit=2&token=x&name=%00").unwrap_err();
        for text in ["limit: given twice", "token: not known (known are: state", "name: has a NUL"]
        {
            assert!(wrong.contains(text), "{wrong}");
        }
        let of = |text: &str| stream(&read(text, &["stream"]).unwrap());
        assert_eq!(of("stream=stderr"), Ok(Some("stderr".to_owned())));
        assert!(of("").unwrap().is_none() && of("stream=both").is_err());
    }
}
