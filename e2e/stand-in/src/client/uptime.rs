//! `flux uptime`.

use std::time::{SystemTime, UNIX_EPOCH};

use nix::sys::signal::{Signal, raise};
use serde_json::Value;

use super::Call;
use super::connection::ask;
use crate::broker::log::clock;
use crate::failure::Failure;
use crate::output;
use crate::protocol::Request;
use crate::text::duration;

/// `flux uptime`.
pub(crate) fn run(call: &Call) -> Result<u8, Failure> {
    call.options("uptime", &[])?;
    call.refuse_in_batch("uptime")?;
    let state = ask(call, "flux-uptime", &Request::State)?;
    let name = state["state"].as_str().unwrap_or_default();
    let summary = match name {
        "run" => Some(ask(call, "flux-uptime", &Request::Summary)?),
        _ => None,
    };
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let owner = state["owner"].as_str().unwrap_or_default();
    if name_of(owner, &users).is_none() {
        // Flux 0.88 looks into the passwd entry without having one (`cmd/builtin/uptime.c`).
        return Ok(crash());
    }
    let now = SystemTime::now();
    for line in lines(&state, summary.as_ref(), &users, now) {
        output::line(&line);
    }
    Ok(0)
}

/// Dies by SIGSEGV. Where that fails, the exit code is what a shell would make of it.
fn crash() -> u8 {
    // The runtime's own handler takes the first one for a sign of stack overflow and withdraws.
    for _ in 0..2 {
        if raise(Signal::SIGSEGV).is_err() {
            break;
        }
    }
    128 + 11
}

fn lines(state: &Value, summary: Option<&Value>, users: &str, now: SystemTime) -> Vec<String> {
    let number = |value: &Value, key: &str| value[key].as_u64().unwrap_or_default();
    let seconds = match summary.and_then(|summary| summary["starttime"].as_str()) {
        Some(start) => {
            let start: f64 = start.parse().unwrap_or_default();
            let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
            (now - start).max(0.0)
        }
        None => state["duration"].as_f64().unwrap_or_default(),
    };
    let mut first = format!(
        " {} {} {},  owner {},  depth {},  size {}",
        clock(now),
        state["state"].as_str().unwrap_or_default(),
        duration::format(seconds, 2),
        user(state["owner"].as_str().unwrap_or_default(), users),
        number(state, "level"),
        number(state, "size"),
    );
    let Some(summary) = summary else { return vec![first] };
    for key in ["drained", "offline"] {
        match number(summary, key) {
            0 => {}
            count => first = format!("{first},  {count} {key}"),
        }
    }
    let mut lines = vec![first];
    let flags = [("disabled", "submit disabled"), ("stopped", "scheduler stopped")];
    let extra: Vec<&str> =
        flags.iter().filter(|(key, _)| summary[key] == true).map(|(_, text)| *text).collect();
    if !extra.is_empty() {
        lines.push(format!("  {}", extra.join(",  ")));
    }
    lines
}

fn name_of<'a>(id: &str, users: &'a str) -> Option<&'a str> {
    let fields = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
    fields.filter(|fields| fields.get(2) == Some(&id)).find_map(|fields| fields.first().copied())
}

/// The name of a user id, or the id.
pub(crate) fn user<'a>(id: &'a str, users: &'a str) -> &'a str {
    name_of(id, users).unwrap_or(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_line_is_that_of_flux() {
        let now = UNIX_EPOCH + std::time::Duration::from_secs(3661);
        let state = json!({"state": "join", "duration": 0.8, "size": 2, "owner": "0", "level": 0});
        let users = "root:x:0:0::/root:/bin/sh\n";
        let expected = " 01:01:01 join 0.8s,  owner root,  depth 0,  size 2";
        assert_eq!(lines(&state, None, users, now), [expected]);
        let state = json!({"state": "run", "size": 4, "owner": "7", "level": 0});
        let summary = json!({
            "starttime": "3601.00", "offline": 1, "drained": 0, "disabled": true, "stopped": true,
        });
        let expected = [
            " 01:01:01 run 1m,  owner 7,  depth 0,  size 4,  1 offline",
            "  submit disabled,  scheduler stopped",
        ];
        assert_eq!(lines(&state, Some(&summary), users, now), expected);
    }
}
