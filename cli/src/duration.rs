//! Durations on the command line.

use jiff::{Span, SpanRelativeTo};
use std::time::Duration;

/// Reads `30s`, `1h30m`, `7d`, or a number of seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.parse() {
        return Ok(Duration::from_secs(seconds));
    }
    let span = text.parse().ok();
    let exact = span.and_then(|it: Span| it.to_duration(SpanRelativeTo::days_are_24_hours()).ok());
    let exact = exact.and_then(|it| Duration::try_from(it).ok());
    exact.ok_or_else(|| "it is no duration: write e.g. 30s, 1h30m or 7d".to_owned())
}

/// Reads a duration with a unit, as whole seconds of which there is at least one.
pub(crate) fn seconds(text: &str) -> Result<i64, String> {
    let has_unit = text.ends_with(char::is_alphabetic);
    let seconds = duration(text).ok().and_then(|it| i64::try_from(it.as_secs()).ok());
    let seconds = seconds.filter(|seconds| *seconds > 0 && has_unit);
    seconds.ok_or_else(|| "it is no duration: write e.g. 90s, 5m or 2h".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_of_kubectl_and_days() {
        for (text, seconds) in [("30s", 30), ("1h30m", 5400), ("7d", 604_800), ("90", 90)] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "x", "5x", "-1s", "-5s", "5 parsecs", "99999999999999999h"] {
            assert!(duration(text).is_err() && seconds(text).is_err(), "{text}");
        }
        let read = ["90s", "5m", "2h", "1h30m"].map(|text| seconds(text).unwrap());
        assert_eq!(read, [90, 300, 7200, 5400]);
        assert!(["7", "0s"].iter().all(|text| seconds(text).is_err()));
    }
}
