//! `flux overlay`.

use std::time::Duration;

use flux_contract::Hostlist;
use serde_json::Value;

use super::Call;
use super::connection::{ask, ask_with};
use crate::failure::Failure;
use crate::options::{Argument, long, short};
use crate::output;
use crate::protocol::Request;
use crate::text::{duration, idset};

/// `flux overlay SUBCOMMAND`.
pub(crate) fn run(call: &Call) -> Result<u8, Failure> {
    call.refuse_in_batch("overlay")?;
    let (command, call) = super::split(call, "overlay")?;
    match command {
        "status" => status(&call),
        "lookup" => lookup(&call),
        "errors" => errors(&call),
        "parentof" => parent_of(&call),
        other => Err(Failure::not_simulated(&format!("overlay {other}"))),
    }
}

fn status(call: &Call) -> Result<u8, Failure> {
    let choices = [
        short("timeout", 't', Argument::Required),
        short("wait", 'w', Argument::Required),
        short("verbose", 'v', Argument::Optional),
        short("color", 'L', Argument::Optional),
        long("summary", Argument::None),
        long("down", Argument::None),
        long("no-pretty", Argument::None),
        long("no-ghost", Argument::None),
    ];
    let parsed = call.options("overlay", &choices)?;
    let seconds = match parsed.value("timeout") {
        None => 0.5,
        Some(text) => duration::parse(text)
            .ok_or_else(|| Failure::new(format!("flux-overlay: invalid timeout {text}")))?,
    };
    let limit = Duration::try_from_secs_f64(seconds).ok().filter(|limit| !limit.is_zero());
    let request = Request::Overlay { wait: parsed.value("wait").map(str::to_owned) };
    let health = ask_with(call, "flux-overlay", &request, limit, &mut |_| {})?;
    let verbose = parsed.has("verbose");
    if parsed.has("summary") {
        output::line(health["status"].as_str().unwrap_or_default());
        return Ok(0);
    }
    for line in tree(&health, parsed.has("down"), parsed.has("no-pretty"), verbose) {
        output::line(&line);
    }
    Ok(0)
}

fn tree(health: &Value, down: bool, plain: bool, verbose: bool) -> Vec<String> {
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let mut lines = Vec::new();
    if !down || health["status"] != "full" {
        lines.push(format!("0 {}: {}", text(health, "host"), text(health, "status")));
    }
    let children = health["children"].as_array().map(Vec::as_slice).unwrap_or_default();
    for (index, child) in children.iter().enumerate() {
        let last = index + 1 == children.len();
        let connector = match (plain, last) {
            (true, _) => "",
            (false, true) => "└─ ",
            (false, false) => "├─ ",
        };
        if down && child["status"] == "full" {
            continue;
        }
        let mut line = format!(
            "{connector}{} {}: {}",
            child["rank"].as_u64().unwrap_or_default(),
            text(child, "host"),
            text(child, "status")
        );
        if verbose {
            let seconds = child["duration"].as_f64().unwrap_or_default();
            line = format!("{line} for {}", duration::format(seconds, 6));
        }
        let error = text(child, "error");
        if !error.is_empty() {
            line = format!("{line} {error}");
        }
        lines.push(line);
    }
    lines
}

fn hosts(call: &Call) -> Result<Vec<String>, Failure> {
    let name = "hostlist".to_owned();
    let value = ask(call, "flux-overlay", &Request::Attribute { name })?;
    let list = Hostlist::parse(value.as_str().unwrap_or_default());
    list.map(|list| list.hosts().collect()).map_err(|error| Failure::new(error.to_string()))
}

fn lookup(call: &Call) -> Result<u8, Failure> {
    let [target] = call.words.as_slice() else {
        return Err(Failure::new("Usage: flux overlay lookup TARGET"));
    };
    let hosts = hosts(call)?;
    let unknown = || Failure::new(format!("flux-overlay: {target}: No such file or directory"));
    if let Some(ids) = idset::decode(target) {
        let host = |id: u32| usize::try_from(id).ok().and_then(|id| hosts.get(id)).cloned();
        let names: Option<Vec<String>> = ids.into_iter().map(host).collect();
        output::line(&crate::resources::compress(&names.ok_or_else(unknown)?));
        return Ok(0);
    }
    let names = Hostlist::parse(target).map_err(|_| unknown())?;
    let rank = |name: &String| (0_u32..).zip(&hosts).find(|(_, host)| *host == name);
    let ranks: Option<Vec<u32>> =
        names.hosts().map(|name| rank(&name).map(|(rank, _)| rank)).collect();
    output::line(&idset::encode(ranks.ok_or_else(unknown)?));
    Ok(0)
}

fn parent_of(call: &Call) -> Result<u8, Failure> {
    let rank = call.words.first().and_then(|text| text.parse::<usize>().ok());
    match rank.filter(|_| call.words.len() == 1) {
        Some(rank) if rank > 0 && rank < hosts(call)?.len() => {
            output::line("0");
            Ok(0)
        }
        Some(0) => Err(Failure::new("flux-overlay: 0 has no parent")),
        _ => Err(Failure::new("flux-overlay: RANK is out of range")),
    }
}

fn errors(call: &Call) -> Result<u8, Failure> {
    let parsed = call.options("overlay", &[short("timeout", 't', Argument::Required)])?;
    if !parsed.rest.is_empty() {
        return Err(Failure::new("Usage: flux overlay errors [OPTIONS]"));
    }
    let health = ask(call, "flux-overlay", &Request::Overlay { wait: None })?;
    for child in health["children"].as_array().into_iter().flatten() {
        let (host, error) = (child["host"].as_str(), child["error"].as_str());
        if let (Some(host), Some(error)) = (host, error.filter(|error| !error.is_empty())) {
            output::line(&format!("{host}: {error}"));
        }
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_tree_is_drawn_as_flux_draws_it() {
        let child = |rank: u32, status: &str| {
            json!({
                "rank": rank, "host": format!("flux-{rank}"), "status": status, "error": "",
            })
        };
        let health = json!({
            "host": "flux-0", "status": "partial",
            "children": [child(1, "full"), child(2, "offline")],
        });
        let all = ["0 flux-0: partial", "├─ 1 flux-1: full", "└─ 2 flux-2: offline"];
        assert_eq!(tree(&health, false, false, false), all);
        assert_eq!(tree(&health, true, true, false), ["0 flux-0: partial", "2 flux-2: offline"]);
    }
}
