//! `flux resource list`, `flux resource drain` and `flux R encode`.

use flux_contract::Hostlist;

use super::Call;
use super::connection::ask;
use crate::failure::Failure;
use crate::output;
use crate::protocol::Request;
use crate::resources;
use crate::text::idset;

/// `flux resource list --no-header --states=free --format=FORMAT`.
fn list(call: &Call) -> Result<u8, Failure> {
    let list = "n|no-header o|format= s|states= q|queue=! i|include=!";
    let parsed = call.of_subcommand("resource", "list", list)?;
    call.refuse_in_batch("resource list")?;
    let format = parsed.value("format").filter(|_| parsed.has("no-header"));
    let Some(format) = format.filter(|_| parsed.value("states") == Some("free")) else {
        let what = "resource list but with --no-header, --states=free and --format";
        return Err(Failure::not_simulated(what));
    };
    let free = ask(call, "flux-resource: ERROR", &Request::Resources)?;
    let counts: Vec<u64> =
        free.as_array().into_iter().flatten().filter_map(serde_json::Value::as_u64).collect();
    let line = format.replace("{nnodes}", &counts.len().to_string());
    let line = line.replace("{ncores}", &counts.iter().sum::<u64>().to_string());
    if line.contains('{') {
        return Err(Failure::not_simulated(&format!("format {format}")));
    }
    output::line(&line);
    Ok(0)
}

/// `flux resource` with its sub-command.
pub(crate) fn resource(call: &Call) -> Result<u8, Failure> {
    if call.words.first().is_some_and(|word| word == "drain") { drained(call) } else { list(call) }
}

/// `flux resource drain --no-header --format=FORMAT` without targets: who is drained, and why.
fn drained(call: &Call) -> Result<u8, Failure> {
    let list = "n|no-header o|format= f|force! u|update! i|include=! L|color=!";
    let parsed = call.of_subcommand("resource", "drain", list)?;
    call.refuse_in_batch("resource drain")?;
    let format =
        parsed.value("format").filter(|_| parsed.has("no-header") && parsed.rest.is_empty());
    let Some(format) = format else {
        let what = "resource drain but with --no-header, --format and no targets";
        return Err(Failure::not_simulated(what));
    };
    let answer = ask(call, "flux-resource: ERROR", &Request::Drained)?;
    for (rank, drained) in answer["drain"].as_object().into_iter().flatten() {
        let reason = drained["reason"].as_str().unwrap_or_default();
        let line = format.replace("{ranks}", rank).replace("{reason}", reason);
        if line.contains('{') {
            return Err(Failure::not_simulated(&format!("format {format}")));
        }
        output::line(&line);
    }
    Ok(0)
}

/// `flux R encode`: needs no broker.
pub(crate) fn encode(call: &Call) -> Result<u8, Failure> {
    let list = "l|local c|cores= H|hosts= f|xml=! r|ranks=! g|gpus=! p|property=!";
    let parsed = call.of_subcommand("R", "encode", list)?;
    let cores = match (parsed.has("local"), parsed.value("cores")) {
        (true, Some(_)) => {
            let text = "flux-R: do not specify --cores or --gpus with --local or --xml";
            return Err(Failure::new(text));
        }
        (true, None) => Some(resources::local_cores()),
        (false, text) => idset::decode(text.unwrap_or("0")),
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
