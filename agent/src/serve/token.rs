//! The token that every request has: which it is, and whether a request has it.

use crate::failure::{Failure, failed};
use flux_contract::Exit;
use sha2::{Digest as _, Sha256};
use std::fs;
use std::path::Path;
use subtle::ConstantTimeEq as _;

/// A shorter one could be guessed.
const SHORTEST: usize = 16;
/// Random bytes of one that is made here.
const MADE_OF: usize = 24;

/// What the server knows of the token: comparing fingerprints takes as long for every token.
pub(crate) struct Token {
    fingerprint: [u8; 32],
}

impl Token {
    pub(crate) fn new(text: &str) -> Self {
        Self { fingerprint: Sha256::digest(text).into() }
    }

    pub(super) fn is(&self, given: &str) -> bool {
        let given: [u8; 32] = Sha256::digest(given).into();
        self.fingerprint.ct_eq(&given).into()
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
    let mut bytes = [0; MADE_OF];
    let random = getrandom::fill(&mut bytes);
    random.map_err(|error| Failure::new(Exit::Internal, format!("make a token: {error}")))?;
    Ok(bytes.iter().fold(String::new(), |token, byte| format!("{token}{byte:02x}")))
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
        assert!(read("\n").unwrap_err().contains("shorter than 16"));
        assert!(read("0123456789 abcdef").unwrap_err().contains("no header"));
        assert_ne!(made().unwrap(), made().unwrap());
    }
}
