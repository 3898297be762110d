//! `flux batch`. The script runs on the first node of its allocation, and what it submits is
//! scheduled on the allocation only, as in the instance real Flux would start for it.

use std::io::Read;

use super::Call;
use super::submit::send;
use super::submit_options::{COMMON, Shape, build, fault, integer};
use crate::failure::Failure;
use crate::options::{Argument, Choice, Parsed, long, short};
use crate::output;
use crate::text::jobid;

const BATCH: &[Choice] = &[
    short("nslots", 'n', Argument::Required),
    short("cores-per-slot", 'c', Argument::Required),
    short("gpus-per-slot", 'g', Argument::Required),
    long("wrap", Argument::None),
    long("conf", Argument::Required),
    long("broker-opts", Argument::Required),
    long("dump", Argument::Optional),
];

/// `flux batch`.
pub(crate) fn run(call: &Call) -> Result<u8, Failure> {
    let choices: Vec<Choice> = [COMMON, BATCH].concat();
    let parsed = call.python_options("batch", &choices)?;
    for option in ["gpus-per-slot", "conf", "broker-opts", "dump"] {
        if parsed.has(option) {
            return Err(Failure::not_simulated(&format!("batch --{option}")));
        }
    }
    call.refuse_in_batch("batch")?;
    let (name, script) = script(&parsed).map_err(|text| fault("batch", &text))?;
    if script.lines().any(is_directive) {
        return Err(Failure::not_simulated("directives in a batch script"));
    }
    if !script.starts_with("#!") {
        return Err(fault("batch", &format!("{name} does not appear to start with '#!'")));
    }
    let shape = shape(&parsed).map_err(|text| fault("batch", &text))?;
    let arguments = parsed.rest.iter().skip(1).cloned().collect();
    let mut spec = build(call, "batch", &parsed, arguments, shape)?;
    if !parsed.has("job-name") {
        spec.name = name;
    }
    spec.script = Some(script);
    spec.output = spec.output.or_else(|| Some("flux-{{id}}.out".to_owned()));
    let id = send(call, "batch", spec)?;
    if !parsed.has("quiet") {
        output::line(&jobid::encode_in_python(id));
    }
    Ok(0)
}

fn script(parsed: &Parsed) -> Result<(String, String), String> {
    match parsed.rest.first() {
        Some(first) if parsed.has("wrap") => {
            let line = parsed.rest.join(" ");
            Ok((first.clone(), format!("#!/bin/sh\n{line}\n")))
        }
        Some(path) => {
            let text = std::fs::read_to_string(path).map_err(|error| {
                if error.kind() == std::io::ErrorKind::InvalidData {
                    let reason = "does not appear to be a script, or failed to encode as utf-8";
                    return format!("{path} {reason}");
                }
                let number = error.raw_os_error().unwrap_or_default();
                format!("[Errno {number}] {}: '{path}'", crate::failure::strerror(&error))
            })?;
            Ok((path.clone(), text))
        }
        None => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).map_err(|error| error.to_string())?;
            let text = if parsed.has("wrap") { format!("#!/bin/sh\n{text}") } else { text };
            Ok(("batch".to_owned(), text))
        }
    }
}

/// RFC 36: `# flux: OPTIONS`.
fn is_directive(line: &str) -> bool {
    let marks = line.trim_start().trim_start_matches('#');
    let commented = line.trim_start().starts_with('#');
    commented && ["flux:", "FLUX:"].iter().any(|tag| marks.trim_start().starts_with(tag))
}

fn shape(parsed: &Parsed) -> Result<Shape, String> {
    let (slots, nodes) = (integer(parsed, "nslots")?, integer(parsed, "nodes")?);
    let cores = integer(parsed, "cores-per-slot")?.unwrap_or(1);
    match (slots, nodes) {
        (None, None) => Err("Number of slots to allocate must be specified".to_owned()),
        (None, Some(nodes)) => {
            Ok(Shape { tasks: nodes, nodes: Some(nodes), cores, exclusive: true })
        }
        (Some(slots), Some(nodes)) if nodes > slots => {
            Err("node count must not be greater than task count".to_owned())
        }
        (Some(tasks), nodes) => {
            Ok(Shape { tasks, nodes, cores, exclusive: parsed.has("exclusive") })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::parse;

    fn of(options: &str) -> Result<Shape, String> {
        let choices: Vec<Choice> = [COMMON, BATCH].concat();
        let words: Vec<String> = options.split(' ').map(str::to_owned).collect();
        shape(&parse(&words, &choices).expect("parses"))
    }

    #[test]
    fn slots_or_nodes_must_be_given() {
        let text = "Number of slots to allocate must be specified";
        assert_eq!(of("--quiet"), Err(text.to_owned()));
        let expected = Shape { tasks: 2, nodes: Some(2), cores: 1, exclusive: true };
        assert_eq!(of("-N2"), Ok(expected));
    }

    #[test]
    fn directives_are_seen() {
        assert!(is_directive("# flux: -N2"));
        assert!(is_directive("#FLUX: -N2"));
        assert!(!is_directive("# flux submit"));
        assert!(!is_directive("echo flux: x"));
    }
}
