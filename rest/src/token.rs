//! The token that every request has.

use flux_contract::token::fingerprint;
use subtle::ConstantTimeEq as _;

/// The fingerprint of the token: comparing two fingerprints takes as long for every token.
#[derive(Debug, Clone)]
pub(crate) struct Token {
    fingerprint: String,
}

impl Token {
    pub(crate) fn new(text: &str) -> Self {
        Self { fingerprint: fingerprint(text) }
    }

    /// The token with this SHA-256, in hexadecimal digits.
    pub(crate) fn of_fingerprint(sha256: &str) -> Self {
        Self { fingerprint: sha256.to_ascii_lowercase() }
    }

    pub(crate) fn is(&self, given: &str) -> bool {
        self.fingerprint.as_bytes().ct_eq(fingerprint(given).as_bytes()).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_other_text_is_taken_for_the_token() {
        let by_fingerprint = Token::of_fingerprint(&fingerprint("0123456789abcdef").to_uppercase());
        for token in [Token::new("0123456789abcdef"), by_fingerprint] {
            assert!(token.is("0123456789abcdef"));
            assert!(!token.is("") && !token.is("0123456789abcdeF") && !token.is("0123456789abcde"));
        }
    }
}
