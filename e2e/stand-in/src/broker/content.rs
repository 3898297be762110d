//! Dumps: what real Flux keeps in its content store, in a form of our own.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::attributes::Attributes;

/// Marks a dump as ours.
const FORMAT: &str = "flux stand-in dump";

/// Writes a dump.
pub(crate) fn write(path: &Path, content: &Value) -> Result<(), String> {
    let fault = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let document = json!({ "format": FORMAT, "content": content });
    let text = serde_json::to_string(&document).map_err(|error| fault(&error))?;
    std::fs::write(path, text).map_err(|error| fault(&crate::failure::strerror(&error)))
}

/// Reads a dump back.
pub(crate) fn read(path: &Path) -> Result<Value, String> {
    let fault = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text =
        std::fs::read_to_string(path).map_err(|error| fault(&crate::failure::strerror(&error)))?;
    let document: Value = serde_json::from_str(&text)
        .map_err(|_| fault(&"not a dump of the stand-in: not simulated"))?;
    if document["format"] != FORMAT {
        return Err(fault(&"not a dump of the stand-in: not simulated"));
    }
    Ok(document["content"].clone())
}

/// The dump to restore at start, if one is asked for, and whether it exists.
pub(crate) fn to_restore(attributes: &Attributes) -> Option<(PathBuf, bool)> {
    let path = match attributes.get("content.restore")? {
        "auto" => {
            let link = folder(attributes).join("RESTORE");
            link.is_symlink().then(|| link.canonicalize().ok()).flatten()?
        }
        path => PathBuf::from(path),
    };
    let exists = path.exists();
    Some((path, exists))
}

/// Where `auto` dumps are.
fn folder(attributes: &Attributes) -> PathBuf {
    let kept = attributes.get("statedir-cleanup") == Some("0");
    let parent = attributes.get("statedir").filter(|_| kept).unwrap_or(".");
    Path::new(parent).join("dump")
}

/// Writes the dump that `content.dump` asks for; what was written, if anything.
pub(crate) fn dump(attributes: &Attributes, content: &Value) -> Result<Option<PathBuf>, String> {
    let path = match attributes.get("content.dump") {
        None => return Ok(None),
        Some("auto") => {
            let folder = folder(attributes);
            std::fs::create_dir_all(&folder)
                .map_err(|error| format!("{}: {error}", folder.display()))?;
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            let name = format!("{}.tgz", now.unwrap_or_default().as_secs());
            let link = folder.join("RESTORE");
            // An older link is replaced; there may be none.
            drop(std::fs::remove_file(&link));
            std::os::unix::fs::symlink(&name, &link)
                .map_err(|error| format!("{}: {error}", link.display()))?;
            folder.join(name)
        }
        Some(path) => PathBuf::from(path),
    };
    write(&path, content)?;
    Ok(Some(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_automatic_dump_is_found_again() {
        let state = tempfile::tempdir().expect("temporary directory");
        let mut attributes = Attributes::default();
        attributes.set("statedir", state.path().to_string_lossy());
        attributes.set("statedir-cleanup", "0");
        attributes.set("content.dump", "auto");
        attributes.set("content.restore", "auto");
        assert_eq!(to_restore(&attributes), None);
        let written = dump(&attributes, &json!({"jobs": []})).expect("writes").expect("asked for");
        let (found, exists) = to_restore(&attributes).expect("found");
        assert!(exists);
        assert_eq!(found.file_name(), written.file_name());
        assert_eq!(read(&found).expect("reads"), json!({"jobs": []}));
    }
}
