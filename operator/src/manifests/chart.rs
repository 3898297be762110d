//! A Helm chart: the objects of an installation with Helm's expressions in the place of what the values
//! decide.

use super::images::{ImageNames, PROJECT};
use super::installation::{Installation, NAME};
use super::objects::{Object, Part, documents, objects};
use super::{File, HEADER, ManifestError};
use crate::crd::Install;
use clap::{Args as _, ValueEnum as _};
use serde_json::{Map, Value, json};

/// First line of a template: the header, where Helm does not take it for an object.
const COMMENT: &str =
    "{{- /* Written by `flux-operator manifests`; changes here are lost. */ -}}\n";

/// Longest line of a comment.
const WIDTH: usize = 100;

/// What templates have in the place of a text of the objects. In the objects, `__key__` stands for the
/// value `key`; whole lines come first, then values that are all of a text, then those within one.
const EXPRESSIONS: &[(&str, &str)] = &[
    ("  replicas: 2\n", "  replicas: {{ ternary 2 1 .Values.podDisruptionBudget }}\n"),
    (
        "        - --namespace=__watchNamespace__\n",
        "        {{- with .Values.watchNamespace }}\n        - --namespace={{ . }}\n        {{- end }}\n",
    ),
    (
        "      imagePullSecrets:\n      - name: __imagePullSecrets__\n",
        "      {{- with .Values.imagePullSecrets }}\n      imagePullSecrets:\n      {{- range . }}\n      - name: {{ . | quote }}\n      {{- end }}\n      {{- end }}\n",
    ),
    ("--install=Auto", "--install={{ .Values.install }}"),
    (": __namespace__", ": {{ .Release.Namespace | quote }}"),
    (": __watchNamespace__", ": {{ .Values.watchNamespace | quote }}"),
    (
        ": __operatorImage__",
        ": {{ include \"flux-operator.image\" (list .Values.registry .Values.operatorImage) | quote }}",
    ),
    (
        "=__agentImage__",
        "={{ include \"flux-operator.image\" (list .Values.registry .Values.agentImage) }}",
    ),
    (
        "=__viewImage__",
        "={{ include \"flux-operator.image\" (list .Values.registry .Values.viewImage) }}",
    ),
];

/// The chart whose default values are those of `installation`.
pub(super) fn files(installation: &Installation) -> Result<Vec<File>, ManifestError> {
    let everywhere = objects(&in_expressions())?;
    let watched = Some(marker("watchNamespace"));
    let one = objects(&Installation { watch_namespace: watched, ..in_expressions() })?;
    let text = |name: &str, text: String| (name.to_owned(), text);
    let helpers = include_str!("chart/_helpers.tpl").replace("PROJECT", PROJECT);
    let definition = documents(&everywhere, &[Part::Definition]);
    Ok(vec![
        text("Chart.yaml", chart()?),
        text("values.yaml", values_file(installation)),
        text("values.schema.json", format!("{:#}\n", schema(installation))),
        text("crds/crd.yaml", format!("{HEADER}{definition}")),
        text("templates/NOTES.txt", include_str!("chart/NOTES.txt").to_owned()),
        text("templates/_helpers.tpl", helpers),
        template(&everywhere, Part::UserRoles, Some("not .Values.watchNamespace")),
        template(&everywhere, Part::ClusterRole, Some("not .Values.watchNamespace")),
        template(&one, Part::Role, Some(".Values.watchNamespace")),
        template(&one, Part::Operator, None),
        template(&one, Part::PodDisruptionBudget, Some(".Values.podDisruptionBudget")),
        template(&one, Part::NetworkPolicy, Some(".Values.networkPolicy")),
        template(&one, Part::ServiceMonitor, Some(".Values.serviceMonitor")),
    ])
}

/// An installation with everything, and a marker for each value.
fn in_expressions() -> Installation {
    Installation {
        namespace: Some(marker("namespace")),
        watch_namespace: None,
        images: ImageNames {
            registry: None,
            operator_image: marker("operatorImage"),
            agent_image: marker("agentImage"),
            view_image: marker("viewImage"),
        },
        image_pull_secrets: vec![marker("imagePullSecrets")],
        install: Some(Install::Auto),
        pod_disruption_budget: true,
        network_policy: true,
        service_monitor: true,
    }
}

fn marker(key: &str) -> String {
    format!("__{key}__")
}

/// The template of one part, which is there if `condition` holds.
fn template(objects: &[Object], part: Part, condition: Option<&str>) -> File {
    let mut text = documents(objects, &[part]);
    for (object, expression) in EXPRESSIONS {
        text = text.replace(object, expression);
    }
    let text = match condition {
        Some(condition) => format!("{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n"),
        None => text,
    };
    (format!("templates/{}.yaml", part.name()), format!("{COMMENT}{text}"))
}

fn chart() -> Result<String, ManifestError> {
    let version = env!("CARGO_PKG_VERSION");
    let chart = json!({
        "apiVersion": "v2",
        "name": NAME,
        "description": "Runs Flux on Kubernetes: makes a Flux instance of each MiniCluster",
        "type": "application",
        "version": version,
        "appVersion": version,
        "kubeVersion": ">=1.33.0-0",
    });
    let text = serde_saphyr::to_string(&chart);
    let text = text.map_err(|source| ManifestError::Write { part: "Chart.yaml", source })?;
    Ok(format!("{HEADER}{}\n", text.trim_end()))
}

/// The values of the chart: key, option of the command line with the same meaning, default. The namespace
/// of the operator is Helm's own to decide.
fn values(installation: &Installation) -> Vec<(&'static str, &'static str, Value)> {
    let Installation {
        namespace: _,
        watch_namespace,
        images: ImageNames { registry, operator_image, agent_image, view_image },
        image_pull_secrets,
        install,
        pod_disruption_budget,
        network_policy,
        service_monitor,
    } = installation;
    let install = format!("{:?}", install.unwrap_or_default());
    vec![
        (
            "watchNamespace",
            "watch_namespace",
            json!(watch_namespace.as_deref().unwrap_or_default()),
        ),
        ("registry", "registry", json!(registry.as_deref().unwrap_or_default())),
        ("operatorImage", "operator_image", json!(operator_image)),
        ("agentImage", "agent_image", json!(agent_image)),
        ("viewImage", "view_image", json!(view_image)),
        ("imagePullSecrets", "image_pull_secrets", json!(image_pull_secrets)),
        ("install", "install", json!(install)),
        ("podDisruptionBudget", "pod_disruption_budget", json!(pod_disruption_budget)),
        ("networkPolicy", "network_policy", json!(network_policy)),
        ("serviceMonitor", "service_monitor", json!(service_monitor)),
    ]
}

/// What the command line says about an option.
fn help(option: &str) -> String {
    let command = Installation::augment_args(clap::Command::new("values"));
    let argument = command.get_arguments().find(|argument| argument.get_id().as_str() == option);
    let help = argument.and_then(|it| it.get_long_help().or_else(|| it.get_help()));
    help.map(ToString::to_string).unwrap_or_default()
}

fn values_file(installation: &Installation) -> String {
    let entry = |(key, option, value): (&str, &str, Value)| {
        format!("\n{}{key}: {value}\n", comment(&help(option)))
    };
    let entries: String = values(installation).into_iter().map(entry).collect();
    format!("{HEADER}{entries}")
}

/// `text` as lines of a comment.
fn comment(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) | None => lines.push(format!("# {word}")),
        }
    }
    lines.join("\n") + "\n"
}

/// Which values there are, and of which form; others are faults.
fn schema(installation: &Installation) -> Value {
    let mut properties = Map::new();
    // What Helm gives to a chart that is part of another.
    properties.insert("global".to_owned(), json!({ "type": "object" }));
    for (key, option, value) in values(installation) {
        let mut schema = form(key, &value);
        schema["description"] = json!(help(option));
        properties.insert(key.to_owned(), schema);
    }
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
    })
}

fn form(key: &str, default: &Value) -> Value {
    let name = json!({ "type": "string", "minLength": 1 });
    match key {
        "install" => {
            let methods = Install::value_variants().iter().map(|method| format!("{method:?}"));
            json!({ "enum": methods.collect::<Vec<_>>() })
        }
        "registry" => json!({ "type": "string" }),
        "watchNamespace" => json!({
            "type": "string",
            "maxLength": 63,
            "pattern": "^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$",
        }),
        _ if default.is_boolean() => json!({ "type": "boolean" }),
        _ if default.is_array() => json!({ "type": "array", "items": name }),
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_explained_and_used() {
        let files = files(&Installation::default()).unwrap();
        let templates = files.iter().filter(|(name, _)| name.starts_with("templates/"));
        let templates: String = templates.map(|(_, text)| text.as_str()).collect();
        for (key, option, _) in values(&Installation::default()) {
            assert!(!help(option).is_empty(), "{option}");
            let used =
                [' ', ')'].iter().any(|end| templates.contains(&format!(".Values.{key}{end}")));
            assert!(used, "{key}");
        }
    }

    #[test]
    fn nothing_in_a_template_waits_for_an_expression() {
        for (name, text) in files(&Installation::default()).unwrap() {
            assert!(!text.contains("__"), "{name}");
            assert_eq!(text.matches("{{").count(), text.matches("}}").count(), "{name}");
            assert!(name.starts_with("templates/") || !text.contains("{{"), "{name}");
        }
    }

    #[test]
    fn comments_are_broken_between_words() {
        let words = "word ".repeat(30);
        let comment = comment(&words);
        assert!(comment.lines().count() == 2 && comment.lines().all(|line| line.len() <= WIDTH));
        assert_eq!(comment.matches("word").count(), 30);
    }
}
