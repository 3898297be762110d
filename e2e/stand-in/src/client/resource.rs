//! `flux resource list`, `flux resource drain` and `flux R encode`.

use flux_contract::Hostlist;
use serde_json::Value;

use super::{Call, formatted};
use crate::failure::Failure;
use crate::output;
use crate::protocol::Request;
use crate::resources;
use crate::text;

/// `flux resource list --no-header --states=free --format=FORMAT`.
pub(crate) fn list(call: &Call) -> Result<u8, Failure> {
    let parsed = call.options("n|no-header o|format= s|states=")?;
    let format = parsed.value("format").filter(|_| parsed.has("no-header"));
    let Some(format) = format.filter(|_| parsed.value("states") == Some("free")) else {
        let what = "resource list but with --no-header, --states=free and --format";
        return Err(Failure::not_simulated(what));
    };
    let free = call.ask("flux-resource: ERROR", &Request::Resources)?;
    let counts = free.as_array().into_iter().flatten().filter_map(Value::as_u64);
    let (nodes, cores) = (counts.clone().count(), counts.sum::<u64>());
    let values = [("nnodes", nodes.to_string()), ("ncores", cores.to_string())];
    output::line(&formatted(format, &values)?);
    Ok(0)
}

/// `flux resource drain --no-header --format=FORMAT` without targets: who is drained, and why.
pub(crate) fn drained(call: &Call) -> Result<u8, Failure> {
    let parsed = call.options("n|no-header o|format=")?;
    let format =
        parsed.value("format").filter(|_| parsed.has("no-header") && parsed.rest.is_empty());
    let Some(format) = format else {
        let what = "resource drain but with --no-header, --format and no targets";
        return Err(Failure::not_simulated(what));
    };
    let answer = call.ask("flux-resource: ERROR", &Request::Drained)?;
    for (rank, drained) in answer["drain"].as_object().into_iter().flatten() {
        let reason = drained["reason"].as_str().unwrap_or_default();
        let values = [("ranks", rank.clone()), ("reason", reason.to_owned())];
        output::line(&formatted(format, &values)?);
    }
    Ok(0)
}

/// `flux R encode`: needs no broker.
pub(crate) fn encode(call: &Call) -> Result<u8, Failure> {
    let parsed = call.options("local cores= hosts=")?;
    let cores = match (parsed.has("local"), parsed.value("cores")) {
        (true, Some(_)) => {
            let text = "flux-R: do not specify --cores or --gpus with --local or --xml";
            return Err(Failure::new(text));
        }
        (true, None) => Some(resources::local_cores()),
        (false, text) => text::decode_ids(text.unwrap_or("0")),
    };
    let cores = cores.ok_or_else(|| Failure::new("flux-R: invalid idset of --cores"))?;
    let Some(hosts) = parsed.value("hosts") else {
        return Err(Failure::not_simulated("R encode without --hosts"));
    };
    let hosts = Hostlist::parse(hosts)
        .map_err(|_| Failure::new(format!("flux-R: Invalid hostlist '{hosts}'")))?;
    output::line(&resources::encode(&hosts.hosts().collect::<Vec<_>>(), &cores).to_string());
    Ok(0)
}
