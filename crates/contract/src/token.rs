//! Tokens and their fingerprints. The server stores the fingerprint alone, which identifies the token and cannot replace it.

use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;

/// Random bytes of a token.
const LENGTH: usize = 24;

/// A new token, in hexadecimal digits, of the random bytes that `fill` gives.
pub fn random<E>(fill: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<String, E> {
    let mut bytes = [0; LENGTH];
    fill(&mut bytes)?;
    Ok(bytes.iter().fold(String::new(), |mut token, byte| {
        let _ = write!(token, "{byte:02x}");
        token
    }))
}

/// The SHA-256 of `token`, in hexadecimal digits.
pub fn fingerprint(token: &str) -> String {
    format!("{:x}", Sha256::digest(token))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_random_and_fingerprints_those_of_sha256sum() {
        let draw = |bytes: &mut [u8]| -> Result<(), &str> {
            bytes.iter_mut().zip(0..).for_each(|(byte, value)| *byte = value);
            Ok(())
        };
        assert_eq!(random(draw).unwrap(), "000102030405060708090a0b0c0d0e0f1011121314151617");
        assert_eq!(random(|_| Err("none")), Err("none"));
        let of_abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(fingerprint("abc"), of_abc);
    }
}
