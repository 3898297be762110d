//! Ranges of host names, as a hostlist's text has them.

use super::error::DIGITS_LIMIT;
use std::fmt;

/// Most ranges that Flux reads between two brackets (flux-core, libhostlist, `MAX_RANGES`).
const RANGES_LIMIT: usize = 10_240;

/// Hosts of one prefix, numbered in ranges; without a range one host that has no number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Run {
    prefix: String,
    /// Digits to which numbers are padded with zeros; 0 where they are not.
    width: usize,
    /// First and last numbers.
    ranges: Vec<(u64, u64)>,
    /// Characters of all ranges without the commas between them.
    ranges_length: usize,
}

impl Run {
    /// One host without a number.
    pub(super) fn plain(host: &str) -> Self {
        Self { prefix: host.to_owned(), width: 0, ranges: Vec::new(), ranges_length: 0 }
    }

    /// The hosts of one piece.
    pub(super) fn of(piece: &Piece<'_>) -> Self {
        let mut run = Self::plain(piece.prefix);
        run.width = piece.width();
        run.extend(piece);
        run
    }

    /// Whether `piece` continues this run: the same prefix, and the same padding as it is written.
    pub(super) fn accepts(&self, piece: &Piece<'_>) -> bool {
        let width = piece.width();
        let grown = self.width > 0 && width == 0 && piece.digits == self.width;
        let Some(&(_, last)) = self.ranges.last() else { return false };
        let has_room = self.ranges.len() < RANGES_LIMIT || last + 1 == piece.numbers.0;
        has_room && self.prefix == piece.prefix && (self.width == width || grown)
    }

    /// Takes in `piece`, which this run accepts.
    pub(super) fn extend(&mut self, piece: &Piece<'_>) {
        let (first, last) = piece.numbers;
        if let Some(range) = self.ranges.last_mut().filter(|range| range.1 + 1 == first) {
            self.ranges_length -= range_length(*range, self.width);
            range.1 = last;
        } else {
            self.ranges.push(piece.numbers);
        }
        if let Some(range) = self.ranges.last() {
            self.ranges_length += range_length(*range, self.width);
        }
    }

    /// Its ranges, or its only host.
    pub(super) fn names(&self) -> impl Iterator<Item = Names<'_>> {
        let of = |numbers| Names { prefix: &self.prefix, width: self.width, numbers };
        let only = self.ranges.is_empty().then(|| of(None));
        self.ranges.iter().map(move |range| of(Some(*range))).chain(only)
    }

    /// Characters of the text.
    pub(super) fn text_length(&self) -> usize {
        let brackets = if self.has_brackets() { "[]".len() + self.ranges.len() - 1 } else { 0 };
        self.prefix.len() + self.ranges_length + brackets
    }

    fn has_brackets(&self) -> bool {
        match self.ranges[..] {
            [] => false,
            [(first, last)] => first != last,
            [_, _, ..] => true,
        }
    }
}

impl fmt::Display for Run {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (open, close) = if self.has_brackets() { ("[", "]") } else { ("", "") };
        let width = self.width;
        write!(formatter, "{}{open}", self.prefix)?;
        for (position, (first, last)) in self.ranges.iter().enumerate() {
            formatter.write_str(if position == 0 { "" } else { "," })?;
            write!(formatter, "{first:0width$}")?;
            if first != last {
                write!(formatter, "-{last:0width$}")?;
            }
        }
        formatter.write_str(close)
    }
}

/// Hosts of one prefix with consecutive numbers, or one host without a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Names<'list> {
    pub(super) prefix: &'list str,
    /// Digits to which numbers are padded with zeros; 0 where they are not.
    pub(super) width: usize,
    /// First and last number.
    pub(super) numbers: Option<(u64, u64)>,
}

impl<'list> Names<'list> {
    /// One host, split before its trailing number. Of a number with more digits than can be counted
    /// the first ones belong to the prefix.
    pub(super) fn one(host: &'list str) -> Self {
        let (prefix, digits) = split_number(host, DIGITS_LIMIT);
        let padded = digits.len() > 1 && digits.starts_with('0');
        let number = digits.parse().ok();
        Self {
            prefix,
            width: if padded { digits.len() } else { 0 },
            numbers: number.map(|number| (number, number)),
        }
    }

    /// How many they are.
    pub(super) fn count(self) -> usize {
        self.numbers.map_or(1, |(first, last)| count(first, last))
    }

    /// The hosts, one by one.
    pub(super) fn hosts(self) -> impl Iterator<Item = String> {
        let Self { prefix, width, numbers } = self;
        let plain = numbers.is_none().then(|| prefix.to_owned());
        let numbered = numbers.into_iter().flat_map(|(first, last)| first..=last);
        numbered.map(move |number| format!("{prefix}{number:0width$}")).chain(plain)
    }

    /// All but the first; nothing where there is only one.
    pub(super) fn without_first(self) -> Option<Self> {
        let (first, last) = self.numbers.filter(|(first, last)| first < last)?;
        Some(Self { numbers: Some((first + 1, last)), ..self })
    }

    /// Where among these `host` is, which is one.
    pub(super) fn position(self, host: Self) -> Option<usize> {
        if self.prefix != host.prefix {
            return None;
        }
        let (Some((first, last)), Some((number, _))) = (self.numbers, host.numbers) else {
            return (self.numbers == host.numbers).then_some(0);
        };
        // A number that fills its width needs no zeros, and is written like one without a width.
        let is_written_so =
            host.width == self.width || (host.width == 0 && digits(number) == self.width);
        ((first..=last).contains(&number) && is_written_so).then(|| count(first, number) - 1)
    }

    /// The same hosts: first those whose numbers begin with zeros, then the others, which have no
    /// width then. So one host is never written in two ways.
    pub(super) fn by_padding(self) -> impl Iterator<Item = Self> {
        let full = power(self.width.saturating_sub(1));
        let (padded, others) = match self.numbers {
            Some((first, last)) if self.width > 1 => {
                (Some((first, last.min(full - 1))), Some((first.max(full), last)))
            }
            Some(_) | None => (None, self.numbers),
        };
        let some = |(first, last): &(u64, u64)| first <= last;
        let padded = padded.filter(some).map(|numbers| Self { numbers: Some(numbers), ..self });
        let others = match others.filter(some) {
            None if self.numbers.is_some() => None,
            numbers => Some(Self { numbers, width: 0, ..self }),
        };
        padded.into_iter().chain(others)
    }

    /// Whether both have a host, of two that come from [`Self::by_padding`] and are in order.
    pub(super) fn overlaps(self, next: Self) -> bool {
        let is_in = match (self.numbers, next.numbers) {
            (Some((_, last)), Some((first, _))) => first <= last,
            (numbers, others) => numbers == others,
        };
        is_in && self.prefix == next.prefix && self.width == next.width
    }
}

/// Hosts of one prefix with consecutive numbers that are written with equally many digits.
#[derive(Debug)]
pub(super) struct Piece<'text> {
    prefix: &'text str,
    numbers: (u64, u64),
    digits: usize,
    padded: bool,
}

impl Piece<'_> {
    pub(super) fn count(&self) -> usize {
        count(self.numbers.0, self.numbers.1)
    }

    fn width(&self) -> usize {
        if self.padded { self.digits } else { 0 }
    }
}

/// The hosts `prefix` with each of `numbers`, padded to `width`, in pieces. Digits at the end of the
/// prefix belong to the numbers, as they do when the hosts are read one by one.
pub(super) fn pieces(
    prefix: &str,
    (first, last): (u64, u64),
    width: usize,
) -> impl Iterator<Item = Piece<'_>> {
    (digits(first)..=digits(last)).map(move |natural| {
        let lowest = if natural == 1 { 0 } else { power(natural - 1) };
        let numbers = (first.max(lowest), last.min(power(natural) - 1));
        let written = natural.max(width);
        let (prefix, leading) = split_number(prefix, DIGITS_LIMIT.saturating_sub(written));
        let base = leading.parse::<u64>().unwrap_or_default() * power(written);
        let padded = if leading.is_empty() { natural < written } else { leading.starts_with('0') };
        Piece {
            prefix,
            numbers: (base + numbers.0, base + numbers.1),
            digits: leading.len() + written,
            padded,
        }
    })
}

/// `text` split before the digits at its end, at most `limit` of them.
fn split_number(text: &str, limit: usize) -> (&str, &str) {
    let digits = text.bytes().rev().take_while(u8::is_ascii_digit).take(limit).count();
    text.split_at(text.len() - digits)
}

/// How many digits `number` has.
pub(super) fn digits(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |power| power as usize + 1)
}

/// Ten to the power of `exponent`, which is at most [`DIGITS_LIMIT`].
fn power(exponent: usize) -> u64 {
    u32::try_from(exponent)
        .ok()
        .and_then(|exponent| 10_u64.checked_pow(exponent))
        .unwrap_or(u64::MAX)
}

fn count(first: u64, last: u64) -> usize {
    usize::try_from(last - first).map_or(usize::MAX, |more| more.saturating_add(1))
}

/// Characters of a range.
fn range_length((first, last): (u64, u64), width: usize) -> usize {
    let first_length = digits(first).max(width);
    if first == last { first_length } else { first_length + 1 + digits(last).max(width) }
}
