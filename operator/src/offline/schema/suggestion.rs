//! What somebody who wrote a field that does not exist has probably meant.

use serde_json::Value;

/// Fields that former versions of the API had, by how their path ends, and what took their place.
const OBSOLETE: [(&str, &str); 3] = [
    ("spec.volumes", "say in containers[].volumes where each volume comes from"),
    (".existingVolumes", "use volumes"),
    (".addCapabilities", "use capabilities.add"),
];

/// Similarity (Jaro-Winkler, up to 1) from which two names are taken for spellings of one.
const SIMILAR: f64 = 0.85;

/// Longest name that is compared, in bytes; no field has a longer one.
const NAME_LIMIT: usize = 64;

/// What to do about the field `name` at `path`, which `schema` does not have: the field that took
/// its place, or is spelled like it, or is called so elsewhere in the definition `root`.
pub(super) fn remedy(root: &Value, schema: &Value, path: &str, name: &str) -> String {
    if let Some((_, remedy)) = OBSOLETE.iter().find(|(end, _)| path.ends_with(end)) {
        return (*remedy).to_owned();
    }
    if name.len() <= NAME_LIMIT {
        if let Some(similar) = most_similar(name, names(schema)) {
            return format!("did you mean {similar}?");
        }
        if let Some(place) = place("spec", &root["properties"]["spec"], name) {
            return format!("there is {place}, did you mean that?");
        }
    }
    "remove it, or look for its spelling".to_owned()
}

fn names(schema: &Value) -> impl Iterator<Item = &str> {
    schema["properties"]
        .as_object()
        .into_iter()
        .flat_map(|fields| fields.keys().map(String::as_str))
}

fn most_similar<'name>(name: &str, known: impl Iterator<Item = &'name str>) -> Option<&'name str> {
    let wanted = name.to_lowercase();
    let rated = known.map(|known| (strsim::jaro_winkler(&wanted, &known.to_lowercase()), known));
    let (similarity, best) = rated.max_by(|(one, _), (other, _)| one.total_cmp(other))?;
    (similarity >= SIMILAR).then_some(best)
}

/// Path of the field of that name in `schema`; of several, of one that is the least deep.
fn place(path: &str, schema: &Value, name: &str) -> Option<String> {
    if schema["properties"].get(name).is_some() {
        return Some(format!("{path}.{name}"));
    }
    let fields = schema["properties"].as_object().into_iter().flatten();
    let fields = fields.map(|(field, inner)| (format!("{path}.{field}"), inner));
    let items = schema.get("items").map(|inner| (format!("{path}[]"), inner));
    let found = fields.chain(items).filter_map(|(path, inner)| place(&path, inner, name));
    found.min_by_key(|path| path.matches(['.', '[']).count())
}
