//! The client's side of a `CurveZMQ` handshake (RFC 26) as functions of values: randomness comes in
//! as an argument, bytes go out. Names follow the RFC: C/c is the long-term key pair of the client,
//! C'/c' its short-term one, S and S' the server's.

use crypto_box::aead::Aead;
use crypto_box::{PublicKey, SalsaBox, SecretKey};
use flux_contract::CurveCertificate;

const COOKIE_LENGTH: usize = 96;
const WELCOME_LENGTH: usize = 160;
/// Number of the first message, the second, ...; each message has its own nonce prefix as well.
const HELLO_COUNTER: u64 = 1;
const INITIATE_COUNTER: u64 = 2;

/// The four random values of a handshake.
pub(super) struct Randomness {
    /// The client's short-term secret key, c'.
    pub(super) short_term_secret: [u8; 32],
    /// The random half of the vouch's nonce.
    pub(super) vouch_nonce: [u8; 16],
}

/// The keys of one handshake.
pub(super) struct Client {
    long_term: SecretKey,
    short_term: SecretKey,
    server: PublicKey,
    vouch_nonce: [u8; 16],
}

/// What WELCOME holds.
pub(super) struct Welcome {
    server_short_term: PublicKey,
    cookie: [u8; COOKIE_LENGTH],
}

/// What the peer sent cannot be part of this handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum CurveError {
    #[error("{command} has {length} bytes, which none has")]
    Length { command: &'static str, length: usize },
    #[error("{command} cannot be decrypted")]
    Decrypt { command: &'static str },
    #[error("{command} cannot be encrypted")]
    Encrypt { command: &'static str },
}

impl Client {
    /// A client that presents `certificate` as its own and expects it of the server, as the
    /// brokers of a Flux instance do.
    pub(super) fn new(certificate: &CurveCertificate, randomness: &Randomness) -> Self {
        Self {
            long_term: SecretKey::from(*certificate.secret_key().expose()),
            short_term: SecretKey::from(randomness.short_term_secret),
            server: PublicKey::from(certificate.public_key()),
            vouch_nonce: randomness.vouch_nonce,
        }
    }

    /// Body of HELLO: version, padding, C', counter, Box of 64 zeros (c' to S).
    pub(super) fn hello(&self) -> Result<Vec<u8>, CurveError> {
        let signature = SalsaBox::new(&self.server, &self.short_term)
            .encrypt(&counted(b"CurveZMQHELLO---", HELLO_COUNTER).into(), [0; 64].as_slice())
            .map_err(|_| CurveError::Encrypt { command: "HELLO" })?;
        let mut body = vec![1, 0];
        body.extend([0; 72]);
        body.extend(self.short_term.public_key().as_bytes());
        body.extend(HELLO_COUNTER.to_be_bytes());
        body.extend(signature);
        Ok(body)
    }

    /// Reads the body of WELCOME: nonce, Box of S' and the cookie (S to c').
    pub(super) fn open_welcome(&self, body: &[u8]) -> Result<Welcome, CurveError> {
        let length = CurveError::Length { command: "WELCOME", length: body.len() };
        if body.len() != WELCOME_LENGTH {
            return Err(length);
        }
        let (nonce, sealed) = body.split_at(16);
        let content = SalsaBox::new(&self.server, &self.short_term)
            .decrypt(&random(*b"WELCOME-", nonce).into(), sealed)
            .map_err(|_| CurveError::Decrypt { command: "WELCOME" })?;
        let (key, cookie) = content.split_first_chunk::<32>().ok_or(length)?;
        Ok(Welcome {
            server_short_term: PublicKey::from(*key),
            cookie: cookie.try_into().map_err(|_| length)?,
        })
    }

    /// Body of INITIATE: cookie, counter, Box of C, the vouch and the metadata (c' to S').
    pub(super) fn initiate(&self, welcome: &Welcome) -> Result<Vec<u8>, CurveError> {
        let failed = |_| CurveError::Encrypt { command: "INITIATE" };
        let vouched = [*self.short_term.public_key().as_bytes(), *self.server.as_bytes()].concat();
        let vouch = SalsaBox::new(&welcome.server_short_term, &self.long_term)
            .encrypt(&random(*b"VOUCH---", &self.vouch_nonce).into(), vouched.as_slice())
            .map_err(failed)?;
        let mut content = self.long_term.public_key().as_bytes().to_vec();
        content.extend(self.vouch_nonce);
        content.extend(vouch);
        // DEALER is what the children of a broker use.
        for (key, value) in [("Socket-Type", "DEALER"), ("Identity", "")] {
            push_property(&mut content, key, value);
        }
        let sealed = SalsaBox::new(&welcome.server_short_term, &self.short_term)
            .encrypt(&counted(b"CurveZMQINITIATE", INITIATE_COUNTER).into(), content.as_slice())
            .map_err(failed)?;
        Ok([&welcome.cookie[..], &INITIATE_COUNTER.to_be_bytes(), &sealed].concat())
    }

    /// Checks the body of READY: counter, Box of the server's metadata (S' to c').
    pub(super) fn check_ready(&self, welcome: &Welcome, body: &[u8]) -> Result<(), CurveError> {
        let length = CurveError::Length { command: "READY", length: body.len() };
        let (counter, sealed) = body.split_first_chunk::<8>().ok_or(length)?;
        let nonce = counted(b"CurveZMQREADY---", u64::from_be_bytes(*counter));
        SalsaBox::new(&welcome.server_short_term, &self.short_term)
            .decrypt(&nonce.into(), sealed)
            .map(|_| ())
            .map_err(|_| CurveError::Decrypt { command: "READY" })
    }
}

/// A nonce of a 16-byte prefix and a counter.
fn counted(prefix: &[u8; 16], counter: u64) -> [u8; 24] {
    let mut nonce = [0; 24];
    nonce[..16].copy_from_slice(prefix);
    nonce[16..].copy_from_slice(&counter.to_be_bytes());
    nonce
}

/// A nonce of an 8-byte prefix and up to 16 random bytes.
fn random(prefix: [u8; 8], random: &[u8]) -> [u8; 24] {
    let mut nonce = [0; 24];
    nonce[..8].copy_from_slice(&prefix);
    for (to, from) in nonce[8..].iter_mut().zip(random) {
        *to = *from;
    }
    nonce
}

/// Appends a metadata property (RFC 37): name and value, each preceded by its length.
fn push_property(content: &mut Vec<u8>, key: &str, value: &str) {
    content.push(u8::try_from(key.len()).unwrap_or(u8::MAX));
    content.extend(key.as_bytes());
    content.extend(u32::try_from(value.len()).unwrap_or(u32::MAX).to_be_bytes());
    content.extend(value.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client() -> Client {
        let certificate = CurveCertificate::new("hello-0", [3; 32]).unwrap();
        Client::new(&certificate, &Randomness { short_term_secret: [5; 32], vouch_nonce: [9; 16] })
    }

    #[test]
    fn a_welcome_of_another_length_or_another_key_is_told_apart() {
        let client = client();
        let length = CurveError::Length { command: "WELCOME", length: 7 };
        assert_eq!(client.open_welcome(&[0; 7]).err(), Some(length));
        let undecryptable = CurveError::Decrypt { command: "WELCOME" };
        assert_eq!(client.open_welcome(&[0; WELCOME_LENGTH]).err(), Some(undecryptable));
    }

    #[test]
    fn the_property_has_a_short_name_length_and_a_long_value_length() {
        let mut content = Vec::new();
        push_property(&mut content, "Identity", "");
        assert_eq!(content, b"\x08Identity\0\0\0\0");
    }
}
