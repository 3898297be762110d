//! Broker log lines: what is shown here, and what goes up to rank 0.

use std::time::{SystemTime, UNIX_EPOCH};

use super::attributes::Attributes;
use crate::output;

/// Severity of a line, RFC 5424.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub(crate) enum Severity {
    /// The broker cannot go on.
    Critical = 2,
    /// Something failed.
    Error = 3,
    /// Something may fail.
    Warning = 4,
    /// Ordinary progress.
    Info = 6,
    /// For developers.
    Debug = 7,
}

impl Severity {
    fn name(self) -> &'static str {
        match self {
            Self::Critical => "crit",
            Self::Error => "err",
            Self::Warning => "warning",
            Self::Info => "info",
            Self::Debug => "debug",
        }
    }
}

/// One line.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub(crate) struct Line {
    /// Its severity.
    pub(crate) severity: Severity,
    /// `broker`, or the name of the module that says it.
    pub(crate) source: String,
    /// Rank, or the host name before the rank is known.
    pub(crate) place: String,
    /// What is said.
    pub(crate) text: String,
}

impl Line {
    /// `broker.info[0]: text`.
    pub(crate) fn plain(&self) -> String {
        format!("{}.{}[{}]: {}", self.source, self.severity.name(), self.place, self.text)
    }
}

/// Where lines go.
#[derive(Debug, Clone)]
pub(crate) struct Logger {
    place: String,
    leader: bool,
    local: bool,
    level: u8,
    critical: u8,
    forward: u8,
    early: bool,
}

impl Logger {
    /// The logger in use before the rank is known; it shows everything up to the level here.
    pub(crate) fn early(attributes: &Attributes, hostname: &str) -> Self {
        let level = |name: &str, default: u8| {
            attributes.get(name).and_then(|text| text.parse().ok()).unwrap_or(default)
        };
        Self {
            place: hostname.to_owned(),
            leader: false,
            local: attributes.get("log-stderr-mode") == Some("local"),
            level: level("log-stderr-level", 3),
            critical: level("log-critical-level", 2),
            forward: level("log-forward-level", 3),
            early: true,
        }
    }

    /// The logger of a broker that knows its rank.
    ///
    /// # Errors
    /// Names the attribute that is no level or no mode.
    pub(crate) fn ranked(attributes: &Attributes, rank: u32) -> Result<Self, String> {
        for name in ["log-stderr-level", "log-critical-level", "log-forward-level", "log-level"] {
            let valid = |text: &str| text.parse::<u8>().is_ok_and(|level| level <= 7);
            if attributes.get(name).is_some_and(|text| !valid(text)) {
                return Err("Error initializing logging: Invalid argument".to_owned());
            }
        }
        match attributes.get("log-stderr-mode") {
            None | Some("local" | "leader") => {}
            Some(_) => return Err("Error initializing logging: Invalid argument".to_owned()),
        }
        let early = Self::early(attributes, "");
        Ok(Self { place: rank.to_string(), leader: rank == 0, early: false, ..early })
    }

    /// Changes the level shown on standard error.
    pub(crate) fn set_level(&mut self, level: u8) {
        self.level = level;
    }

    /// Makes a line, shows it here if it belongs here, and returns it if it has to go to rank 0.
    pub(crate) fn log(&self, source: &str, severity: Severity, text: &str) -> Option<Line> {
        let line = Line {
            severity,
            source: source.to_owned(),
            place: self.place.clone(),
            text: text.to_owned(),
        };
        let level = severity as u8;
        let here = if self.early {
            level <= self.level
        } else {
            level <= self.critical || (level <= self.level && (self.local || self.leader))
        };
        if here {
            show(&line, self.local);
        }
        (!self.leader && !self.early && level <= self.forward).then_some(line)
    }

    /// Shows a line that another broker sent to this leader.
    pub(crate) fn received(&self, line: &Line) {
        if !self.local && line.severity as u8 <= self.level {
            show(line, false);
        }
    }
}

fn show(line: &Line, systemd: bool) {
    let plain = line.plain();
    if systemd {
        output::error_line(&format!("<{}>{plain}", line.severity as u8));
    } else {
        output::error_line(&format!("{} {plain}", timestamp(SystemTime::now())));
    }
}

/// `Nov 21 02:27:00.000123 UTC 2026`.
fn timestamp(now: SystemTime) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, seconds) = (since.as_secs() / 86400, since.as_secs() % 86400);
    let (year, month, day) = civil(days);
    let month = MONTHS[usize::try_from(month - 1).unwrap_or_default()];
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let micros = since.subsec_micros();
    format!("{month} {day:02} {hour:02}:{minute:02}:{second:02}.{micros:06} UTC {year}")
}

/// Year, month and day of a day counted from 1970-01-01 (proleptic Gregorian calendar).
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let slot = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * slot + 2) / 5 + 1;
    let month = if slot < 10 { slot + 3 } else { slot - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

/// Hours, minutes and seconds of the day (UTC).
pub(crate) fn clock(now: SystemTime) -> String {
    let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() % 86400;
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn timestamps_are_calendar_dates() {
        let at = UNIX_EPOCH + Duration::from_micros(1_795_228_020_000_123);
        assert_eq!(timestamp(at), "Nov 21 02:27:00.000123 UTC 2026");
    }

    #[test]
    fn workers_forward_errors_and_keep_the_rest() {
        let logger = Logger::ranked(&Attributes::default(), 1).expect("valid");
        assert!(logger.log("broker", Severity::Error, "x").is_some());
        assert!(logger.log("broker", Severity::Info, "x").is_none());
    }
}
