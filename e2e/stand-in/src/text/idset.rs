//! Id sets (RFC 22): `0-3,7`.

use std::collections::BTreeSet;

/// The ids of a set, `None` where Flux would refuse the text.
pub(crate) fn decode(text: &str) -> Option<BTreeSet<u32>> {
    let mut ids = BTreeSet::new();
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        if first > last || last - first > 1 << 20 {
            return None;
        }
        ids.extend(first..=last);
    }
    Some(ids)
}

fn number(text: &str) -> Option<u32> {
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

/// The shortest text of a set.
pub(crate) fn encode(ids: impl IntoIterator<Item = u32>) -> String {
    let ids: BTreeSet<u32> = ids.into_iter().collect();
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for id in ids {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == id => *last = id,
            _ => parts.push((id, id)),
        }
    }
    let text = |&(first, last): &(u32, u32)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    parts.iter().map(text).collect::<Vec<_>>().join(",")
}
