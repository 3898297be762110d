//! `flux shutdown`.

use super::Call;
use super::connection::{ask, ask_with};
use crate::failure::Failure;
use crate::options::{Argument, long, short};
use crate::output;
use crate::protocol::{Reply, Request};

/// `flux shutdown [TARGET]`.
pub(crate) fn run(call: &Call) -> Result<u8, Failure> {
    let choices = [
        long("background", Argument::None),
        long("quiet", Argument::None),
        long("dump", Argument::Required),
        long("gc", Argument::None),
        long("skip-gc", Argument::None),
        short("verbose", 'v', Argument::Optional),
        short("yes", 'y', Argument::None),
        short("no", 'n', Argument::None),
    ];
    let parsed = call.options("shutdown", &choices)?;
    call.refuse_in_batch("shutdown")?;
    let mut environment = call.environment.clone();
    match parsed.rest.as_slice() {
        [] => {}
        [target] if target.starts_with("local://") => {
            environment.insert("FLUX_URI".to_owned(), target.clone());
        }
        _ => return Err(Failure::not_simulated("shutdown of another TARGET than a local:// URI")),
    }
    let call = Call { words: Vec::new(), environment };
    if parsed.has("gc") && (parsed.has("skip-gc") || parsed.has("dump")) {
        let text = "flux-shutdown: --gc is incompatible with --skip-gc or --dump";
        return Err(Failure::new(text));
    }
    if parsed.has("skip-gc") {
        return Err(Failure::not_simulated("shutdown --skip-gc"));
    }
    let dump = parsed.value("dump").or_else(|| parsed.has("gc").then_some("auto"));
    if let Some(path) = dump {
        set_dump(&call, path)?;
    }
    let level = match (parsed.has("quiet"), parsed.has("verbose")) {
        (true, _) => 4,
        (false, false) => 6,
        (false, true) => 7,
    };
    let request = Request::Shutdown { background: parsed.has("background"), level };
    ask_with(&call, "flux-shutdown", &request, None, &mut |reply| {
        if let Reply::Log(line) = reply {
            output::error_line(&line.plain());
        }
    })?;
    Ok(0)
}

fn set_dump(call: &Call, path: &str) -> Result<(), Failure> {
    let request = Request::SetAttribute {
        name: "content.dump".to_owned(),
        value: path.to_owned(),
        force: false,
    };
    ask(call, "flux-shutdown: setattr content.dump", &request)?;
    output::error_line(&format!(
        "flux-shutdown: shutdown will dump KVS to {path} (this may take some time)"
    ));
    Ok(())
}
