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

impl Access {
    /// What the token with the fingerprint `given` gives. The comparison takes as long for every token.
    pub(crate) fn of(tokens: &RestTokens, given: &str) -> Self {
        let is = |token: &str| bool::from(token.as_bytes().ct_eq(given.as_bytes()));
        let reads = tokens.read_only_token_sha256.as_deref().is_some_and(is);
        match (is(&tokens.token_sha256), reads) {
            (true, _) => Self::Full,
            (false, true) => Self::Read,
            (false, false) => Self::None,
        }
    }
}

/// One token, which may do everything.
pub(crate) fn full(fingerprint: &str) -> RestTokens {
    RestTokens { token_sha256: fingerprint.to_ascii_lowercase(), read_only_token_sha256: None }
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
        let both =
            RestTokens { token_sha256: full.clone(), read_only_token_sha256: Some(read.clone()) };
        let one = super::full(&full.to_ascii_uppercase());
        // An operator that has made no token yet writes an empty fingerprint.
        let none = super::full("");
        for (tokens, given, access) in [
            (&both, &full, Access::Full),
            (&both, &read, Access::Read),
            (&one, &full, Access::Full),
            (&one, &read, Access::None),
            (&none, &fingerprint(""), Access::None),
        ] {
            assert_eq!(Access::of(tokens, given), access);
        }
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
}
