//! Finding, reading and merging configuration files.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::failure::strerror;

/// The configuration at `path`: one file (TOML, or JSON by its suffix) or a directory of
/// `*.toml`, merged in name order. The error is Flux's text after `Config file error: `.
pub(crate) fn from_path(path: &str) -> Result<Value, String> {
    let found =
        std::fs::metadata(path).map_err(|error| format!("stat: {path}: {}", strerror(&error)))?;
    let mut config = Value::Object(Map::new());
    if !found.is_dir() {
        merge(&mut config, read_file(Path::new(path))?);
        return Ok(config);
    }
    let entries =
        std::fs::read_dir(path).map_err(|error| format!("{path}: {}", strerror(&error)))?;
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|file| file.extension().is_some_and(|suffix| suffix == "toml"))
        .filter(|file| {
            file.file_name().is_some_and(|name| !name.as_encoded_bytes().starts_with(b"."))
        })
        .collect();
    files.sort();
    for file in files {
        merge(&mut config, read_file(&file)?);
    }
    Ok(config)
}

/// Applies one `--conf` value: `KEY=VAL`, multi-line TOML or JSON text, or a file path.
/// The error is Flux's text after `--conf: `.
pub(crate) fn apply(config: &mut Value, value: &str) -> Result<(), String> {
    let json = value.trim_start().starts_with('{');
    if (value.contains('\n') && json) || value.starts_with('{') {
        let update: Value =
            serde_json::from_str(value).map_err(|error| format!("inline JSON: {error}"))?;
        merge(config, update);
    } else if value.contains('\n') {
        let update = parse_toml(value).map_err(|(line, text)| format!("line {line}: {text}"))?;
        merge(config, update);
    } else if let Some((key, text)) = value.split_once('=') {
        if key.is_empty() {
            return Err("value must have a key in KEY=VAL".to_owned());
        }
        let leaf = serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()));
        let update = key.rsplit('.').fold(leaf, |inner, part| serde_json::json!({ part: inner }));
        merge(config, update);
    } else {
        merge(config, read_file(Path::new(value))?);
    }
    Ok(())
}

fn read_file(path: &Path) -> Result<Value, String> {
    let name = path.display();
    let text =
        std::fs::read_to_string(path).map_err(|error| format!("{name}: {}", strerror(&error)))?;
    if path.extension().is_some_and(|suffix| suffix == "json") {
        let value: Value = serde_json::from_str(&text)
            .map_err(|error| format!("{name}:{}: {error}", error.line()))?;
        if !value.is_object() {
            return Err(format!("{name}: JSON must be an object"));
        }
        return Ok(value);
    }
    parse_toml(&text).map_err(|(line, error)| format!("{name}:{line}: {error}"))
}

/// Parses TOML; the error is the line and what is wrong with it.
fn parse_toml(text: &str) -> Result<Value, (usize, String)> {
    let table: toml::Table = toml::from_str(text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        let line = text[..start.min(text.len())].matches('\n').count() + 1;
        let duplicate = error.message().starts_with("duplicate key");
        let key = text.lines().nth(line - 1).and_then(|line| line.split('=').next());
        match key {
            Some(key) if duplicate => (line, format!("key {} exists", key.trim())),
            _ => (line, error.message().trim().replace('\n', ", ")),
        }
    })?;
    Ok(to_json(toml::Value::Table(table)))
}

fn to_json(value: toml::Value) -> Value {
    match value {
        toml::Value::String(text) => Value::String(text),
        toml::Value::Integer(number) => Value::from(number),
        toml::Value::Float(number) => Value::from(number),
        toml::Value::Boolean(flag) => Value::Bool(flag),
        toml::Value::Datetime(time) => Value::String(time.to_string()),
        toml::Value::Array(items) => Value::Array(items.into_iter().map(to_json).collect()),
        toml::Value::Table(table) => {
            Value::Object(table.into_iter().map(|(key, item)| (key, to_json(item))).collect())
        }
    }
}

/// Merges tables key by key; everything else is replaced.
fn merge(into: &mut Value, update: Value) {
    match (into, update) {
        (Value::Object(old), Value::Object(new)) => {
            for (key, value) in new {
                merge(old.entry(key).or_insert(Value::Null), value);
            }
        }
        (slot, value) => *slot = value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_files_are_merged_into_earlier_ones() {
        let folder = tempfile::tempdir().expect("temporary directory");
        std::fs::write(folder.path().join("a.toml"), "[x]\na = 1\nb = 2\n").expect("writes");
        std::fs::write(folder.path().join("b.toml"), "[x]\nb = 3\n").expect("writes");
        std::fs::write(folder.path().join("ignored.txt"), "not toml").expect("writes");
        let config = from_path(&folder.path().to_string_lossy()).expect("loads");
        assert_eq!(config, serde_json::json!({"x": {"a": 1, "b": 3}}));
    }

    #[test]
    fn faults_name_file_and_line() {
        let folder = tempfile::tempdir().expect("temporary directory");
        let file = folder.path().join("a.toml");
        std::fs::write(&file, "[x]\na = 1\na = 2\n").expect("writes");
        let error = from_path(&file.to_string_lossy()).expect_err("refused");
        assert_eq!(error, format!("{}:3: key a exists", file.display()));
        assert!(from_path("/nowhere").expect_err("refused").starts_with("stat: /nowhere: No such"));
    }

    #[test]
    fn single_values_are_applied_by_dotted_key() {
        let mut config = serde_json::json!({"tbon": {"topo": "custom"}});
        apply(&mut config, "tbon.torpid_min=10s").expect("applies");
        apply(&mut config, "resource.noverify=true").expect("applies");
        apply(&mut config, "[exec]\nimp = \"x\"\n").expect("applies");
        let expected = serde_json::json!({
            "tbon": {"topo": "custom", "torpid_min": "10s"},
            "resource": {"noverify": true},
            "exec": {"imp": "x"},
        });
        assert_eq!(config, expected);
    }
}
