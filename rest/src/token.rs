//! The token that every request has: which it is, and whether a request has it.

use crate::failure::{Failure, failed};
use flux_contract::Exit;
use flux_contract::token::{fingerprint, random};
use std::fs;
use std::path::Path;
use std::str::FromStr;
use subtle::ConstantTimeEq as _;

/// A shorter one could be guessed.
const SHORTEST: usize = 16;

/// What the server knows of the token: comparing fingerprints takes as long for every token.
#[derive(Debug, Clone)]
pub(crate) struct Token {
    fingerprint: String,
}

impl Token {
    pub(crate) fn new(text: &str) -> Self {
        Self { fingerprint: fingerprint(text) }
    }

    pub(super) fn is(&self, given: &str) -> bool {
        self.fingerprint.as_bytes().ct_eq(fingerprint(given).as_bytes()).into()
    }
}

/// Reads a fingerprint, as a token's SHA-256 in hexadecimal digits.
impl FromStr for Token {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_digest = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let fingerprint = text.to_ascii_lowercase();
        is_digest
            .then_some(Self { fingerprint })
            .ok_or("this is no SHA-256: give 64 hexadecimal digits")
    }
}

/// The token in the file at `path`: its first line.
pub(crate) fn read(path: &Path) -> Result<String, Failure> {
    let text = fs::read_to_string(path).map_err(failed("read the token in", path))?;
    let token = text.lines().next().unwrap_or_default().trim();
    let refused = |what: &str| {
        let shown = path.display();
        Err(Failure::new(Exit::Config, format!("the token in {shown} {what}")))
    };
    if token.len() < SHORTEST {
        return refused(&format!(
            "is shorter than {SHORTEST} characters: make one (openssl rand -hex 24)"
        ));
    }
    if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return refused("has characters that no header can have: use letters and digits");
    }
    Ok(token.to_owned())
}

/// A new token, in digits and letters.
pub(crate) fn made() -> Result<String, Failure> {
    let random = random(getrandom::fill);
    random.map_err(|error| Failure::new(Exit::Internal, format!("make a token: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_the_first_line_of_its_file_and_no_other_is_taken_for_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let read = |text: &str| {
            fs::write(file.path(), text).unwrap();
            read(file.path()).map_err(|failure| failure.to_string())
        };
        let text = read("0123456789abcdef\nmore\n").unwrap();
        let token = Token::new(&text);
        assert!(token.is("0123456789abcdef"));
        assert!(!token.is("") && !token.is("0123456789abcdeF") && !token.is("0123456789abcde"));
        let by_fingerprint: Token = fingerprint("0123456789abcdef").to_uppercase().parse().unwrap();
        assert!(by_fingerprint.is("0123456789abcdef") && !by_fingerprint.is("0123456789abcde"));
        assert!("".parse::<Token>().is_err() && "0".repeat(63).parse::<Token>().is_err());
        assert!(read("\n").unwrap_err().contains("shorter than 16"));
        assert!(read("0123456789 abcdef").unwrap_err().contains("no header"));
        assert_ne!(made().unwrap(), made().unwrap());
    }
}
