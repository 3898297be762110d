//! `flux batch`. The script runs on the first node of its allocation, and what it submits is
//! scheduled on the allocation only, as in the instance real Flux would start for it.

use super::Call;
use super::submit::send;
use super::submit_options::{COMMON, Shape, build, fault, integer};
use crate::failure::{Failure, strerror};
use crate::options::Parsed;
use crate::output;
use crate::text::jobid;

const OPTIONS: &str =
    "n|nslots= c|cores-per-slot= g|gpus-per-slot=! wrap! conf=! broker-opts=! dump?!";

/// `flux batch`.
pub(crate) fn run(call: &Call) -> Result<u8, Failure> {
    let parsed = call.options("batch", &format!("{COMMON} {OPTIONS}"))?;
    call.refuse_in_batch("batch")?;
    let (name, script) = script(&parsed)?;
    if script.lines().any(is_directive) {
        return Err(Failure::not_simulated("directives in a batch script"));
    }
    if !script.starts_with("#!") {
        return Err(fault("batch", &format!("{name} does not appear to start with '#!'")));
    }
    let shape = shape(&parsed)?;
    let mut spec = build(call, "batch", &parsed, parsed.rest[1..].to_vec(), shape)?;
    spec.name = name;
    spec.script = Some(script);
    spec.output = spec.output.or_else(|| Some("flux-{{id}}.out".to_owned()));
    let id = send(call, "batch", spec)?;
    if !parsed.has("quiet") {
        output::line(&jobid::encode_in_python(id));
    }
    Ok(0)
}

/// Name and text of the script.
fn script(parsed: &Parsed) -> Result<(String, String), Failure> {
    let Some(path) = parsed.rest.first() else {
        return Err(Failure::not_simulated("batch with a script on standard input"));
    };
    let text = std::fs::read_to_string(path)
        .map_err(|error| fault("batch", &format!("{}: '{path}'", strerror(&error))))?;
    Ok((path.clone(), text))
}

/// RFC 36: `# flux: OPTIONS`.
fn is_directive(line: &str) -> bool {
    let marks = line.trim_start().trim_start_matches('#');
    let commented = line.trim_start().starts_with('#');
    commented && ["flux:", "FLUX:"].iter().any(|tag| marks.trim_start().starts_with(tag))
}

fn shape(parsed: &Parsed) -> Result<Shape, Failure> {
    let (slots, nodes) = (integer("batch", parsed, "nslots")?, integer("batch", parsed, "nodes")?);
    let cores = integer("batch", parsed, "cores-per-slot")?.unwrap_or(1);
    let exclusive = slots.is_none();
    let Some(tasks) = slots.or(nodes) else {
        return Err(fault("batch", "Number of slots to allocate must be specified"));
    };
    Shape { tasks, nodes, cores, exclusive }.checked("batch")
}
