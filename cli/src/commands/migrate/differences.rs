//! Fields that are accepted but mean something else than for the operator in Go.

use serde_json::Value;

/// The path of a field, and what was changed or what differs.
pub(super) type FieldNote = (String, String);

/// The note for MiniClusters that do not choose a user.
const OTHER_USER: &str = "in containers that start as root, Flux and the command run as the user flux: \
if the command writes to files of root, set commands.runFluxAsRoot to true, or name a fluxUser";

/// A field, whether it means something else, and what.
type Rule = (&'static str, fn(&Value) -> bool, &'static str);

const OF_SPECIFICATION: &[Rule] = &[
    (
        "backoffLimit",
        |spec| spec["backoffLimit"].is_null(),
        "a failed command is not run again; Go ran it up to 100 times: set backoffLimit to repeat it",
    ),
    (
        "logging.strict",
        |spec| spec["logging"]["strict"].is_null() && containers(spec).any(|(_, it)| has_hooks(it)),
        "defaults to true: a failed hook ends the run",
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
        "wraps only the brokers, not the command",
    ),
    ("flux.logLevel", |spec| spec["flux"]["logLevel"] == 0, "0 is used; Go used its default"),
    (
        "flux.brokerConfig",
        |spec| mentions(&spec["flux"]["brokerConfig"], "/mnt/flux/view"),
        "the files are now /mnt/flux/config/curve/curve.cert and /mnt/flux/config/etc/flux/system/R",
    ),
    (
        "pod.resources",
        |spec| is_given(&spec["pod"]["resources"]),
        "sets the resources of the pod; Go used it as the overhead of the pod",
    ),
    (
        "pod.securityContext",
        |spec| {
            spec["pod"]["securityContext"]
                .as_object()
                .is_some_and(|it| it.keys().any(|key| key != "fsGroup"))
        },
        "all fields are used; Go used only fsGroup",
    ),
];

const OF_EVERY_CONTAINER: &[Rule] = &[
    (
        "lifeCycle",
        |container| is_given(&container["lifeCycle"]),
        "its commands may have arguments; Go used each command as one word",
    ),
    (
        "volumes",
        |container| {
            container["volumes"]
                .as_object()
                .is_some_and(|all| all.values().any(is_empty_directory_at_path))
        },
        "an emptyDir is mounted at its path; Go mounted it at /dev/shm",
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
        "the lines are a script for sh, not bash; comments are ignored, and a line that is not a complete command is \
         refused",
    ),
    (
        "securityContext.capabilities.add",
        |container| {
            let context = &container["securityContext"];
            is_given(&context["capabilities"]["add"]) || is_given(&context["addCapabilities"])
        },
        "Flux's user has these capabilities too",
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
        "without a command the image's entrypoint runs; Go ran nothing",
    ),
    (
        "command",
        |container| mentions(container, "/mnt/flux") || mentions(container, "/opt/software"),
        "/mnt/flux and /opt/software are read-only: share files in a volume",
    ),
];

pub(super) fn differences(specification: &Value) -> Vec<FieldNote> {
    let mut notes = Vec::new();
    apply("spec", specification, OF_SPECIFICATION, &mut notes);
    let count = specification["containers"].as_array().map_or(0, Vec::len);
    for (index, (path, container)) in containers(specification).enumerate() {
        apply(&path, container, OF_EVERY_CONTAINER, &mut notes);
        // The containers come before the services, which run in a pod of their own.
        if index < count {
            let runs_flux = container["runFlux"] == true
                || (container["runFlux"].is_null() && is_the_only_one(specification, index));
            let rules = if runs_flux { OF_RUNNER } else { OF_SIDECARS };
            apply(&path, container, rules, &mut notes);
        }
        if index + 1 < count && is_given(&container["volumes"]) {
            let message = "mounted only in this container; Go also mounted them in all later ones";
            notes.push((format!("{path}.volumes"), message.to_owned()));
        }
        if mentions(container, "/flux_operator/") {
            let message = "/flux_operator does not exist; the certificate is /mnt/flux/config/curve/curve.cert";
            notes.push((path, message.to_owned()));
        }
    }
    notes
}

fn apply(path: &str, value: &Value, rules: &[Rule], notes: &mut Vec<FieldNote>) {
    let rules = rules.iter().filter(|(_, differs, _)| differs(value));
    notes.extend(
        rules.map(|(field, _, message)| (format!("{path}.{field}"), (*message).to_owned())),
    );
}

fn is_the_only_one(specification: &Value, index: usize) -> bool {
    let mut all = specification["containers"].as_array().into_iter().flatten().enumerate();
    all.all(|(other, container)| other == index || container["runFlux"] == false)
}

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

/// The pointer (RFC 6901) to the field at `path`, e.g. `spec.containers[0].commands.pre`. Names with dots do not occur
/// among the fields that are corrected or removed.
pub(super) fn pointer(path: &str) -> String {
    let parts = path.split(['.', '[', ']']).filter(|part| !part.is_empty());
    parts.flat_map(|part| ["/", part]).collect()
}

pub(super) fn mentions(value: &Value, word: &str) -> bool {
    match value {
        Value::String(text) => text.contains(word),
        Value::Array(items) => items.iter().any(|item| mentions(item, word)),
        Value::Object(fields) => fields.values().any(|field| mentions(field, word)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

pub(super) fn containers(specification: &Value) -> impl Iterator<Item = (String, &Value)> {
    ["containers", "services"].into_iter().flat_map(|list| {
        let all = specification[list].as_array().into_iter().flatten().enumerate();
        all.map(move |(index, container)| (format!("spec.{list}[{index}]"), container))
    })
}
