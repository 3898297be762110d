//! Hostlists (RFC 29): ordered lists of host names, written `flux-[0-3],other`. Order and duplicates are
//! preserved: in a Flux configuration the order of first mention is the rank.
//!
//! A list is stored in ranges, so that 100,000 hosts take no more memory than their text. The text may come from an
//! untrusted source: the reader counts the hosts and characters of each part before it expands the part.

use serde_with::{DeserializeFromStr, SerializeDisplay};
use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

/// The largest number of characters of a text, read or written.
const TEXT_LIMIT: usize = 1 << 16;
/// Longest host name (RFC 1035, without the root's dot).
const NAME_LIMIT: usize = 253;
/// The largest number of digits of a number in brackets, so that it fits 64 bits.
const DIGITS_LIMIT: usize = 18;
/// The largest number of brackets in one host name; `rack[0-7]node[0-15]` has two.
const BRACKETS_LIMIT: usize = 8;
/// The largest number of ranges that Flux reads in one bracket (flux-core, libhostlist, `MAX_RANGES`).
const RANGES_LIMIT: usize = 10_240;
/// How many characters of a refused text an error shows.
const EXCERPT: usize = 60;

/// Why a text is not a hostlist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("hostlist {text:?} {fault}")]
pub struct HostlistError {
    /// The text, or its beginning.
    text: String,
    fault: String,
}

impl HostlistError {
    fn new(text: &str, fault: String) -> Self {
        Self { text: excerpt(text), fault }
    }
}

/// Host names in rank order.
#[derive(Clone, PartialEq, Eq, Default, SerializeDisplay, DeserializeFromStr)]
pub struct Hostlist {
    ranges: Vec<Range>,
}

impl Hostlist {
    /// The largest number of hosts of a list, more than an instance has brokers.
    pub const LIMIT: usize = 1 << 17;

    /// The hosts `<prefix>-<first>` to `<prefix>-<last>`, none when the range is empty.
    pub fn of_range(prefix: &str, indexes: std::ops::Range<u32>) -> Self {
        let mut list = Self::default();
        if !indexes.is_empty() {
            let numbers = Numbers::new(indexes.start.into(), u64::from(indexes.end) - 1, 0);
            list.push(Range::new(format!("{prefix}-"), numbers));
        }
        list
    }

    /// Reads the text form, e.g. `a[0-3,07],b`.
    pub fn parse(text: &str) -> Result<Self, HostlistError> {
        Self::try_parse(text).map_err(|fault| HostlistError::new(text, fault))
    }

    fn try_parse(text: &str) -> Result<Self, String> {
        check_limits(0, text.len())?;
        let (mut list, mut hosts, mut characters) = (Self::default(), 0_usize, 0);
        for part in split_outside_brackets(text)? {
            let part = part.trim();
            if part.is_empty() {
                return Err("has an empty host name".to_owned());
            }
            if let Some(character) = part.chars().find(|character| !character.is_ascii_graphic()) {
                return Err(format!("has a character {character:?} that no host name has"));
            }
            for range in expand(part, &mut characters)? {
                hosts = hosts.saturating_add(range.count());
                check_limits(hosts, 0)?;
                list.push(range);
            }
        }
        check_limits(list.len(), list.to_string().len())?;
        Ok(list)
    }

    /// The hosts in rank order.
    pub fn hosts(&self) -> impl Iterator<Item = String> {
        self.ranges.iter().flat_map(Range::hosts)
    }

    /// The host with rank 0.
    pub fn first(&self) -> Option<String> {
        self.hosts().next()
    }

    /// All hosts but the one with rank 0.
    #[must_use]
    pub fn without_first(&self) -> Self {
        let Some((first, rest)) = self.ranges.split_first() else { return Self::default() };
        let others = first.numbers.filter(|numbers| numbers.first < numbers.last);
        let others = others.map(|Numbers { first: lead, last, width }| {
            Range::new(first.prefix.clone(), Numbers::new(lead + 1, last, width))
        });
        Self { ranges: others.into_iter().chain(rest.iter().cloned()).collect() }
    }

    /// The rank of `host`: its first position.
    pub fn rank(&self, host: &str) -> Option<usize> {
        let mut before = 0;
        for range in &self.ranges {
            if let Some(position) = range.position(host) {
                return Some(before + position);
            }
            before += range.count();
        }
        None
    }

    /// The number of hosts `<prefix>-0`, `<prefix>-1`, ... up to the first one that is not listed.
    pub fn indexes_of(&self, prefix: &str) -> u32 {
        let listed: HashSet<String> = self.hosts().collect();
        let mut count = 0;
        while listed.contains(&format!("{prefix}-{count}")) {
            count += 1;
        }
        count
    }

    /// The first host that is listed a second time, if there is one.
    pub fn listed_twice(&self) -> Option<String> {
        let mut seen = HashSet::new();
        self.hosts().find(|host| !seen.insert(host.clone()))
    }

    /// How many hosts there are.
    pub fn len(&self) -> usize {
        self.ranges.iter().map(Range::count).fold(0, usize::saturating_add)
    }

    /// Whether there is no host.
    pub const fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Appends the hosts of `other`; changes nothing where the list would be too long.
    pub fn append(&mut self, other: &Self) -> Result<(), HostlistError> {
        let mut joined = self.clone();
        other.ranges.iter().cloned().for_each(|range| joined.push(range));
        check_limits(joined.len(), joined.to_string().len())
            .map_err(|fault| HostlistError::new(&other.to_string(), fault))?;
        *self = joined;
        Ok(())
    }

    /// Appends `range`, or extends the last range by it where it continues that one.
    fn push(&mut self, range: Range) {
        if let Some(last) = self.ranges.last_mut()
            && let (Some(numbers), Some(more)) = (&mut last.numbers, range.numbers)
            && last.prefix == range.prefix
            && numbers.is_continued_by(more)
        {
            numbers.last = more.last;
        } else {
            self.ranges.push(range);
        }
    }
}

impl fmt::Display for Hostlist {
    /// The text form: consecutive numbers are ranges, order is preserved.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let groups = self.ranges.chunk_by(Range::has_brackets_with);
        let groups = groups.flat_map(|group| group.chunks(RANGES_LIMIT));
        for (position, group) in groups.enumerate() {
            formatter.write_str(if position == 0 { "" } else { "," })?;
            let Some(first) = group.first() else { continue };
            let has_brackets = first.count() > 1 || group.len() > 1;
            let (open, close) = if has_brackets { ("[", "]") } else { ("", "") };
            write!(formatter, "{}{open}", first.prefix)?;
            for (position, numbers) in group.iter().filter_map(|range| range.numbers).enumerate() {
                formatter.write_str(if position == 0 { "" } else { "," })?;
                let Numbers { first, last, width } = numbers;
                write!(formatter, "{first:0width$}")?;
                if first != last {
                    write!(formatter, "-{last:0width$}")?;
                }
            }
            formatter.write_str(close)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Hostlist {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Hostlist").field(&self.to_string()).finish()
    }
}

impl FromStr for Hostlist {
    type Err = HostlistError;

    /// Reads an empty text as the list without hosts.
    fn from_str(text: &str) -> Result<Self, HostlistError> {
        if text.is_empty() { Ok(Self::default()) } else { Self::parse(text) }
    }
}

fn check_limits(hosts: usize, characters: usize) -> Result<(), String> {
    if hosts > Hostlist::LIMIT {
        return Err(format!("names more than {} hosts", Hostlist::LIMIT));
    }
    if characters > TEXT_LIMIT {
        return Err(format!("takes more than {TEXT_LIMIT} characters"));
    }
    Ok(())
}

/// The beginning of `text`, for people.
fn excerpt(text: &str) -> String {
    match text.char_indices().nth(EXCERPT) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// Hosts of one prefix with consecutive numbers; without numbers one host.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Range {
    prefix: String,
    numbers: Option<Numbers>,
}

impl Range {
    /// The hosts `prefix` with each of `numbers`. A single one is split as [`Self::one`] splits it, so that
    /// a list equals the one that is read from its text.
    fn new(prefix: String, numbers: Numbers) -> Self {
        match numbers {
            Numbers { first, last, width } if first == last => {
                Self::one(&format!("{prefix}{first:0width$}"))
            }
            numbers => Self { prefix, numbers: Some(numbers) },
        }
    }

    /// One host, split before its trailing number. Of a number with more digits than can be counted
    /// the first ones belong to the prefix.
    fn one(host: &str) -> Self {
        let count = host.bytes().rev().take_while(u8::is_ascii_digit).take(DIGITS_LIMIT).count();
        let (prefix, digits) = host.split_at(host.len() - count);
        let number = digits.parse().ok();
        let numbers = number.map(|number| Numbers::new(number, number, count));
        Self { prefix: prefix.to_owned(), numbers }
    }

    fn count(&self) -> usize {
        self.numbers.map_or(1, Numbers::count)
    }

    fn hosts(&self) -> impl Iterator<Item = String> {
        let plain = self.numbers.is_none().then(|| self.prefix.clone());
        let numbers = self.numbers.into_iter().flat_map(Numbers::texts);
        numbers.map(|number| format!("{}{number}", self.prefix)).chain(plain)
    }

    fn position(&self, host: &str) -> Option<usize> {
        let digits = host.strip_prefix(&self.prefix)?;
        let Some(Numbers { first, last, width }) = self.numbers else {
            return digits.is_empty().then_some(0);
        };
        let number = digits.parse::<u64>().ok().filter(|number| (first..=last).contains(number))?;
        let is_written_so = format!("{number:0width$}") == digits;
        is_written_so.then(|| Numbers { first, last: number, width }.count() - 1)
    }

    /// Whether both can be written between the same brackets.
    fn has_brackets_with(&self, other: &Self) -> bool {
        let width = |range: &Self| range.numbers.map(|numbers| numbers.width);
        self.numbers.is_some() && self.prefix == other.prefix && width(self) == width(other)
    }
}

/// Consecutive numbers, and the digits to which they are padded with zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Numbers {
    first: u64,
    last: u64,
    /// 0 where the first number has no zeros before it, so that equal numbers are equal values.
    width: usize,
}

impl Numbers {
    fn new(first: u64, last: u64, width: usize) -> Self {
        Self { first, last, width: if digits(first) < width { width } else { 0 } }
    }

    /// Reads `N` or `N-M`.
    fn read(range: &str) -> Result<Self, String> {
        let invalid = || format!("has an invalid range {:?}", excerpt(range));
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let is_number =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number(first) || !is_number(last) {
            return Err(invalid());
        }
        let (width, longest) = (first.len(), first.len().max(last.len()));
        if longest > DIGITS_LIMIT {
            return Err(format!(
                "has a number of {longest} digits, at most {DIGITS_LIMIT} are read"
            ));
        }
        match (first.parse(), last.parse()) {
            (Ok(first), Ok(last)) if first <= last => Ok(Self::new(first, last, width)),
            _ => Err(invalid()),
        }
    }

    fn count(self) -> usize {
        usize::try_from(self.last - self.first).map_or(usize::MAX, |more| more.saturating_add(1))
    }

    fn texts(self) -> impl Iterator<Item = String> {
        let width = self.width;
        (self.first..=self.last).map(move |number| format!("{number:0width$}"))
    }

    /// Whether `next` follows, written with the same padding.
    fn is_continued_by(self, next: Self) -> bool {
        let padded_alike =
            self.width == next.width || (next.width == 0 && digits(next.first) >= self.width);
        self.last + 1 == next.first && padded_alike
    }
}

fn digits(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |power| power as usize + 1)
}

const UNMATCHED: &str = "has an unmatched bracket";

/// Cuts `text` at the commas that are not inside brackets.
fn split_outside_brackets(text: &str) -> Result<Vec<&str>, String> {
    let (mut parts, mut start, mut inside) = (Vec::new(), 0, false);
    for (position, character) in text.char_indices() {
        match character {
            // A bracket opens outside of one and closes inside.
            '[' | ']' if inside == (character == '[') => return Err(UNMATCHED.to_owned()),
            '[' | ']' => inside = !inside,
            ',' if !inside => {
                parts.push(&text[start..position]);
                start = position + 1;
            }
            _ => {}
        }
    }
    if inside {
        return Err(UNMATCHED.to_owned());
    }
    parts.push(&text[start..]);
    Ok(parts)
}

/// Reads the text between two commas: a host name, with or without brackets. The numbers of a bracket at its end stay
/// ranges, those of all others are expanded. `characters` is a lower bound of the characters of all expanded names.
fn expand(part: &str, characters: &mut usize) -> Result<Vec<Range>, String> {
    let (mut prefixes, mut rest, mut last) = (vec![String::new()], part, None);
    let (mut brackets, mut literals, mut longest) = (0, 0, 0);
    while let Some((before, after)) = rest.split_once('[') {
        if brackets == BRACKETS_LIMIT {
            return Err(format!("has more than {BRACKETS_LIMIT} brackets in one host name"));
        }
        brackets += 1;
        let (inside, after) = after.split_once(']').ok_or(UNMATCHED)?;
        let numbers: Vec<_> = inside.split(',').map(Numbers::read).collect::<Result<_, _>>()?;
        let lengths = numbers.iter().map(|range| digits(range.last).max(range.width));
        longest += before.len() + lengths.max().unwrap_or_default();
        let count = numbers.iter().map(|range| range.count()).fold(0, usize::saturating_add);
        let hosts = count.saturating_mul(prefixes.len());
        check_limits(hosts, 0)?;
        if after.is_empty() {
            (rest, last) = (before, Some(numbers));
            break;
        }
        literals += before.len() + 1;
        check_limits(0, hosts * literals + *characters)?;
        let longer = prefixes.iter().flat_map(|prefix| {
            let numbers = numbers.iter().copied().flat_map(Numbers::texts);
            numbers.map(move |number| format!("{prefix}{before}{number}"))
        });
        prefixes = longer.collect();
        rest = after;
    }
    longest += if last.is_none() { rest.len() } else { 0 };
    if longest > NAME_LIMIT {
        return Err(format!(
            "has a host name of {longest} characters, at most {NAME_LIMIT} are allowed"
        ));
    }
    if literals > 0 {
        *characters += prefixes.len() * (literals + rest.len());
        check_limits(0, *characters)?;
    }
    let Some(numbers) = last else {
        return Ok(prefixes.iter().map(|prefix| Range::one(&format!("{prefix}{rest}"))).collect());
    };
    let ranges = prefixes.iter().flat_map(|prefix| {
        numbers.iter().map(move |numbers| Range::new(format!("{prefix}{rest}"), *numbers))
    });
    Ok(ranges.collect())
}

#[cfg(test)]
mod tests;
