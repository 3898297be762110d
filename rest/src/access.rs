//! Who may do what: a request needs nothing, or to read, or everything; a token gives one of these.

use crate::v1;
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, Method};
use flux_contract::RestTokens;
use serde::Serialize;
use subtle::ConstantTimeEq as _;

/// The paths that need no token: the page itself shows nothing without one.
const OPEN: [&str; 3] = ["/", "/health", "/api/v1/health"];
/// The path that gives a token for a code.
pub(crate) const EXCHANGE: &str = "/api/v1/token";

/// What a request may do, or what it needs to be allowed to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Access {
    /// Nothing but to see that the server is there.
    None,
    /// To read everything.
    Read,
    /// To run programs as Flux's user as well.
    Full,
}

/// The fingerprints of the tokens: comparing two of them takes as long for every token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tokens {
    full: String,
    read_only: Option<String>,
}

impl Tokens {
    /// One token, which may do everything.
    pub(crate) fn full(fingerprint: &str) -> Self {
        Self { full: fingerprint.to_ascii_lowercase(), read_only: None }
    }

    /// What the token with this fingerprint gives.
    pub(crate) fn access(&self, given: &str) -> Access {
        let is = |token: &str| bool::from(token.as_bytes().ct_eq(given.as_bytes()));
        let (is_full, reads) = (is(&self.full), self.read_only.as_deref().is_some_and(is));
        match (is_full, reads) {
            (true, _) => Access::Full,
            (false, true) => Access::Read,
            (false, false) => Access::None,
        }
    }
}

impl From<RestTokens> for Tokens {
    fn from(tokens: RestTokens) -> Self {
        let RestTokens { token_sha256: full, read_only_token_sha256: read_only } = tokens;
        Self { full, read_only }
    }
}

/// The token that a request has in its header.
pub(crate) fn given(headers: &HeaderMap) -> Option<&str> {
    let header = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = header.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// What a request needs. Every path that is not open is read by GET and HEAD, and changed by every other method.
pub(crate) fn needed(method: &Method, path: &str) -> Access {
    if OPEN.contains(&path) || ([EXCHANGE, v1::TOKEN].contains(&path) && method == Method::POST) {
        Access::None
    } else if [Method::GET, Method::HEAD].contains(method) {
        Access::Read
    } else {
        Access::Full
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flux_contract::token::fingerprint;

    #[test]
    fn each_token_gives_what_it_is_for() {
        let [full, read] = ["full", "read"].map(fingerprint);
        let both = Tokens { full: full.clone(), read_only: Some(read.clone()) };
        assert_eq!([&full, &read].map(|it| both.access(it)), [Access::Full, Access::Read]);
        let one = Tokens::full(&full.to_ascii_uppercase());
        assert_eq!([&full, &read].map(|it| one.access(it)), [Access::Full, Access::None]);
        // An operator that has made no token yet writes an empty fingerprint.
        let none = Tokens { full: String::new(), read_only: None };
        assert_eq!(none.access(&fingerprint("")), Access::None);
        assert!(Access::None < Access::Read && Access::Read < Access::Full);
    }

    #[test]
    fn only_a_bearer_token_is_one() {
        let of = |value: &'static str| {
            let headers = HeaderMap::from_iter([(AUTHORIZATION, value.parse().unwrap())]);
            given(&headers).map(ToOwned::to_owned)
        };
        assert_eq!(of("bearer  a "), Some("a".to_owned()));
        assert_eq!((of("Basic a"), of("a"), given(&HeaderMap::new())), (None, None, None));
    }

    #[test]
    fn a_change_needs_everything_and_an_open_path_nothing() {
        for (method, path, access) in [
            (Method::GET, "/", Access::None),
            (Method::POST, "/health", Access::None),
            (Method::POST, EXCHANGE, Access::None),
            (Method::POST, v1::TOKEN, Access::None),
            (Method::POST, "/v1/service/stop", Access::Full),
            (Method::GET, "/v1/jobs", Access::Read),
            (Method::GET, EXCHANGE, Access::Read),
            (Method::HEAD, "/metrics", Access::Read),
            (Method::GET, "/elsewhere", Access::Read),
            (Method::PATCH, "/elsewhere", Access::Full),
            (Method::DELETE, "/api/v1/jobs/f1", Access::Full),
        ] {
            assert_eq!(needed(&method, path), access, "{method} {path}");
        }
    }
}
