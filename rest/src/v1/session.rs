//! How the clients of flux-restful show that they have the token: they put it into a JWT, and get another one for it, a
//! session.

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use flux_contract::token;
use hmac::{Hmac, Mac as _};
use serde::Deserialize;
use sha2::Sha256;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long a session lasts, as in flux-restful.
const LASTS: Duration = Duration::from_hours(10);
/// The hash has blocks of so many bytes, and a key that is as long needs no hash of its own.
const KEY_LENGTH: usize = 64;
/// What a client that hands its token over calls that.
const SCOPE: &str = "token";

/// The sessions of this process. None is stored: each is signed with a key that nobody else has, and names the fingerprint
/// of the token that it stands for, so it may do what that token may, for as long.
pub(crate) struct Sessions {
    key: [u8; KEY_LENGTH],
}

impl Sessions {
    /// `fill` gives random bytes.
    pub(crate) fn new<E>(fill: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<Self, E> {
        let mut key = [0; KEY_LENGTH];
        fill(&mut key)?;
        Ok(Self { key })
    }

    /// A session that stands for the token with this fingerprint.
    pub(crate) fn begin(&self, fingerprint: &str, now: SystemTime) -> String {
        let claims = format!("{}.{fingerprint}", seconds(now + LASTS));
        let signature = self.signature(&claims).finalize().into_bytes();
        format!("{claims}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))
    }

    /// The fingerprint of the token that stands behind what a client has sent: that of its session while it lasts, or of
    /// what it has sent.
    pub(crate) fn fingerprint(&self, given: &str, now: SystemTime) -> String {
        self.behind(given, now).unwrap_or_else(|| token::fingerprint(given))
    }

    fn behind(&self, given: &str, now: SystemTime) -> Option<String> {
        let (claims, signature) = given.rsplit_once('.')?;
        let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).ok()?;
        self.signature(claims).verify_slice(&signature).ok()?;
        let (ends, fingerprint) = claims.split_once('.')?;
        (seconds(now) < ends.parse().ok()?).then(|| fingerprint.to_owned())
    }

    fn signature(&self, claims: &str) -> Hmac<Sha256> {
        Hmac::new((&self.key).into()).chain_update(claims)
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// What a client that hands its token over puts into its JWT (RFC 7519).
#[derive(Deserialize)]
struct Credentials {
    user: Option<String>,
    pass: Option<String>,
    scope: Option<String>,
}

/// The token that the header `Authorization` hands over. The JWT is signed with a key that the client has chosen, and needs
/// no check: it counts for as much as the token in it. A name of a user is asked for, as the clients have one, and may be
/// any.
pub(crate) fn handed_over(header: Option<&str>) -> Result<String, &'static str> {
    let jwt = header.and_then(|header| header.split_whitespace().next_back());
    let jwt = jwt.ok_or("the header Authorization is missing")?;
    let payload = jwt.split('.').nth(1);
    let payload = payload.and_then(|payload| BASE64_URL_SAFE_NO_PAD.decode(payload).ok());
    let credentials = payload.and_then(|payload| serde_json::from_slice(&payload).ok());
    let Credentials { user, pass, scope } =
        credentials.ok_or("the header Authorization has no JWT with user, pass and scope")?;
    let given = |field: Option<String>| field.filter(|text| !text.is_empty());
    given(user).ok_or("the JWT has no user")?;
    if scope.as_deref() != Some(SCOPE) {
        return Err("the scope of the JWT is not token");
    }
    given(pass).ok_or("the JWT has no pass")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    fn sessions(seed: u8) -> Sessions {
        Sessions { key: [seed; KEY_LENGTH] }
    }

    #[test]
    fn a_session_stands_for_its_token_for_ten_hours_and_in_no_other_process() {
        let (sessions, fingerprint) = (sessions(1), token::fingerprint(TOKEN));
        let now = UNIX_EPOCH + Duration::from_hours(400_000);
        let session = sessions.begin(&fingerprint, now);
        let stands =
            |given: &str, later: Duration| sessions.fingerprint(given, now + later) == fingerprint;
        assert!(stands(&session, Duration::ZERO) && stands(TOKEN, LASTS));
        assert!(stands(&session, Duration::from_secs(35_999)) && !stands(&session, LASTS));
        assert!(!session.contains(TOKEN));
        let (claims, signature) = session.rsplit_once('.').unwrap();
        let none = BASE64_URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#);
        let encoded = BASE64_URL_SAFE_NO_PAD.encode(claims);
        for forged in [
            &format!("9{claims}.{signature}"),
            claims,
            &format!("{claims}."),
            &session[..session.len() - 1],
            &format!("{none}.{encoded}."),
            &format!("{none}.{claims}"),
        ] {
            assert!(!stands(forged, Duration::ZERO), "{forged}");
        }
        let other = self::sessions(2).begin(&fingerprint, now);
        assert!(!stands(&other, Duration::ZERO));
    }

    #[test]
    fn a_token_is_handed_over_in_a_jwt() {
        let bearer = |payload: &str| {
            // As python-jose signs it with the key `a`, and with another signature or none.
            format!("Bearer e30.{}.x", BASE64_URL_SAFE_NO_PAD.encode(payload))
        };
        let right = bearer(r#"{"user":"fluxuser","pass":"0123456789abcdef","scope":"token"}"#);
        assert_eq!(handed_over(Some(&right)), Ok(TOKEN.to_owned()));
        for (header, why) in [
            (None, "is missing"),
            (Some("Bearer"), "has no JWT"),
            (Some("Bearer x"), "has no JWT"),
            (Some("Bearer e30.*.x"), "has no JWT"),
            (Some(&*bearer("[]")), "has no JWT"),
            (Some(&*bearer(r#"{"user":"a","pass":1,"scope":"token"}"#)), "has no JWT"),
            (Some(&*bearer(r#"{"pass":"b","scope":"token"}"#)), "no user"),
            (Some(&*bearer(r#"{"user":"a","pass":"","scope":"token"}"#)), "no pass"),
            (Some(&*bearer(r#"{"user":"a","pass":"b"}"#)), "the scope"),
        ] {
            assert!(handed_over(header).unwrap_err().contains(why), "{header:?}");
        }
    }
}
