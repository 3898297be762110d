//! `flux R encode`.

use std::collections::BTreeSet;

use flux_contract::Hostlist;

use super::Call;
use crate::failure::Failure;
use crate::options::{Argument, Parsed, short};
use crate::output;
use crate::resources::{self, Node, Nodes};
use crate::text::idset;

/// `flux R encode`: needs no broker.
pub(crate) fn run(call: &Call) -> Result<u8, Failure> {
    let (command, call) = super::split(call, "R")?;
    if command != "encode" {
        return Err(Failure::not_simulated(&format!("R {command}")));
    }
    let choices = [
        short("local", 'l', Argument::None),
        short("xml", 'f', Argument::Required),
        short("ranks", 'r', Argument::Required),
        short("cores", 'c', Argument::Required),
        short("gpus", 'g', Argument::Required),
        short("hosts", 'H', Argument::Required),
        short("property", 'p', Argument::Split),
    ];
    let parsed = call.options("R", &choices)?;
    if parsed.has("xml") {
        return Err(Failure::not_simulated("R encode --xml"));
    }
    if parsed.has("local") && (parsed.has("cores") || parsed.has("gpus")) {
        return Err(Failure::new("flux-R: do not specify --cores or --gpus with --local or --xml"));
    }
    let nodes = encode(&parsed)?;
    output::line(&resources::to_json(&nodes).to_string());
    Ok(0)
}

fn encode(parsed: &Parsed) -> Result<Nodes, Failure> {
    let ids = |name: &str, default: &str| {
        let text = parsed.value(name).unwrap_or(default);
        idset::decode(text).ok_or_else(|| {
            Failure::new(format!("flux-R: Failed to encode R: invalid {name} idset '{text}'"))
        })
    };
    let hosts = match parsed.value("hosts") {
        None => None,
        Some(text) => {
            let list = Hostlist::parse(text);
            Some(list.map_err(|_| Failure::new(format!("flux-R: Invalid hostlist '{text}'")))?)
        }
    };
    let count = hosts.as_ref().map_or(1, Hostlist::len);
    let every = idset::encode((0..).take(count));
    let ranks = ids("ranks", &every)?;
    let local = parsed.has("local");
    let cores = if local {
        resources::local_cores()
    } else {
        ids("cores", if parsed.has("gpus") { "" } else { "0" })?
    };
    let gpus = ids("gpus", "")?;
    let names: Vec<String> = if let Some(hosts) = hosts {
        hosts.hosts().collect()
    } else {
        let name = nix::unistd::gethostname()
            .map_err(|error| Failure::new(format!("flux-R: gethostname: {error}")))?;
        vec![name.to_string_lossy().into_owned(); ranks.len()]
    };
    if names.len() != ranks.len() {
        return Err(Failure::new("flux-R: Number of hosts does not match number of ranks"));
    }
    let mut nodes: Nodes = ranks
        .into_iter()
        .zip(names)
        .map(|(rank, host)| {
            let (cores, gpus) = (cores.clone(), gpus.clone());
            (rank, Node { host, cores, gpus, properties: BTreeSet::new() })
        })
        .collect();
    for property in parsed.values("property") {
        set_property(&mut nodes, property)?;
    }
    Ok(nodes)
}

fn set_property(nodes: &mut Nodes, text: &str) -> Result<(), Failure> {
    let (name, ranks) = match text.split_once(':') {
        None => (text, None),
        Some((name, ranks)) => {
            let invalid = || Failure::new(format!("flux-R: invalid property ranks '{ranks}'"));
            (name, Some(idset::decode(ranks).ok_or_else(invalid)?))
        }
    };
    for (rank, node) in nodes.iter_mut() {
        if ranks.as_ref().is_none_or(|ranks| ranks.contains(rank)) {
            node.properties.insert(name.to_owned());
        }
    }
    Ok(())
}
