//! Hostlists (RFC 29): ordered lists of host names, written `flux-[0-3],other`.
//!
//! Order is kept and duplicates are kept: in a Flux configuration the order of first mention is
//! the rank.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Why a text is not a hostlist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostlistError {
    /// A `[` without its `]`, or the reverse.
    #[error("hostlist {text:?} has an unmatched bracket")]
    Bracket {
        /// The text refused.
        text: String,
    },
    /// A range that is not `N` or `N-M` with N not above M.
    #[error("hostlist {text:?} has an invalid range {range:?}")]
    Range {
        /// The text refused.
        text: String,
        /// The range refused.
        range: String,
    },
    /// No host at all, or nothing between two commas.
    #[error("hostlist {text:?} has an empty host name")]
    Empty {
        /// The text refused.
        text: String,
    },
    /// More hosts than any instance could have: the text is a mistake or an attack.
    #[error("hostlist {text:?} names more than {limit} hosts", limit = Hostlist::LIMIT)]
    Size {
        /// The text refused.
        text: String,
    },
}

/// Host names in rank order.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Hostlist(Vec<String>);

impl Hostlist {
    /// Upper bound on the number of hosts.
    pub const LIMIT: usize = 1 << 17;

    /// The hosts `<prefix>-<first>` to `<prefix>-<last>`, none when the range is empty.
    pub fn of_range(prefix: &str, indexes: std::ops::Range<u32>) -> Self {
        Self(indexes.map(|index| format!("{prefix}-{index}")).collect())
    }

    /// Reads the text form, e.g. `a[0-3,07],b`.
    pub fn parse(text: &str) -> Result<Self, HostlistError> {
        let mut hosts = Vec::new();
        for part in split_outside_brackets(text)? {
            expand(text, part, &mut hosts)?;
        }
        Ok(Self(hosts))
    }

    /// The hosts in rank order.
    pub fn hosts(&self) -> &[String] {
        &self.0
    }

    /// The rank of `host`: its first position.
    pub fn rank(&self, host: &str) -> Option<usize> {
        self.0.iter().position(|candidate| candidate == host)
    }

    /// How many hosts there are.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// True without any host.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Appends the hosts of `other` behind the own ones.
    pub fn append(&mut self, other: &Self) {
        self.0.extend_from_slice(&other.0);
    }
}

/// Cuts `text` at the commas that are not inside brackets.
fn split_outside_brackets(text: &str) -> Result<Vec<&str>, HostlistError> {
    let unmatched = || HostlistError::Bracket { text: text.to_owned() };
    let (mut parts, mut start, mut inside) = (Vec::new(), 0, false);
    for (position, character) in text.char_indices() {
        match character {
            '[' if inside => return Err(unmatched()),
            ']' if !inside => return Err(unmatched()),
            '[' => inside = true,
            ']' => inside = false,
            ',' if !inside => {
                parts.push(&text[start..position]);
                start = position + 1;
            }
            _ => {}
        }
    }
    if inside {
        return Err(unmatched());
    }
    parts.push(&text[start..]);
    Ok(parts)
}

/// Appends the hosts of one bracketed or plain name.
fn expand(text: &str, part: &str, hosts: &mut Vec<String>) -> Result<(), HostlistError> {
    let part = part.trim();
    if part.is_empty() {
        return Err(HostlistError::Empty { text: text.to_owned() });
    }
    let Some((prefix, rest)) = part.split_once('[') else {
        return push(text, part.to_owned(), hosts);
    };
    let Some((ranges, suffix)) = rest.split_once(']') else {
        return Err(HostlistError::Bracket { text: text.to_owned() });
    };
    let mut suffixes = Vec::new();
    if suffix.is_empty() {
        suffixes.push(String::new());
    } else {
        expand(text, suffix, &mut suffixes)?;
    }
    for range in ranges.split(',') {
        let (first, last, width) = bounds(range).ok_or_else(|| HostlistError::Range {
            text: text.to_owned(),
            range: range.to_owned(),
        })?;
        for number in first..=last {
            for suffix in &suffixes {
                push(text, format!("{prefix}{number:0width$}{suffix}"), hosts)?;
            }
        }
    }
    Ok(())
}

fn push(text: &str, host: String, hosts: &mut Vec<String>) -> Result<(), HostlistError> {
    if hosts.len() == Hostlist::LIMIT {
        return Err(HostlistError::Size { text: text.to_owned() });
    }
    hosts.push(host);
    Ok(())
}

/// First number, last number and zero-padded width of `N` or `N-M`.
fn bounds(range: &str) -> Option<(u64, u64, usize)> {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(first) || !digits(last) {
        return None;
    }
    let width = if first.len() > 1 && first.starts_with('0') { first.len() } else { 0 };
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last).then_some((first, last, width))
}

/// A host split at its trailing number, for compression. Numbers with leading zeros keep their
/// width by being grouped only with neighbours of the same width.
fn numbered(host: &str) -> Option<(&str, u64, usize)> {
    let digits = host.bytes().rev().take_while(u8::is_ascii_digit).count();
    let (prefix, number) = host.split_at(host.len() - digits);
    let padded = number.len() > 1 && number.starts_with('0');
    let value = number.parse().ok()?;
    Some((prefix, value, if padded { number.len() } else { 0 }))
}

/// A run of consecutively numbered hosts with one prefix and one padding.
struct Run<'host> {
    prefix: &'host str,
    width: usize,
    ranges: Vec<(u64, u64)>,
}

impl Run<'_> {
    /// Takes `host` in if it continues this run.
    fn accepts(&mut self, prefix: &str, number: u64, width: usize) -> bool {
        let grown = self.width > 0 && width == 0 && number.to_string().len() == self.width;
        if self.prefix != prefix || (self.width != width && !grown) {
            return false;
        }
        match self.ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
            Some(_) | None => self.ranges.push((number, number)),
        }
        true
    }

    fn text(&self) -> String {
        let (prefix, width) = (self.prefix, self.width);
        if let [(first, last)] = self.ranges[..]
            && first == last
        {
            return format!("{prefix}{first:0width$}");
        }
        let ranges: Vec<String> = self
            .ranges
            .iter()
            .map(|&(first, last)| {
                if first == last {
                    format!("{first:0width$}")
                } else {
                    format!("{first:0width$}-{last:0width$}")
                }
            })
            .collect();
        format!("{prefix}[{}]", ranges.join(","))
    }
}

impl fmt::Display for Hostlist {
    /// The compressed text form: consecutive numbers become ranges, order is kept.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<String> = Vec::new();
        let mut run: Option<Run<'_>> = None;
        for host in &self.0 {
            let Some((prefix, number, width)) = numbered(host) else {
                parts.extend(run.take().map(|run| run.text()));
                parts.push(host.clone());
                continue;
            };
            if run.as_mut().is_some_and(|run| run.accepts(prefix, number, width)) {
                continue;
            }
            parts.extend(run.take().map(|run| run.text()));
            run = Some(Run { prefix, width, ranges: vec![(number, number)] });
        }
        parts.extend(run.take().map(|run| run.text()));
        formatter.write_str(&parts.join(","))
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
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hosts(text: &str) -> Vec<String> {
        Hostlist::parse(text).unwrap().hosts().to_vec()
    }

    #[test]
    fn ranges_expand_in_order_and_keep_their_padding() {
        assert_eq!(hosts("a[0-2,7],b"), ["a0", "a1", "a2", "a7", "b"]);
        assert_eq!(hosts("n[08-10]"), ["n08", "n09", "n10"]);
        assert_eq!(hosts("r[0-1]n[0-1]"), ["r0n0", "r0n1", "r1n0", "r1n1"]);
    }

    #[test]
    fn order_and_duplicates_are_kept_because_order_is_rank() {
        assert_eq!(hosts("b,a,b"), ["b", "a", "b"]);
        assert_eq!(Hostlist::parse("b,a").unwrap().rank("a"), Some(1));
    }

    #[test]
    fn texts_that_are_no_hostlist_are_refused() {
        for text in ["", "a,", "a[0-", "a]0", "a[[0]]", "a[2-1]", "a[x]", "a[]", "a[0-99999999999]"]
        {
            assert!(Hostlist::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_cluster_of_one_is_written_without_brackets() {
        assert_eq!(Hostlist::of_range("one", 0..1).to_string(), "one-0");
        assert_eq!(Hostlist::of_range("plain", 0..4).to_string(), "plain-[0-3]");
        assert_eq!(Hostlist::of_range("none", 3..3).to_string(), "");
    }

    #[test]
    fn different_paddings_are_not_mixed() {
        let list = Hostlist(vec!["a9".into(), "a010".into(), "a11".into()]);
        assert_eq!(list.to_string(), "a9,a010,a11");
        let padded = Hostlist(vec!["a09".into(), "a10".into()]);
        assert_eq!(padded.to_string(), "a[09-10]");
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back_the_same(
            list in prop::collection::vec("[a-z]([a-z0-9-]{0,5}[a-z0-9])?", 1..40)
        ) {
            let list = Hostlist(list);
            prop_assert_eq!(Hostlist::parse(&list.to_string()).unwrap(), list);
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "[a-c0-9,\\[\\]-]{0,24}") {
            let _ = Hostlist::parse(&text);
        }
    }
}
