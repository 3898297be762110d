//! Hostlists (RFC 29): ordered lists of host names, written `flux-[0-3],other`.
//!
//! Order is kept and duplicates are kept: in a Flux configuration the order of first mention is
//! the rank.
//!
//! A list is kept as the ranges it is written with, so that a list of 100,000 hosts costs no more
//! than its text. Whatever text is read, the list and its text are bounded before anything is
//! expanded: the text comes from whoever may write a MiniCluster.

mod error;
mod parse;
mod run;

pub use error::HostlistError;

use error::{Fault, SIZE_LIMIT, TEXT_LIMIT};
use parse::{Name, split_outside_brackets};
use run::{Names, Run};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Host names in rank order.
///
/// Equal lists have equal names: a list is always kept in the ranges that its names give when they
/// are taken in one by one.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Hostlist {
    runs: Vec<Run>,
    /// How many hosts there are.
    length: usize,
    /// Characters of the text form, a comma behind each run.
    written: usize,
}

impl Hostlist {
    /// Upper bound on the number of hosts.
    pub const LIMIT: usize = SIZE_LIMIT;

    /// The hosts `<prefix>-<first>` to `<prefix>-<last>`, none when the range is empty.
    pub fn of_range(prefix: &str, indexes: std::ops::Range<u32>) -> Self {
        let mut list = Self::default();
        if let Some(last) = indexes.end.checked_sub(1).filter(|last| *last >= indexes.start) {
            list.push_numbered(&format!("{prefix}-"), (indexes.start.into(), last.into()), 0);
        }
        list
    }

    /// Reads the text form, e.g. `a[0-3,07],b`.
    pub fn parse(text: &str) -> Result<Self, HostlistError> {
        Self::try_parse(text).map_err(|fault| HostlistError::new(text, fault))
    }

    fn try_parse(text: &str) -> Result<Self, Fault> {
        if text.len() > TEXT_LIMIT {
            return Err(Fault::Text);
        }
        let mut list = Self::default();
        for part in split_outside_brackets(text)? {
            let name = Name::read(part.trim())?;
            if name.count() > Self::LIMIT - list.length {
                return Err(Fault::Size);
            }
            name.expand(|names| {
                list.push(names);
                list.check()
            })?;
        }
        Ok(list)
    }

    /// The hosts in rank order, one by one. What can do with ranks or with the text is faster.
    pub fn hosts(&self) -> impl Iterator<Item = String> {
        self.names().flat_map(Names::hosts)
    }

    /// The host with rank 0.
    pub fn first(&self) -> Option<String> {
        self.hosts().next()
    }

    /// All hosts but the one with rank 0.
    #[must_use]
    pub fn without_first(&self) -> Self {
        let mut rest = Self::default();
        let mut names = self.names();
        if let Some(first) = names.next().and_then(Names::without_first) {
            rest.push(first);
        }
        names.for_each(|names| rest.push(names));
        rest
    }

    /// The rank of `host`: its first position.
    pub fn rank(&self, host: &str) -> Option<usize> {
        let wanted = Names::one(host);
        let mut before = 0;
        for names in self.names() {
            if let Some(position) = names.position(wanted) {
                return Some(before + position);
            }
            before += names.count();
        }
        None
    }

    /// How many of `<prefix>-0`, `<prefix>-1`, ... are listed, up to the first that is not.
    pub fn indexes_of(&self, prefix: &str) -> u32 {
        let prefix = format!("{prefix}-");
        let unpadded = self.names().flat_map(Names::by_padding);
        let mut ranges: Vec<(u64, u64)> = unpadded
            .filter(|names| names.prefix == prefix && names.width == 0)
            .filter_map(|names| names.numbers)
            .collect();
        ranges.sort_unstable();
        let count = ranges.iter().fold(
            0,
            |count, &(first, last)| {
                if first <= count { count.max(last + 1) } else { count }
            },
        );
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// A host that is listed more than once, if there is one.
    pub fn listed_twice(&self) -> Option<String> {
        let mut names: Vec<Names<'_>> = self.names().flat_map(Names::by_padding).collect();
        names.sort_unstable();
        let next =
            names.array_windows().find_map(|[names, next]| names.overlaps(*next).then_some(*next));
        next.and_then(|next| next.hosts().next())
    }

    /// How many hosts there are.
    pub const fn len(&self) -> usize {
        self.length
    }

    /// True without any host.
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Appends the hosts of `other` behind the own ones; changes nothing where that is too much.
    pub fn append(&mut self, other: &Self) -> Result<(), HostlistError> {
        let mut joined = self.clone();
        other.names().for_each(|names| joined.push(names));
        joined.check().map_err(|fault| HostlistError::new(&other.to_string(), fault))?;
        *self = joined;
        Ok(())
    }

    /// Refuses a list that is longer than the limits.
    const fn check(&self) -> Result<(), Fault> {
        if self.length > Self::LIMIT {
            return Err(Fault::Size);
        }
        if self.written > TEXT_LIMIT + 1 {
            return Err(Fault::Text);
        }
        Ok(())
    }

    /// The ranges in order.
    fn names(&self) -> impl Iterator<Item = Names<'_>> {
        self.runs.iter().flat_map(Run::names)
    }

    fn push(&mut self, names: Names<'_>) {
        match names.numbers {
            Some(numbers) => self.push_numbered(names.prefix, numbers, names.width),
            None => self.push_host(names.prefix),
        }
    }

    /// Appends one host.
    fn push_host(&mut self, host: &str) {
        let names = Names::one(host);
        if let Some(numbers) = names.numbers {
            return self.push_numbered(names.prefix, numbers, names.width);
        }
        let run = Run::plain(host);
        self.length += 1;
        self.written += run.text_length() + 1;
        self.runs.push(run);
    }

    /// Appends the hosts `prefix` with each number from the first to the last, padded to `width`.
    fn push_numbered(&mut self, prefix: &str, numbers: (u64, u64), width: usize) {
        for piece in run::pieces(prefix, numbers, width) {
            self.length += piece.count();
            if let Some(run) = self.runs.last_mut().filter(|run| run.accepts(&piece)) {
                self.written -= run.text_length();
                run.extend(&piece);
                self.written += run.text_length();
            } else {
                let run = Run::of(&piece);
                self.written += run.text_length() + 1;
                self.runs.push(run);
            }
        }
    }
}

impl fmt::Display for Hostlist {
    /// The text form: consecutive numbers are ranges, order is kept.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, run) in self.runs.iter().enumerate() {
            formatter.write_str(if position == 0 { "" } else { "," })?;
            run.fmt(formatter)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Hostlist {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Hostlist").field(&self.to_string()).finish()
    }
}

impl TryFrom<String> for Hostlist {
    type Error = HostlistError;

    fn try_from(text: String) -> Result<Self, HostlistError> {
        if text.is_empty() { Ok(Self::default()) } else { Self::parse(&text) }
    }
}

impl From<Hostlist> for String {
    fn from(hostlist: Hostlist) -> Self {
        hostlist.to_string()
    }
}

#[cfg(test)]
mod tests;
