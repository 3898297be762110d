//! Leaves secrets out of objects.

use flux_api::objects::AGENT_CONFIG_KEY;
use flux_contract::AgentConfig;
use serde_json::Value;

const LEFT_OUT: &str = "left out";
const SECRET_NAMES: [&str; 10] =
    ["TOKEN", "SECRET", "PASS", "CREDENTIAL", "KEY", "AUTH", "COOKIE", "_PWD", "DSN", "PRIVATE"];

/// Leaves out the values of a Secret, variables whose names or values look secret, the CURVE certificate, and the copies
/// of the object in its metadata.
pub(super) fn redact(object: &mut Value, is_secret: bool) {
    for key in ["data", "stringData"].iter().filter(|_| is_secret) {
        let values = object[key].as_object_mut().into_iter().flatten();
        values.for_each(|(_, value)| *value = LEFT_OUT.into());
    }
    walk(object);
}

fn walk(value: &mut Value) {
    value.as_array_mut().into_iter().flatten().for_each(walk);
    let Some(fields) = value.as_object_mut() else { return };
    fields.remove("managedFields");
    fields.remove("kubectl.kubernetes.io/last-applied-configuration");
    let name = fields.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    for (key, value) in fields {
        match (key.as_str(), &mut *value) {
            ("value", Value::String(text)) => hide(&name, text),
            ("curveCert", Value::String(text)) => LEFT_OUT.clone_into(text),
            (AGENT_CONFIG_KEY, Value::String(text)) => *text = without_secrets(text),
            ("environment", Value::Object(variables)) => {
                for (name, value) in variables {
                    if let Value::String(text) = value {
                        hide(name, text);
                    }
                }
            }
            _ => walk(value),
        }
    }
}

fn hide(name: &str, value: &mut String) {
    let name = name.to_ascii_uppercase();
    // An address may have a password.
    let has_password = value.split_once('@').is_some_and(|(user, _)| user.contains(':'));
    if has_password || SECRET_NAMES.iter().any(|part| name.contains(part)) {
        LEFT_OUT.clone_into(value);
    }
}

/// The agents' configuration; nothing of it if it is of another release.
fn without_secrets(text: &str) -> String {
    let rewritten = AgentConfig::from_toml(text).and_then(|mut config| {
        config.environment.iter_mut().for_each(|(name, value)| hide(name, value));
        config.to_toml()
    });
    // The error has a line of the text.
    rewritten.unwrap_or_else(|_| format!("# {LEFT_OUT}: it is of another release\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn secrets_are_left_out_and_the_rest_stays() {
        let config = include_str!("../../../../crates/contract/tests/golden/agent.toml");
        let config = config.replace("[environment]", "[environment]\nAPI_KEY = \"SECRET\"");
        let last = "kubectl.kubernetes.io/last-applied-configuration";
        let mut object = json!({
            "metadata": { "managedFields": [], "annotations": { last: "SECRET", "a": "kept" } },
            "spec": { "flux": { "curveCert": "SECRET" }, "containers": [{
                "environment": {
                    "API_TOKEN": "SECRET", "DB_PWD": "SECRET", "SENTRY_DSN": "SECRET", "login": "u:SECRET@host",
                    "db": "http://u:SECRET@host", "OMP": "kept",
                },
                "env": [{ "name": "my_password", "value": "SECRET" }, { "name": "A", "value": "kept" }],
            }] },
            "data": { AGENT_CONFIG_KEY: config },
        });
        redact(&mut object, false);
        let text = object.to_string();
        assert!(!text.contains("SECRET"), "{text}");
        assert_eq!((text.matches("kept").count(), text.matches("left out").count()), (3, 8));
        assert!(text.contains("two words"), "{text}");
        let mut secret = json!({ "data": { "token": "SECRET" } });
        redact(&mut secret, true);
        assert_eq!(secret["data"]["token"], "left out");
        assert!(!without_secrets("a = 1").contains("a = 1"));
    }
}
