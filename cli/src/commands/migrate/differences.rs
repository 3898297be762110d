//! What is accepted and means something else than with the operator in Go.

use super::Said;
use super::place::{containers, mentions};
use serde_json::Value;

/// Where Flux's own user matters: nobody chose another.
const OTHER_USER: &str = "Flux and the command run as the user flux, not as root, when the container starts as root: \
where the command writes to what belongs to root, set commands.runFluxAsRoot to true, or name a fluxUser";

/// A field, when it means something else, and what.
type Rule = (&'static str, fn(&Value) -> bool, &'static str);

const OF_SPECIFICATION: &[Rule] = &[
    (
        "backoffLimit",
        |spec| spec["backoffLimit"].is_null(),
        "a failed command is a failure and is not run again; Go ran it up to 100 times: set it to repeat commands",
    ),
    (
        "logging.strict",
        |spec| spec["logging"]["strict"].is_null() && containers(spec).any(|(_, it)| has_hooks(it)),
        "is true unless given: a hook that fails ends the run",
    ),
    (
        "interactive",
        |spec| {
            spec["interactive"] == true && containers(spec).any(|(_, it)| is_given(&it["command"]))
        },
        "the command is submitted once; Go ignored it",
    ),
    (
        "flux.wrap",
        |spec| is_given(&spec["flux"]["wrap"]),
        "wraps the brokers alone, not the command",
    ),
    ("flux.logLevel", |spec| spec["flux"]["logLevel"] == 0, "is 0; Go took its default"),
    (
        "flux.brokerConfig",
        |spec| mentions(&spec["flux"]["brokerConfig"], "/mnt/flux/view"),
        "the files that it names are below /mnt/flux/config: curve/curve.cert and etc/flux/system/R",
    ),
    (
        "pod.resources",
        |spec| is_given(&spec["pod"]["resources"]),
        "are the pod's own; Go took them for the pod's overhead",
    ),
    (
        "pod.securityContext",
        |spec| {
            spec["pod"]["securityContext"]
                .as_object()
                .is_some_and(|it| it.keys().any(|key| key != "fsGroup"))
        },
        "is taken whole; Go took fsGroup alone",
    ),
];

const OF_EVERY_CONTAINER: &[Rule] = &[
    (
        "lifeCycle",
        |container| is_given(&container["lifeCycle"]),
        "its commands may have arguments; Go took each for one word",
    ),
    (
        "volumes",
        |container| {
            container["volumes"]
                .as_object()
                .is_some_and(|all| all.values().any(is_empty_directory_at_path))
        },
        "an emptyDir is at its path; Go mounted it at /dev/shm",
    ),
];

const OF_RUNNER: &[Rule] = &[
    ("commands.runFluxAsRoot", starts_as_flux, OTHER_USER),
    (
        "command",
        |container| mentions(&container["command"], "\\"),
        "runs as it is written: remove escapes that only Go needed",
    ),
    (
        "batch",
        |container| container["batch"] == true && container["batchRaw"] != true,
        "the lines are a script for sh, not for bash; comments are ignored, and a line that is no whole command is \
         refused",
    ),
    (
        "securityContext.capabilities.add",
        |container| {
            let context = &container["securityContext"];
            is_given(&context["capabilities"]["add"]) || is_given(&context["addCapabilities"])
        },
        "Flux's user has them too",
    ),
];

const OF_SIDECARS: &[Rule] = &[
    (
        "command",
        |container| {
            !is_given(&container["command"])
                && !has_hooks(container)
                && container["noWrapEntrypoint"] != true
        },
        "there is none, so the image's entrypoint runs; Go ran nothing",
    ),
    (
        "command",
        |container| mentions(container, "/mnt/flux") || mentions(container, "/opt/software"),
        "/mnt/flux and /opt/software are read-only here: share files in a volume of your own",
    ),
];

/// What of the specification means something else than with Go, by path.
pub(super) fn differences(specification: &Value) -> Vec<Said> {
    let mut said = Vec::new();
    say("spec", specification, OF_SPECIFICATION, &mut said);
    let count = specification["containers"].as_array().map_or(0, Vec::len);
    for (index, (path, container)) in containers(specification).enumerate() {
        say(&path, container, OF_EVERY_CONTAINER, &mut said);
        // The containers come before the services, which are pods of their own.
        if index < count {
            let runs_flux = container["runFlux"] == true
                || (container["runFlux"].is_null() && is_the_only_one(specification, index));
            let rules = if runs_flux { OF_RUNNER } else { OF_SIDECARS };
            say(&path, container, rules, &mut said);
        }
        if index + 1 < count && is_given(&container["volumes"]) {
            let words = "are mounted in this container; Go mounted them in all later ones, too";
            said.push((format!("{path}.volumes"), words.to_owned()));
        }
        if mentions(container, "/flux_operator/") {
            let words =
                "there is no /flux_operator; the certificate is /mnt/flux/config/curve/curve.cert";
            said.push((path, words.to_owned()));
        }
    }
    said
}

fn say(path: &str, value: &Value, rules: &[Rule], said: &mut Vec<Said>) {
    let rules = rules.iter().filter(|(_, differs, _)| differs(value));
    said.extend(rules.map(|(field, _, words)| (format!("{path}.{field}"), (*words).to_owned())));
}

/// Flux is run by this container because no other may.
fn is_the_only_one(specification: &Value, index: usize) -> bool {
    let mut all = specification["containers"].as_array().into_iter().flatten().enumerate();
    all.all(|(other, container)| other == index || container["runFlux"] == false)
}

/// True if it says something.
fn is_given(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => true,
    }
}

fn has_hooks(container: &Value) -> bool {
    let names =
        ["init", "pre", "brokerPre", "preBroker", "workerPre", "preWorker", "servicePre", "post"];
    is_given(&container["preCommand"])
        || names.iter().any(|name| is_given(&container["commands"][name]))
}

fn starts_as_flux(container: &Value) -> bool {
    container["commands"]["runFluxAsRoot"] != true
        && container["fluxUser"].is_null()
        && container["fluxuser"].is_null()
}

fn is_empty_directory_at_path(volume: &Value) -> bool {
    volume["emptyDir"] == true && is_given(&volume["path"])
}
