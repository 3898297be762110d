//! What a request asks for, by its path and method.

use crate::serve::answer::Refusal;
use flux_protocol::job_id;
use hyper::StatusCode;
use percent_encoding::percent_decode_str;

/// Ids go to Flux as signed numbers; it makes none that is larger (RFC 19).
const LARGEST_ID: u64 = i64::MAX.cast_unsigned();

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    Page,
    Health,
    About,
    Document,
    Jobs,
    Job(u64),
    Output(u64),
    JobEvents(u64),
    Resources,
    Instance,
    Events,
    Metrics,
}

impl Target {
    pub(super) fn of(path: &str) -> Result<Self, Refusal> {
        let unknown = || {
            let detail = "there is nothing here: /api/v1/openapi.json has all paths";
            Refusal::new(StatusCode::NOT_FOUND, detail)
        };
        let path = percent_decode_str(path).decode_utf8().map_err(|_| unknown())?;
        let segments: Vec<&str> = path.split('/').skip(1).collect();
        match segments.as_slice() {
            [""] => Ok(Self::Page),
            ["health"] | ["api", "v1", "health"] => Ok(Self::Health),
            ["metrics"] => Ok(Self::Metrics),
            ["api", "v1"] | ["api", "v1", ""] => Ok(Self::About),
            ["api", "v1", "openapi.json"] => Ok(Self::Document),
            ["api", "v1", "jobs"] => Ok(Self::Jobs),
            ["api", "v1", "jobs", id] => id_of(id).map(Self::Job),
            ["api", "v1", "jobs", id, "output"] => id_of(id).map(Self::Output),
            ["api", "v1", "jobs", id, "events"] => id_of(id).map(Self::JobEvents),
            ["api", "v1", "resources"] => Ok(Self::Resources),
            ["api", "v1", "instance"] => Ok(Self::Instance),
            ["api", "v1", "events"] => Ok(Self::Events),
            _ => Err(unknown()),
        }
    }

    pub(super) const fn methods(self) -> &'static [&'static str] {
        match self {
            Self::Jobs => &["GET", "POST"],
            Self::Job(_) => &["DELETE", "GET"],
            Self::Page
            | Self::Health
            | Self::About
            | Self::Document
            | Self::Output(_)
            | Self::JobEvents(_)
            | Self::Resources
            | Self::Instance
            | Self::Events
            | Self::Metrics => &["GET"],
        }
    }

    pub(super) const fn needs_token(self) -> bool {
        !matches!(self, Self::Health)
    }

    /// Names that its query may have with this method.
    pub(super) fn query(self, method: &str) -> &'static [&'static str] {
        match (self, method) {
            (Self::Page, _) => &["token"],
            (Self::Jobs, "GET") => &["state", "name", "user", "limit", "cursor"],
            (Self::Job(_), "DELETE") => &["reason"],
            (Self::Output(_), _) => &["stream"],
            _ => &[],
        }
    }
}

fn id_of(text: &str) -> Result<u64, Refusal> {
    let unknown = || Refusal::new(StatusCode::NOT_FOUND, format!("{text:?} is no id of a job"));
    job_id::parse(text).filter(|id| *id <= LARGEST_ID).ok_or_else(unknown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use std::collections::BTreeSet;

    #[test]
    fn a_path_has_a_target_and_an_id_any_form() {
        for path in ["f2", "%C6%922", "1", "0x1", "0000.0000.0000.0001", "job.0000.0000.0000.0001"]
        {
            let path = format!("/api/v1/jobs/{path}/output");
            assert_eq!(Target::of(&path), Ok(Target::Output(1)), "{path}");
        }
        for (path, status) in [
            ("/api/v1/jobs/x", 404),
            ("/api/v1/jobs/", 404),
            ("/api/v1/jobs/18446744073709551615", 404),
            ("/api/v1/jobs/f1/x", 404),
            ("/api/v2/jobs", 404),
            ("/%ff", 404),
            ("*", 404),
        ] {
            assert_eq!(Target::of(path).unwrap_err().status.as_u16(), status, "{path}");
        }
    }

    #[test]
    fn the_document_has_every_path_with_its_methods_and_queries() {
        let document: Value = serde_json::from_str(include_str!("openapi.json")).unwrap();
        let mut described = BTreeSet::new();
        for (path, methods) in document["paths"].as_object().unwrap() {
            let target = Target::of(&path.replace("{id}", "f1")).unwrap();
            described.insert(format!("{target:?}"));
            let methods =
                methods.as_object().unwrap().iter().filter(|(name, _)| *name != "parameters");
            let methods: Vec<_> = methods.map(|(name, call)| (name.to_uppercase(), call)).collect();
            let names: Vec<_> = methods.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(names, target.methods(), "{path}");
            for (method, call) in &methods {
                let parameters = call["parameters"].as_array().into_iter().flatten();
                let queries = parameters.filter(|it| it["in"] == "query");
                let queries: Vec<_> = queries.filter_map(|it| it["name"].as_str()).collect();
                assert_eq!(queries, target.query(method), "{method} {path}");
                let open = call["security"] == serde_json::json!([]);
                assert_eq!(open, !target.needs_token(), "{path}");
            }
        }
        let all = [
            Target::Page,
            Target::Health,
            Target::About,
            Target::Document,
            Target::Jobs,
            Target::Job(0),
            Target::Output(0),
            Target::JobEvents(0),
            Target::Resources,
            Target::Instance,
            Target::Events,
            Target::Metrics,
        ];
        assert_eq!(described, all.iter().map(|target| format!("{target:?}")).collect());
    }
}
