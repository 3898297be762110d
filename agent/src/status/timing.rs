//! Wall times: the texts that users' scripts look for.

use std::time::Duration;

/// `duration` as `%E` of GNU time(1) shows it: `m:ss.cc` below an hour, `h:mm:ss` from there on.
/// Fractions are cut, not rounded, as GNU time does.
pub(crate) fn elapsed_text(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (minutes, rest) = (seconds / 60, seconds % 60);
    if seconds >= 3600 {
        format!("{}:{:02}:{rest:02}", minutes / 60, minutes % 60)
    } else {
        format!("{minutes}:{rest:02}.{:02}", duration.subsec_millis() / 10)
    }
}

/// The line that users and tools search the lead's log for when `logging.timed` is set, as
/// `FLUXTIME fluxsubmit wall time 0:04.73`.
pub(crate) fn fluxtime_line(what: &str, duration: Duration) -> String {
    format!("FLUXTIME {what} wall time {}", elapsed_text(duration))
}

pub(crate) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_look_as_gnu_time_prints_them() {
        let text = |milliseconds| elapsed_text(Duration::from_millis(milliseconds));
        assert_eq!(text(0), "0:00.00");
        assert_eq!(text(4_739), "0:04.73");
        assert_eq!(text(59_999), "0:59.99");
        assert_eq!(text(60_000), "1:00.00");
        assert_eq!(text(3_599_990), "59:59.99");
        assert_eq!(text(3_600_000), "1:00:00");
        assert_eq!(text(3_723_900), "1:02:03");
        assert_eq!(text(360_000_000), "100:00:00");
    }
}
