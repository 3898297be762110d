//! The formats in which `kubectl get` prints whole objects.

use crate::minicluster::FULL_KIND;
use crate::output::{self, print, table};
use anyhow::Result;
use clap::{Args, ValueEnum};
use jsonpath_rust::JsonPath as _;
use jsonpath_rust::parser::parse_json_path;
use kube::ResourceExt as _;
use kube::core::DynamicObject;
use serde_json::{Value, json};

#[derive(Debug, Clone, Args)]
pub(crate) struct ObjectFormat {
    /// Format of the output: json, yaml, wide, name, jsonpath=TEMPLATE or custom-columns=HEADER:PATH,...
    #[arg(long, short, value_name = "FORMAT", value_parser = format)]
    output: Option<Format>,
    /// Print metadata.managedFields, too
    #[arg(long)]
    show_managed_fields: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Format {
    Whole(output::Format),
    Wide,
    Template(Vec<Part>),
    Columns(Vec<(String, Path)>),
}

fn format(text: &str) -> Result<Format, String> {
    Ok(match text.split_once('=').unwrap_or((text, "")) {
        ("wide", "") => Format::Wide,
        ("jsonpath", template) => Format::Template(parts(&mut &*template, false)?),
        ("custom-columns", columns) => {
            let columns = columns.split(',').map(|column| {
                let (header, path) = column.split_once(':').ok_or("give HEADER:PATH,...")?;
                Ok((header.to_owned(), Path::parse(path)?))
            });
            Format::Columns(columns.collect::<Result<_, String>>()?)
        }
        _ => Format::Whole(ValueEnum::from_str(text, false).map_err(|_| {
            "give json, yaml, wide, name, jsonpath=... or custom-columns=...".to_owned()
        })?),
    })
}

impl ObjectFormat {
    pub(crate) fn is_wide(&self) -> bool {
        self.output == Some(Format::Wide)
    }

    pub(crate) fn is_text(&self) -> bool {
        self.output.is_none() || self.is_wide()
    }

    /// Prints `objects`, as a list or as the only one, unless the format is text, which the caller prints.
    pub(crate) fn print(&self, objects: &[DynamicObject], is_list: bool) -> Result<()> {
        let values = objects.iter().map(|object| {
            let mut object = object.clone();
            object.metadata.managed_fields.take_if(|_| !self.show_managed_fields);
            json!(object)
        });
        let mut items: Vec<Value> = values.collect();
        let whole = match items.pop_if(|_| !is_list) {
            Some(only) => only,
            None => json!({ "apiVersion": "v1", "kind": "List", "items": items }),
        };
        match &self.output {
            Some(Format::Whole(format)) => {
                let names = objects.iter().map(|it| format!("{FULL_KIND}/{}", it.name_any()));
                format.print(&whole, names)?;
            }
            Some(Format::Template(parts)) => print(&text(parts, &whole)),
            Some(Format::Columns(columns)) => {
                let headers: Vec<&str> = columns.iter().map(|(header, _)| &**header).collect();
                let cell = |path: &Path, object: &DynamicObject| {
                    Some(path.text(&json!(object), ",")).filter(|text| !text.is_empty())
                };
                let rows = objects.iter().map(|object| {
                    let cells = columns.iter().map(|(_, path)| cell(path, object));
                    cells.map(|cell| cell.unwrap_or_else(|| "<none>".to_owned())).collect()
                });
                print(&table(&headers, rows));
            }
            Some(Format::Wide) | None => {}
        }
        Ok(())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Values(Path),
    Range(Path, Vec<Self>),
}

/// Reads parts to the end of `template`, or of the range that they are in.
fn parts(template: &mut &str, in_range: bool) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    while let Some((plain, rest)) = template.split_once('{') {
        parts.push(Part::Text(plain.to_owned()));
        let (inner, rest) = rest.split_once('}').ok_or("a { has no }")?;
        *template = rest;
        parts.push(match inner.strip_prefix("range ") {
            _ if inner == "end" && in_range => return Ok(parts),
            Some(path) => Part::Range(Path::parse(path)?, self::parts(template, true)?),
            None if inner.starts_with('"') => {
                Part::Text(serde_json::from_str(inner).map_err(|error| error.to_string())?)
            }
            None => Part::Values(Path::parse(inner)?),
        });
    }
    parts.push(Part::Text(template.to_owned()));
    if in_range { Err("a {range} has no {end}".to_owned()) } else { Ok(parts) }
}

fn text(parts: &[Part], value: &Value) -> String {
    let texts = parts.iter().map(|part| match part {
        Part::Text(text) => text.clone(),
        Part::Values(path) => path.text(value, " "),
        Part::Range(Path(path), parts) => {
            value.query(path).iter().flatten().map(|it| text(parts, it)).collect()
        }
    });
    texts.collect()
}

/// A path to values, in the syntax of RFC 9535.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Path(String);

impl Path {
    /// Reads a path of kubectl: with or without braces and the first dot, and with `\.` in names.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        // Characters that no path has stand for the dots that end no name.
        let text =
            text.trim_matches(['{', '}', ' ']).replace(r"\.", "\u{1}").replace("@.", "\u{2}");
        let text = text.trim_start_matches(['$', '@']);
        let names = text.strip_prefix('.').unwrap_or(text).split('.').map(|part| {
            let (name, brackets) = part.split_at(part.find('[').unwrap_or(part.len()));
            match (name, brackets) {
                ("", "") => "..".to_owned(),
                ("", _) => brackets.to_owned(),
                ("*", _) => format!("[*]{brackets}"),
                _ => format!("['{name}']{brackets}"),
            }
        });
        let path = if text.is_empty() { String::new() } else { names.collect() };
        let path = format!("${path}").replace('\u{1}', ".").replace('\u{2}', "@.");
        match parse_json_path(&path) {
            Ok(_) => Ok(Self(path)),
            Err(_) => Err(format!("{path} is no path: write e.g. .metadata.name")),
        }
    }

    pub(crate) fn text(&self, value: &Value, separator: &str) -> String {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        value.query(&self.0).into_iter().flatten().map(text).collect::<Vec<_>>().join(separator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_those_of_kubectl() {
        let conditions = json!([{ "type": "Ready", "status": "True" }, { "type": "X", "n": 1 }]);
        let one =
            json!({ "metadata": { "name": "a", "labels": { "x.y/z": "1" } }, "all": conditions });
        let list = json!({ "items": [one, { "metadata": { "name": "b" } }] });
        for (template, expected) in [
            ("{.items[*].metadata.name}", "a b"),
            ("{$.items[0].metadata.name}-x", "a-x"),
            (r#"{range .items[*]}{.metadata.name}{"\n"}{end}."#, "a\nb\n."),
            (r"{.items[*].metadata.labels.x\.y/z}", "1"),
            (r#"{.items[0].all[?(@.type=="Ready")].status}"#, "True"),
            ("{.items[1].nothing}{..status}", "True"),
            ("{.items[0].all[1]}", r#"{"n":1,"type":"X"}"#),
        ] {
            let parts = parts(&mut &*template, false);
            assert_eq!(
                parts.map(|parts| text(&parts, &list)),
                Ok(expected.to_owned()),
                "{template}"
            );
        }
        for wrong in ["jsonpath={.a", "jsonpath={range .a}x", "jsonpath={.a[}", "x", "json=y"] {
            assert!(format(wrong).is_err(), "{wrong}");
        }
    }
}
