//! A page of the list of jobs: the newest first, those that have not ended before those that have. Flux lists the first
//! in the order in which they get resources, so their times are asked for before the page.

use flux_protocol::client::job_list::{Job, list};
use flux_protocol::client::{BrokerSocket, SocketError};
use flux_protocol::job::JobState;
use flux_protocol::job_id::{f58_plain, parse};
use serde::Deserialize;
use serde_json::{Value, json};
use std::cmp::Reverse;

/// Jobs that have not ended and are looked at; their times fit into one answer of the broker.
const MOST_ACTIVE: usize = 50_000;
/// Jobs beyond a page that are asked for: more than end at one time.
const SLACK: usize = 64;
const INACTIVE: u32 = JobState::Inactive.number();
pub(crate) const ALL_STATES: u32 = JobState::ACTIVE | INACTIVE;
/// More than a time loses as JSON, in seconds.
const ROUNDING: f64 = 1e-6;

/// Which jobs are asked for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Filter {
    /// Flux's numbers of states, added.
    pub(crate) states: u32,
    pub(crate) name: Option<String>,
    pub(crate) user: Option<u32>,
    pub(crate) limit: usize,
    pub(crate) cursor: Cursor,
}

/// Where a page begins.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Cursor {
    /// Among the jobs that have ended.
    pub(crate) ended: bool,
    /// Behind this one: when it was submitted, or has ended, and its id.
    pub(crate) after: Option<(f64, u64)>,
}

impl Cursor {
    pub(crate) const START: Self = Self { ended: false, after: None };

    pub(crate) fn text(self) -> String {
        let part = if self.ended { 'i' } else { 'a' };
        let after = self.after.map(|(time, id)| format!("{time}-{}", f58_plain(id)));
        format!("{part}{}", after.unwrap_or_default())
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (part, after) = text.split_at_checked(1)?;
        let ended = match part {
            "a" => false,
            "i" => true,
            _ => return None,
        };
        if after.is_empty() {
            return Some(Self { ended, after: None });
        }
        let (time, id) = after.split_once('-')?;
        let time = time.parse().ok().filter(|time: &f64| time.is_finite() && *time >= 0.0)?;
        Some(Self { ended, after: Some((time, parse(id)?)) })
    }

    /// Takes `limit` of `jobs` that come behind this place, the newest first, and says where the next page begins, if
    /// there are more. `place` is where a job is.
    fn take<Entry>(
        self,
        mut jobs: Vec<Entry>,
        limit: usize,
        place: impl Fn(&Entry) -> (f64, u64),
    ) -> (Vec<Entry>, Option<Self>) {
        // The bits of times, which are not negative, have their order.
        let age = |(time, id): (f64, u64)| Reverse((time.to_bits(), id));
        jobs.retain(|job| self.after.is_none_or(|after| age(place(job)) > age(after)));
        jobs.sort_by_key(|job| age(place(job)));
        let is_more = jobs.len() > limit;
        jobs.truncate(limit);
        let last = jobs.last().map(place).or(self.after);
        (jobs, is_more.then_some(Self { after: last, ..self }))
    }
}

/// The time and the id of a job that has not ended.
#[derive(Clone, Copy, Deserialize)]
struct Submitted {
    id: u64,
    t_submit: f64,
}

/// A page, and where the next one begins, if there is one.
pub(crate) async fn page(
    socket: &mut BrokerSocket,
    filter: &Filter,
) -> Result<(Vec<Job>, Option<Cursor>), SocketError> {
    let mut page = Vec::new();
    let mut cursor = filter.cursor;
    if !cursor.ended {
        let next;
        (page, next) = active(socket, filter).await?;
        if next.is_some() {
            return Ok((page, next));
        }
        cursor = Cursor { ended: true, after: None };
    }
    let (has_inactive, limit) = (filter.states & INACTIVE != 0, filter.limit - page.len());
    if !has_inactive || limit == 0 {
        return Ok((page, has_inactive.then_some(cursor)));
    }
    let until = cursor.after.map(|(time, _)| ("t_inactive", "<=", time + ROUNDING));
    let constraint = filter.constraint(INACTIVE, until);
    let jobs = list(socket, limit + 1 + SLACK, Job::ATTRIBUTES, &constraint).await?;
    let place = |job: &Job| (job.t_inactive.unwrap_or_default(), job.id);
    let (ended, next) = cursor.take(jobs, limit, place);
    page.extend(ended);
    Ok((page, next))
}

/// The same of jobs that have not ended.
async fn active(
    socket: &mut BrokerSocket,
    filter: &Filter,
) -> Result<(Vec<Job>, Option<Cursor>), SocketError> {
    let states = filter.states & JobState::ACTIVE;
    if states == 0 {
        return Ok((Vec::new(), None));
    }
    let until = filter.cursor.after.map(|(time, _)| ("t_submit", "<=", time + ROUNDING));
    let constraint = filter.constraint(states, until);
    let jobs: Vec<Submitted> = list(socket, MOST_ACTIVE, "t_submit", &constraint).await?;
    let (chosen, next) = filter.cursor.take(jobs, filter.limit, |it| (it.t_submit, it.id));
    let (Some(newest), Some(oldest)) = (chosen.first(), chosen.last()) else {
        return Ok((Vec::new(), next));
    };
    let bounds = [
        ("t_submit", "<=", newest.t_submit + ROUNDING),
        ("t_submit", ">=", oldest.t_submit - ROUNDING),
    ];
    let constraint = filter.constraint(states, bounds);
    let limit = chosen.len() + SLACK;
    let mut jobs: Vec<Job> = list(socket, limit, Job::ATTRIBUTES, &constraint).await?;
    let place_of = |job: &Job| chosen.iter().position(|it| it.id == job.id);
    jobs.retain(|job| place_of(job).is_some());
    jobs.sort_by_key(place_of);
    Ok((jobs, next))
}

impl Filter {
    /// The constraint (RFC 31) for jobs in these states, with these bounds on their times.
    fn constraint<'text>(
        &self,
        states: u32,
        bounds: impl IntoIterator<Item = (&'text str, &'text str, f64)>,
    ) -> Value {
        let mut all = vec![json!({ "states": [states] })];
        all.extend(self.name.as_ref().map(|name| json!({ "name": [name] })));
        all.extend(self.user.map(|user| json!({ "userid": [user] })));
        all.extend(
            bounds.into_iter().map(|(what, is, time)| json!({ what: [format!("{is}{time}")] })),
        );
        json!({ "and": all })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_is_written() {
        for ended in [false, true] {
            for after in [None, Some((1_732_777_777.123_456_7, 25_568_477_184)), Some((0.0, 0))] {
                let cursor = Cursor { ended, after };
                assert_eq!(Cursor::parse(&cursor.text()), Some(cursor), "{}", cursor.text());
            }
        }
        for text in ["", "x", "é", "a1.5", "a-f1", "iNaN-f1", "iinf-f1", "a-1-f1", "i1-", "i1-x"] {
            assert_eq!(Cursor::parse(text), None, "{text}");
        }
    }

    #[test]
    fn pages_have_every_job_once_the_newest_first() {
        let jobs = vec![(1.0, 1), (3.0, 4), (2.0, 2), (2.0, 3), (0.5, 9)];
        let mut cursor = Some(Cursor::START);
        let mut seen = Vec::new();
        while let Some(from) = cursor {
            let (page, next) = from.take(jobs.clone(), 2, |job| *job);
            assert!(page.len() == 2 || next.is_none());
            seen.extend(page);
            cursor = next;
        }
        assert_eq!(seen, [(3.0, 4), (2.0, 3), (2.0, 2), (1.0, 1), (0.5, 9)]);
        assert_eq!(Cursor::START.take(jobs, 5, |job| *job).1, None);
    }

    #[test]
    fn a_constraint_has_what_the_filter_has() {
        let filter = Filter {
            states: 126,
            name: Some("a".to_owned()),
            user: Some(7),
            limit: 1,
            cursor: Cursor::START,
        };
        let constraint = filter.constraint(64, [("t_inactive", "<=", 1.5)]);
        let and = json!([{ "states": [64] }, { "name": ["a"] }, { "userid": [7] }, { "t_inactive": ["<=1.5"] }]);
        assert_eq!(constraint["and"], and);
    }
}
