//! A YAML or JSON document with the line of each field.

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Number, Value};
use serde_saphyr::{Error, Options, Spanned};
use std::fmt;

/// Deepest nesting of lists and maps: twice that of a pod, and safe for recursion.
const DEPTH_LIMIT: usize = 32;

#[derive(Debug, Clone, Deserialize)]
#[serde(transparent)]
pub(super) struct Node(Spanned<Content>);

#[derive(Debug, Clone)]
enum Content {
    Scalar(Value),
    List(Vec<Node>),
    Map(Vec<Field>),
}

#[derive(Debug, Clone)]
struct Field {
    name: Spanned<String>,
    value: Node,
}

/// The documents of `text`, with booleans (`yes`, `off`) and octal numbers of YAML 1.1, like kubectl.
pub(super) fn documents(text: &str) -> Result<Vec<Node>, Error> {
    serde_saphyr::from_multiple_with_options(text, options())
}

fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_depth: DEPTH_LIMIT },
        legacy_octal_numbers: true,
    }
}

impl Node {
    /// The value without lines, and without null fields, which the API server ignores.
    pub(super) fn value(&self) -> Value {
        match &self.0.value {
            Content::Scalar(value) => value.clone(),
            Content::List(items) => items.iter().map(Self::value).collect(),
            Content::Map(fields) => Value::Object(fields.iter().filter_map(Field::entry).collect()),
        }
    }

    /// The items of a `List`, else the document itself.
    pub(super) fn unpacked(self) -> Vec<Self> {
        let is_list = self.value()["kind"] == "List";
        let Content::Map(fields) = &self.0.value else { return vec![self] };
        let items = fields.iter().find(|field| is_list && field.name.value == "items");
        match items.map(|field| field.value.0.value.clone()) {
            Some(Content::List(items)) => items,
            Some(Content::Scalar(_) | Content::Map(_)) | None => vec![self],
        }
    }

    /// The line of `path`, e.g. `spec.containers[0].environment[A]`, or of the innermost existing field around it.
    pub(super) fn line_of(&self, path: &str) -> u64 {
        let (mut node, mut line, mut remainder) = (self, self.0.referenced.line(), path);
        loop {
            remainder = remainder.trim_start_matches(['.', '[', ']']);
            let next = match &node.0.value {
                Content::Scalar(_) => None,
                Content::List(items) => items.iter().enumerate().find_map(|(position, item)| {
                    let remainder = after(remainder, &position.to_string())?;
                    Some((item, item.0.referenced.line(), remainder))
                }),
                Content::Map(fields) => {
                    let named = fields.iter().filter_map(|field| {
                        let remainder = after(remainder, &field.name.value)?;
                        Some((&field.value, field.name.referenced.line(), remainder))
                    });
                    // A name, such as that of a label, may have dots, so the longest match counts.
                    named.min_by_key(|(_, _, remainder)| remainder.len())
                }
            };
            let Some((inner, inner_line, inner_rest)) = next else { return line };
            (node, line, remainder) = (inner, inner_line, inner_rest);
        }
    }
}

/// The remainder of `path` after `name`, if the path begins with that name.
fn after<'path>(path: &'path str, name: &str) -> Option<&'path str> {
    let remainder = path.strip_prefix(name).filter(|_| !name.is_empty())?;
    (remainder.is_empty() || remainder.starts_with(['.', '[', ']'])).then_some(remainder)
}

impl Field {
    fn entry(&self) -> Option<(String, Value)> {
        let value = self.value.value();
        (!value.is_null()).then(|| (self.name.value.clone(), value))
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Content, E> {
        Ok(Content::Scalar(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Content, E> {
        Ok(Content::Scalar(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Content, E> {
        Ok(Content::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Content, E> {
        Ok(Content::Scalar(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Content, E> {
        // kubectl converts 4.0 to 4.
        let whole = format!("{value:.0}").parse::<i64>().ok().filter(|_| value.fract() == 0.0);
        let number = whole.map(Number::from).or_else(|| Number::from_f64(value));
        let number = number.ok_or_else(|| E::custom(format!("{value} is no number of JSON")))?;
        Ok(Content::Scalar(Value::Number(number)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Content, E> {
        Ok(Content::Scalar(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Content, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Content::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Content, A::Error> {
        let mut fields = Vec::new();
        while let Some(name) = access.next_key::<Spanned<String>>()? {
            if name.referenced.line() == 0 {
                return Err(A::Error::custom("the name of a field has no place"));
            }
            fields.push(Field { name, value: access.next_value()? });
        }
        Ok(Content::Map(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn only(text: &str) -> Node {
        documents(text).unwrap().remove(0)
    }

    #[test]
    fn values_are_those_that_kubectl_sends() {
        let text = "a: yes\nb: 'yes'\nc: 0755\nd: 4.0\ne: 1.5\nf: ~\n1: [x, ~, {}]\ng: &x {h: off}\ni: *x\n";
        assert_eq!(
            only(text).value(),
            json!({
                "a": true, "b": "yes", "c": 493, "d": 4, "e": 1.5, "1": ["x", null, {}],
                "g": { "h": false }, "i": { "h": false },
            })
        );
    }

    #[test]
    fn a_path_gives_the_line_of_the_innermost_field() {
        let node = only(
            "# comment\nspec:\n  list:\n    - a: 1\n      labels:\n        x.org/y: |\n          z\n    -\n      b: 2\n  size: {\n    c: 3 }\n",
        );
        for (path, line) in [
            ("spec", 2),
            ("spec.list", 3),
            ("spec.list[0].a", 4),
            ("spec.list[0].labels[x.org/y]", 6),
            ("spec.list[0].labels.x.org/y", 6),
            ("spec.list[1].b", 9),
            ("spec.list[1].nothing", 9),
            ("spec.size.c", 11),
            ("spec.sizes", 2),
            ("", 2),
        ] {
            assert_eq!(node.line_of(path), line, "{path}");
        }
    }

    #[test]
    fn the_deepest_allowed_nesting_is_read() {
        for (open, close) in [("[", "]"), ("{a: ", "}")] {
            let nested = |depth: usize| open.repeat(depth) + "1" + &close.repeat(depth);
            assert_eq!(documents(&nested(DEPTH_LIMIT)).unwrap()[0].line_of("a.a.a"), 1);
            assert!(documents(&nested(DEPTH_LIMIT + 1)).is_err());
        }
    }

    #[test]
    fn deeply_nested_texts_are_refused_with_a_message() {
        let blocks =
            (0..10_000).fold(String::new(), |text, depth| text + &" ".repeat(depth % 200) + "a:\n");
        let indented =
            (0..2_000).fold(String::new(), |text, depth| text + &" ".repeat(depth) + "a:\n");
        let anchors = "a: &a [x, x, x, x, x, x, x, x, x]\n".to_owned()
            + &(0..30).fold(String::new(), |text, _| text + "b: &a [*a, *a, *a, *a]\n");
        for text in [
            "[".repeat(10_000),
            "[".repeat(10_000) + &"]".repeat(10_000),
            "{\"a\":".repeat(10_000) + "1" + &"}".repeat(10_000),
            "- ".repeat(10_000),
            blocks,
            indented,
            anchors,
            "? ".repeat(10_000),
        ] {
            assert!(documents(&text).unwrap_err().to_string().len() < 2_000);
        }
    }
}
