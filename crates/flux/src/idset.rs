//! Idsets (RFC 22): sets of numbers such as `0-3,7`, which Linux writes in the same form.

/// The largest number of ids that is read, more than an instance has ranks or a host has cores: `0-4294967295` would take
/// 16 GiB of memory.
const LIMIT: usize = 1 << 20;

/// Reads an idset; none if it is not valid or has more than a million numbers.
pub fn ids_of(text: &str) -> Option<Vec<u32>> {
    let mut ids = Vec::new();
    for range in text.trim_matches(['[', ']']).split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        let before_last = last.checked_sub(first)? as usize;
        // Flux writes no range of one number.
        if ids.len() + before_last >= LIMIT || before_last == 0 && range.contains('-') {
            return None;
        }
        ids.extend(first..=last);
    }
    Some(ids)
}

/// Writes `ids`, which have to be in ascending order.
pub fn idset(ids: &[u32]) -> String {
    let ranges = ids.chunk_by(|id, next| id.checked_add(1) == Some(*next));
    let texts = ranges.map(|range| match range {
        [first, .., last] => format!("{first}-{last}"),
        [only] => only.to_string(),
        [] => String::new(),
    });
    texts.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_ids_than_the_limit_are_refused() {
        assert_eq!(ids_of("[0-2,7]"), Some(vec![0, 1, 2, 7]));
        assert_eq!(ids_of("0-1048575").map(|ids| ids.len()), Some(1 << 20));
        for text in ["3-1", "0-0", "0-1048576", "7,0-1048575", "0-4294967295"] {
            assert_eq!(ids_of(text), None, "{text}");
        }
    }
}
