//! Jobspecs (RFC 25).

use crate::protocol::JobSpec;
use serde_json::{Value, json};

/// The job of a `jobspec` of nodes, slots and cores; `None` if the jobspec has anything else.
pub(crate) fn job(jobspec: &Value) -> Option<JobSpec> {
    let number = |value: &Value| usize::try_from(value.as_u64()?).ok();
    let (resource, task) = (&jobspec["resources"][0], &jobspec["tasks"][0]);
    let system = &jobspec["attributes"]["system"];
    let nodes = number(&resource["count"]).filter(|_| resource["type"] == "node");
    let slots = number(if nodes.is_some() { &resource["with"][0] } else { resource }.get("count")?);
    let (slots, total) = (slots?, number(&task["count"]["total"]));
    let command: Vec<String> = serde_json::from_value(task["command"].clone()).ok()?;
    let spec = JobSpec {
        name: program_name(command.first()?).to_owned(),
        command,
        tasks: total.unwrap_or_else(|| slots * nodes.unwrap_or(1)),
        nodes,
        exclusive: resource["exclusive"] == true,
        directory: system["cwd"].as_str()?.to_owned(),
        environment: serde_json::from_value(system["environment"].clone()).ok()?,
        ..JobSpec::default()
    };
    let core = json!({ "type": "core", "count": 1 });
    let mut known = json!({ "type": "slot", "count": slots, "with": [core], "label": "task" });
    if nodes.is_some() {
        known = json!({ "type": "node", "count": nodes, "with": [known] });
    }
    if spec.exclusive {
        known["exclusive"] = true.into();
    }
    let count = total.map_or_else(|| json!({ "per_slot": 1 }), |total| json!({ "total": total }));
    let options = &system["shell"]["options"];
    let known = json!({
        "resources": [known],
        "tasks": [{ "command": spec.command, "slot": "task", "count": count }],
        "attributes": { "system": {
            "duration": 0,
            "environment": spec.environment,
            "cwd": spec.directory,
            "shell": { "options": options },
        } },
        "version": 1,
    });
    (known == *jobspec && options.as_object()?.keys().all(|name| name == "rlimit")).then_some(spec)
}

/// The name of a job whose submission has none.
pub(crate) fn program_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or_default()
}
