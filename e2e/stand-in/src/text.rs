//! Flux's small text forms.

use flux_contract::Hostlist;
use std::collections::BTreeSet;
use std::time::Duration;

/// A Flux Standard Duration (RFC 23), as `1.5h` or `300ms`; `None` where Flux would refuse it.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit {
        "" | "s" => 1.0,
        "ms" => 0.001,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(number.parse::<f64>().ok()? * factor).ok()
}

/// The ids of a set (RFC 22), as `0-3,7`; `None` where Flux would refuse the text.
pub(crate) fn decode_ids(text: &str) -> Option<BTreeSet<u32>> {
    let number = |text: &str| {
        let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        plain.then(|| text.parse::<u32>().ok()).flatten()
    };
    let mut ids = BTreeSet::new();
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let Some((first, last)) = part.split_once('-') else {
            ids.insert(number(part)?);
            continue;
        };
        let (first, last) = (number(first)?, number(last)?);
        if first >= last || last - first > 1 << 20 {
            return None;
        }
        ids.extend(first..=last);
    }
    Some(ids)
}

/// Names as one hostlist (RFC 29).
pub(crate) fn hostlist(hosts: &[String]) -> String {
    let joined = hosts.join(",");
    Hostlist::parse(&joined).map_or(joined, |list| list.to_string())
}

/// The F58 text of a job id (RFC 19), as in a locale of UTF-8.
pub(crate) fn job_id(id: u64) -> String {
    let bytes = id.to_be_bytes();
    let zeros = bytes.iter().take(7).take_while(|byte| **byte == 0).count();
    format!("ƒ{}", bs58::encode(&bytes[zeros..]).into_string())
}

/// The id behind an F58 text, with either prefix, or a decimal number.
pub(crate) fn decode_job_id(text: &str) -> Option<u64> {
    if let Ok(id) = text.parse() {
        return Some(id);
    }
    let digits = text.strip_prefix('ƒ').or_else(|| text.strip_prefix('f'))?;
    let bytes = bs58::decode(digits).into_vec().ok()?;
    let mut whole = [0; 8];
    whole.get_mut(8_usize.checked_sub(bytes.len())?..)?.copy_from_slice(&bytes);
    Some(u64::from_be_bytes(whole))
}
