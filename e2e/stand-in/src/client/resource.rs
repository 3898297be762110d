//! `flux resource`.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Call;
use super::connection::ask;
use crate::failure::Failure;
use crate::options::{Argument, long, short};
use crate::output;
use crate::protocol::Request;

/// `flux resource SUBCOMMAND`.
pub(crate) fn run(call: &Call) -> Result<u8, Failure> {
    call.refuse_in_batch("resource")?;
    let (command, call) = super::split(call, "resource")?;
    match command {
        "list" => list(&call),
        "info" => info(&call),
        "drain" => drain(&call),
        "undrain" => undrain(&call),
        other => Err(Failure::not_simulated(&format!("resource {other}"))),
    }
}

const PREFIX: &str = "flux-resource: ERROR";

/// One row: how many nodes, cores and GPUs are in a state, and where.
#[derive(Debug, Default, PartialEq, Eq)]
struct Row {
    nodes: u64,
    cores: u64,
    gpus: u64,
    hosts: Vec<String>,
}

impl Row {
    fn add(&mut self, node: &Value, cores: u64) {
        self.nodes += 1;
        self.cores += cores;
        self.gpus += node["gpus"].as_u64().unwrap_or_default();
        self.hosts.extend(node["host"].as_str().map(str::to_owned));
    }
}

/// Rows by state. `up` and `all` are sums that are only shown when asked for.
fn rows(resources: &Value) -> BTreeMap<&'static str, Row> {
    let states = ["free", "allocated", "down", "up", "all"];
    let mut rows: BTreeMap<&str, Row> =
        states.into_iter().map(|state| (state, Row::default())).collect();
    let mut add = |state: &'static str, node: &Value, cores: u64| {
        if let Some(row) = rows.get_mut(state) {
            row.add(node, cores);
        }
    };
    for node in resources.as_array().into_iter().flatten() {
        let cores = node["cores"].as_u64().unwrap_or_default();
        let free = node["free"].as_u64().unwrap_or_default();
        add("all", node, cores);
        if node["up"] != true {
            add("down", node, cores);
            continue;
        }
        add("up", node, cores);
        if free > 0 {
            add("free", node, free);
        }
        if cores > free {
            add("allocated", node, cores - free);
        }
    }
    rows
}

fn list(call: &Call) -> Result<u8, Failure> {
    let choices = [
        short("no-header", 'n', Argument::None),
        short("format", 'o', Argument::Required),
        short("states", 's', Argument::Required),
    ];
    let parsed = call.python_options("resource", &choices)?;
    let resources = ask(call, PREFIX, &Request::Resources)?;
    let rows = rows(&resources);
    let states = parsed.value("states").unwrap_or("free,allocated,down");
    let format = parsed.value("format");
    if !parsed.has("no-header") {
        match format {
            None => output::line("     STATE NNODES NCORES NGPUS NODELIST"),
            Some(_) => return Err(Failure::not_simulated("resource list -o without -n")),
        }
    }
    let lines = format.is_none_or(|format| format.contains("{state}"));
    if !lines && states.contains(',') {
        return Err(Failure::not_simulated("resource list of several states as one line"));
    }
    for state in states.split(',') {
        let row = rows.get(state).ok_or_else(|| {
            Failure::new(format!("{PREFIX}: Invalid resource state {state} specified"))
        })?;
        output::line(&row_text(state, row, format)?);
    }
    Ok(0)
}

fn row_text(state: &str, row: &Row, format: Option<&str>) -> Result<String, Failure> {
    let hosts = crate::resources::compress(&row.hosts);
    let Some(format) = format else {
        let (nodes, cores, gpus) = (row.nodes, row.cores, row.gpus);
        return Ok(format!("{state:>10} {nodes:>6} {cores:>6} {gpus:>5} {hosts}"));
    };
    let text = [
        ("{state}", state.to_owned()),
        ("{nnodes}", row.nodes.to_string()),
        ("{ncores}", row.cores.to_string()),
        ("{ngpus}", row.gpus.to_string()),
        ("{nodelist}", hosts),
    ]
    .iter()
    .fold(format.to_owned(), |text, (tag, value)| text.replace(tag, value));
    if text.contains('{') {
        return Err(Failure::not_simulated(&format!("format {format}")));
    }
    Ok(text)
}

fn info(call: &Call) -> Result<u8, Failure> {
    let parsed = call.python_options("resource", &[short("states", 's', Argument::Required)])?;
    let resources = ask(call, PREFIX, &Request::Resources)?;
    let state = parsed.value("states").unwrap_or("all");
    let rows = rows(&resources);
    let row = rows.get(state).ok_or_else(|| {
        Failure::new(format!("{PREFIX}: Invalid resource state {state} specified"))
    })?;
    output::line(&format!("{} Nodes, {} Cores, {} GPUs", row.nodes, row.cores, row.gpus));
    Ok(0)
}

fn drain(call: &Call) -> Result<u8, Failure> {
    let choices = [
        short("force", 'f', Argument::None),
        short("update", 'u', Argument::None),
        short("no-header", 'n', Argument::None),
        long("format", Argument::Required),
    ];
    let parsed = call.python_options("resource", &choices)?;
    let mut words = parsed.rest.iter();
    let targets = words.next().cloned();
    let reason: Vec<&str> = words.map(String::as_str).collect();
    let request = Request::Drain {
        targets,
        reason: reason.join(" "),
        force: parsed.has("force") || parsed.has("update"),
    };
    let drained = ask(call, PREFIX, &request)?;
    for node in drained.as_array().into_iter().flatten() {
        output::line(&format!(
            "{} {} {}",
            node["rank"].as_u64().unwrap_or_default(),
            node["host"].as_str().unwrap_or_default(),
            node["reason"].as_str().unwrap_or_default()
        ));
    }
    Ok(0)
}

fn undrain(call: &Call) -> Result<u8, Failure> {
    let parsed = call.python_options("resource", &[])?;
    let [targets] = parsed.rest.as_slice() else {
        return Err(Failure::new("usage: flux resource undrain TARGETS"));
    };
    ask(call, PREFIX, &Request::Undrain { targets: targets.clone() })?;
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nodes_are_counted_by_what_is_free_on_them() {
        let resources = json!([
            {"rank": 0, "host": "a0", "cores": 4, "gpus": 0, "up": true, "free": 1},
            {"rank": 1, "host": "a1", "cores": 4, "gpus": 0, "up": false, "free": 0},
        ]);
        let rows = rows(&resources);
        let text = |state: &str| row_text(state, &rows[state], None).expect("formats");
        assert_eq!(text("free"), "      free      1      1     0 a0");
        assert_eq!(text("allocated"), " allocated      1      3     0 a0");
        assert_eq!(text("down"), "      down      1      4     0 a1");
        assert_eq!(row_text("up", &rows["up"], Some("{nnodes}")).expect("formats"), "1");
    }
}
