//! Answers to `TokenReview` and `SubjectAccessReview`.

use serde_json::{Value, json};

/// A token, its user, and the path outside of the API that this user may get.
#[derive(Debug, Clone, Default)]
pub struct Holder {
    pub token: String,
    pub user: String,
    pub path: Option<String>,
}

/// The review that was sent to `path`, with the answer as its status.
pub(crate) fn reviewed(holders: &[Holder], path: &str, review: &Value) -> Option<Value> {
    let (_, plural) = path.rsplit_once('/')?;
    let spec = &review["spec"];
    let status = match plural {
        "tokenreviews" => {
            let holder = holders.iter().find(|it| spec["token"] == it.token);
            let user = holder.map(|it| json!({ "username": it.user, "groups": ["all"] }));
            json!({ "authenticated": holder.is_some(), "user": user })
        }
        "subjectaccessreviews" => {
            let asked = &spec["nonResourceAttributes"];
            let may = |it: &Holder| {
                let of_user = spec["user"] == it.user && spec["groups"] == json!(["all"]);
                of_user && it.path.as_ref().is_some_and(|path| asked["path"] == **path)
            };
            json!({ "allowed": asked["verb"] == "get" && holders.iter().any(may) })
        }
        _ => return None,
    };
    let mut reviewed = review.clone();
    reviewed["status"] = status;
    Some(reviewed)
}
