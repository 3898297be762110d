//! Flux's small text forms.

use flux_protocol::Hostlist;
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

/// The ids of so many things, from 0 on.
pub(crate) fn ids(count: usize) -> String {
    if count == 1 { "0".to_owned() } else { format!("0-{}", count - 1) }
}

/// Names as one hostlist (RFC 29).
pub(crate) fn hostlist(hosts: &[String]) -> String {
    let joined = hosts.join(",");
    Hostlist::parse(&joined).map_or(joined, |list| list.to_string())
}
