//! From text to a hostlist: everything is counted before it is expanded.

use super::error::{BRACKETS_LIMIT, DIGITS_LIMIT, Fault, NAME_LIMIT, excerpt};
use super::run::{Names, digits};

/// Cuts `text` at the commas that are not inside brackets.
pub(super) fn split_outside_brackets(text: &str) -> Result<Vec<&str>, Fault> {
    let (mut parts, mut start, mut inside) = (Vec::new(), 0, false);
    for (position, character) in text.char_indices() {
        match character {
            '[' if inside => return Err(Fault::Bracket),
            ']' if !inside => return Err(Fault::Bracket),
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
        return Err(Fault::Bracket);
    }
    parts.push(&text[start..]);
    Ok(parts)
}

/// `N` or `N-M` between brackets.
struct Range {
    first: u64,
    last: u64,
    /// Digits to which the numbers are padded with zeros; 0 where they are not.
    width: usize,
}

/// What stands before a bracket, and what is in it.
struct Bracket<'text> {
    before: &'text str,
    ranges: Vec<Range>,
}

impl Bracket<'_> {
    fn count(&self) -> usize {
        let counts = self.ranges.iter().map(|range| range.last - range.first + 1);
        usize::try_from(counts.fold(0, u64::saturating_add)).unwrap_or(usize::MAX)
    }

    /// Digits of its longest number.
    fn longest(&self) -> usize {
        let lengths = self.ranges.iter().map(|range| digits(range.last).max(range.width));
        lengths.max().unwrap_or_default()
    }
}

/// One host name with the brackets in it.
pub(super) struct Name<'text> {
    brackets: Vec<Bracket<'text>>,
    /// What stands behind the last bracket.
    end: &'text str,
}

impl<'text> Name<'text> {
    /// Reads `part`, what stands between two commas.
    pub(super) fn read(part: &'text str) -> Result<Self, Fault> {
        if part.is_empty() {
            return Err(Fault::Empty);
        }
        if let Some(character) = part.chars().find(|character| !character.is_ascii_graphic()) {
            return Err(Fault::Character(character));
        }
        let (mut brackets, mut end) = (Vec::new(), part);
        while let Some((before, rest)) = end.split_once('[') {
            if brackets.len() == BRACKETS_LIMIT {
                return Err(Fault::Brackets);
            }
            let Some((inside, rest)) = rest.split_once(']') else {
                return Err(Fault::Bracket);
            };
            let ranges: Result<_, _> = inside.split(',').map(bounds).collect();
            brackets.push(Bracket { before, ranges: ranges? });
            end = rest;
        }
        let name = Self { brackets, end };
        let length = name.longest();
        if length > NAME_LIMIT {
            return Err(Fault::Name(length));
        }
        Ok(name)
    }

    /// How many hosts it stands for.
    pub(super) fn count(&self) -> usize {
        self.brackets.iter().map(Bracket::count).fold(1, usize::saturating_mul)
    }

    /// Characters of the longest of them.
    fn longest(&self) -> usize {
        let brackets = self.brackets.iter().map(|it| it.before.len() + it.longest());
        brackets.sum::<usize>() + self.end.len()
    }

    /// Gives its hosts to `take`: the numbers of the last bracket as ranges, where nothing stands
    /// behind it, for each choice of numbers in the others.
    pub(super) fn expand(
        &self,
        mut take: impl FnMut(Names<'_>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let Some((inner, outer)) = self.brackets.split_last() else {
            return take(Names::one(self.end));
        };
        let mut chosen: Vec<Choice<'_>> = outer.iter().map(Choice::first).collect();
        loop {
            let mut prefix: String = chosen.iter().map(Choice::text).collect();
            prefix.push_str(inner.before);
            for &Range { first, last, width } in &inner.ranges {
                if self.end.is_empty() {
                    take(Names { prefix: &prefix, width, numbers: Some((first, last)) })?;
                    continue;
                }
                for number in first..=last {
                    take(Names::one(&format!("{prefix}{number:0width$}{}", self.end)))?;
                }
            }
            // As an odometer counts: the rightmost that has a next number takes it.
            if !chosen.iter_mut().rev().any(Choice::advance) {
                return Ok(());
            }
        }
    }
}

/// One number of a bracket.
struct Choice<'name> {
    bracket: &'name Bracket<'name>,
    range: usize,
    number: u64,
}

impl<'name> Choice<'name> {
    fn first(bracket: &'name Bracket<'name>) -> Self {
        let number = bracket.ranges.first().map_or(0, |range| range.first);
        Self { bracket, range: 0, number }
    }

    /// Takes the next number; false where it was the last and is the first again.
    fn advance(&mut self) -> bool {
        let range = &self.bracket.ranges[self.range];
        if self.number < range.last {
            self.number += 1;
            return true;
        }
        let next = self.bracket.ranges.get(self.range + 1);
        let Some(next) = next else {
            *self = Self::first(self.bracket);
            return false;
        };
        self.range += 1;
        self.number = next.first;
        true
    }

    fn text(&self) -> String {
        let width = self.bracket.ranges[self.range].width;
        format!("{}{:0width$}", self.bracket.before, self.number)
    }
}

/// First number, last number and padded width of `N` or `N-M`.
fn bounds(range: &str) -> Result<Range, Fault> {
    let invalid = || Fault::Range(excerpt(range));
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(first) || !is_number(last) {
        return Err(invalid());
    }
    let digits = first.len().max(last.len());
    if digits > DIGITS_LIMIT {
        return Err(Fault::Digits(digits));
    }
    let width = if first.len() > 1 && first.starts_with('0') { first.len() } else { 0 };
    let first = first.parse().map_err(|_| invalid())?;
    let last = last.parse().map_err(|_| invalid())?;
    if first > last {
        return Err(invalid());
    }
    Ok(Range { first, last, width })
}
