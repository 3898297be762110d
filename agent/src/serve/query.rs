//! What the query of a request says.

use crate::serve::answer::Refusal;
use crate::serve::job::{ACTIVE, INACTIVE, PENDING, RUNNING, STATES};
use crate::serve::listing::{Cursor, Filter};
use std::collections::BTreeMap;

/// Jobs of an answer, at most and where nothing is said.
const MOST_JOBS: usize = 1000;
const JOBS: usize = 100;

/// Its parts by name.
pub(super) type Query = BTreeMap<String, String>;

/// Reads a query that may have parts of these names.
pub(super) fn read(text: &str, names: &[&str]) -> Result<Query, Refusal> {
    let mut query = Query::new();
    for (name, value) in form_urlencoded::parse(text.as_bytes()) {
        let wrong = |what: &str| Err(Refusal::bad(format!("{name}: {what}")));
        if !names.contains(&&*name) {
            let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            return wrong(&format!("not known (known are: {known})"));
        }
        if value.contains('\0') {
            return wrong("has a NUL");
        }
        if query.insert(name.to_string(), value.into_owned()).is_some() {
            return wrong("given twice");
        }
    }
    Ok(query)
}

/// Which of the two streams of a job is asked for; both, if none is named.
pub(super) fn stream(query: &Query) -> Result<Option<String>, Refusal> {
    match query.get("stream").map(String::as_str) {
        None => Ok(None),
        Some(name @ ("stdout" | "stderr")) => Ok(Some(name.to_owned())),
        Some(other) => Err(Refusal::bad(format!("stream: {other:?} is neither stdout nor stderr"))),
    }
}

/// Which jobs are asked for. `uid_of` knows users by name.
pub(super) fn filter(
    query: &Query,
    uid_of: impl Fn(&str) -> Option<u32>,
) -> Result<Filter, Refusal> {
    let get = |name| query.get(name).map(String::as_str);
    let user = |name: &str| {
        let wrong = || format!("user: {name:?} is no user of this container, and no number");
        uid_of(name).or_else(|| name.parse().ok()).ok_or_else(|| Refusal::bad(wrong()))
    };
    let limit = |text: &str| {
        let wrong = || format!("limit: {text:?} is not in 1..{MOST_JOBS}");
        let limit = text.parse().ok().filter(|limit| (1..=MOST_JOBS).contains(limit));
        limit.ok_or_else(|| Refusal::bad(wrong()))
    };
    let wrong_cursor = || Refusal::bad("cursor: take the one of the answer before");
    let cursor = |text: &str| Cursor::parse(text).ok_or_else(wrong_cursor);
    Ok(Filter {
        states: get("state").map_or(Ok(ACTIVE | INACTIVE), states)?,
        name: query.get("name").cloned(),
        user: get("user").map(user).transpose()?,
        limit: get("limit").map_or(Ok(JOBS), limit)?,
        cursor: get("cursor").map_or(Ok(Cursor::START), cursor)?,
    })
}

fn states(text: &str) -> Result<u32, Refusal> {
    let named = |name: &str| match name {
        "pending" => Some(PENDING),
        "running" => Some(RUNNING),
        "active" => Some(ACTIVE),
        _ => STATES.iter().find(|(_, state)| state.eq_ignore_ascii_case(name)).map(|it| it.0),
    };
    text.split(',').try_fold(0, |states, name| {
        let all = "depend, priority, sched, run, cleanup, inactive, pending, running, active";
        let wrong = || Refusal::bad(format!("state: {name:?} is none of {all}"));
        Ok(states | named(name).ok_or_else(wrong)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 5] = ["state", "name", "user", "limit", "cursor"];

    fn filter_of(text: &str) -> Result<Filter, String> {
        let uid_of = |name: &str| (name == "flux").then_some(1000);
        let query = read(text, &NAMES).map_err(|refusal| refusal.detail)?;
        filter(&query, uid_of).map_err(|refusal| refusal.detail)
    }

    #[test]
    fn a_query_says_which_jobs() {
        let all = filter_of("").unwrap();
        assert_eq!((all.states, all.limit, all.user), (126, 100, None));
        let some = filter_of("state=run,pending&name=a%20b&user=flux&limit=7").unwrap();
        assert_eq!((some.states, some.name.as_deref(), some.user), (30, Some("a b"), Some(1000)));
        assert_eq!(filter_of("user=4").unwrap().user, Some(4));
        let cursor = Cursor { ended: true, after: Some((1.5, 58)) };
        assert_eq!(filter_of(&format!("cursor={}", cursor.text())).unwrap().cursor, cursor);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (query, text) in [
            ("state=run,x", "state: \"x\" is none of"),
            ("user=y", "user: \"y\""),
            ("limit=0", "limit: \"0\""),
            ("cursor=z", "cursor: take"),
            ("limit=1&limit=2", "limit: given twice"),
            ("token=x", "token: not known (known are: state"),
            ("name=%00", "name: has a NUL"),
        ] {
            let wrong = filter_of(query).unwrap_err();
            assert!(wrong.starts_with(text), "{wrong}");
        }
    }
}
