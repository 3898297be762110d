//! CURVE certificates in the text form that Flux reads (flux-keygen(1)). Sections start in column one, pairs are
//! indented, values are quoted. Flux reads less than all of ZPL: values of the metadata must not have `_`, `,` or quotes,
//! and a lead with children refuses to start without the metadata `name`.

use crate::redacted::Redacted;
use x25519_dalek::{PublicKey, StaticSecret};
use zeroize::Zeroizing;

/// Why a broker would not accept a text as a certificate. It never has a part of the text, which may be of the secret key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CertificateError(String);

/// A CURVE key pair and the name it carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CurveCertificate {
    name: String,
    secret: Redacted<[u8; 32]>,
}

impl CurveCertificate {
    /// The certificate of the X25519 secret key `secret`, which must be 32 random bytes.
    pub fn new(name: &str, secret: [u8; 32]) -> Result<Self, CertificateError> {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
        if name.is_empty() || !name.chars().all(fits) {
            return Err(CertificateError(format!(
                "CURVE certificate name {name:?} may hold only letters, digits, '-' and '.'"
            )));
        }
        Ok(Self { name: name.to_owned(), secret: Redacted::new(secret) })
    }

    /// The secret key, which must not be printed.
    pub const fn secret_key(&self) -> &Redacted<[u8; 32]> {
        &self.secret
    }

    /// The public key that belongs to the secret key.
    pub fn public_key(&self) -> [u8; 32] {
        PublicKey::from(&StaticSecret::from(*self.secret.expose())).to_bytes()
    }

    /// The text form. Flux reads it only from a file of mode 0600.
    pub fn to_text(&self) -> Redacted<String> {
        let secret = Zeroizing::new(z85::encode(self.secret.expose()));
        Redacted::new(format!(
            "#   Flux CURVE certificate. The secret key below must stay secret.\n\
             metadata\n    name = \"{}\"\ncurve\n    public-key = \"{}\"\n    secret-key = \"{}\"\n",
            self.name,
            z85::encode(self.public_key()),
            *secret,
        ))
    }

    /// Reads the text form, with the rules of Flux's own reader.
    pub fn parse(text: &str) -> Result<Self, CertificateError> {
        let pairs = Pairs::read(text)?;
        let name = pairs.value("metadata", "name")?;
        let secret = pairs.key("secret-key")?;
        let public = pairs.key("public-key")?;
        let certificate = Self { name: name.to_owned(), secret: Redacted::new(secret) };
        if certificate.public_key() != public {
            let text = "the CURVE certificate's public key is not the one of its secret key";
            return Err(CertificateError(text.to_owned()));
        }
        Ok(certificate)
    }
}

/// The `(section, key, value)` triples of a certificate.
struct Pairs<'text>(Vec<(&'text str, &'text str, &'text str)>);

impl<'text> Pairs<'text> {
    fn read(text: &'text str) -> Result<Self, CertificateError> {
        let mut pairs = Vec::new();
        let mut section = None;
        for (number, line) in text.lines().enumerate() {
            let number = number + 1;
            let unreadable = || {
                CertificateError(format!(
                    "line {number} of the CURVE certificate is neither a section, an indented `key = \"value\"` pair nor a comment"
                ))
            };
            let content = line.trim();
            if content.is_empty() || content.starts_with('#') {
                continue;
            }
            let indented = line.starts_with([' ', '\t']);
            match (indented, content, section) {
                (false, "metadata" | "curve", _) => section = Some(content),
                (true, pair, Some(section)) => {
                    let (key, value) = pair.split_once('=').ok_or_else(unreadable)?;
                    let value = value.trim().strip_prefix('"').and_then(|v| v.strip_suffix('"'));
                    pairs.push((section, key.trim(), value.ok_or_else(unreadable)?));
                }
                (false | true, _, _) => return Err(unreadable()),
            }
        }
        Ok(Self(pairs))
    }

    fn value(&self, section: &str, key: &str) -> Result<&'text str, CertificateError> {
        let found = self.0.iter().find(|(s, k, _)| *s == section && *k == key);
        let text = || format!("the CURVE certificate has no {key:?} in section {section:?}");
        found.map(|(_, _, value)| *value).ok_or_else(|| CertificateError(text()))
    }

    fn key(&self, key: &str) -> Result<[u8; 32], CertificateError> {
        let bytes = Zeroizing::new(z85::decode(self.value("curve", key)?).unwrap_or_default());
        <[u8; 32]>::try_from(bytes.as_slice()).map_err(|_| {
            CertificateError(format!("the CURVE certificate's {key:?} is not 40 characters of Z85"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> CurveCertificate {
        CurveCertificate::new("hello-0", [7; 32]).unwrap()
    }

    #[test]
    fn debug_output_never_shows_the_secret_key() {
        let certificate = sample();
        let secret = z85::encode([7; 32]);
        assert!(certificate.to_text().expose().contains(&secret));
        assert!(!format!("{certificate:?} {:?}", certificate.to_text()).contains(&secret));
    }

    /// A lead with children does not start without a name.
    #[test]
    fn a_text_that_a_broker_refuses_is_refused() {
        let whole = sample().to_text();
        let other = CurveCertificate::new("hello-0", [8; 32]).unwrap();
        let [own, other] =
            [sample(), other].map(|certificate| z85::encode(certificate.public_key()));
        for (from, to, expected) in [
            (own.as_str(), other.as_str(), "not the one of its secret key"),
            ("    name = \"hello-0\"\n", "", "no \"name\" in section \"metadata\""),
            ("    name", "name", "line 3 of the CURVE certificate"),
        ] {
            let refused = CurveCertificate::parse(&whole.expose().replace(from, to)).unwrap_err();
            assert!(refused.to_string().contains(expected), "{refused}");
        }
    }

    #[test]
    fn names_that_flux_cannot_read_back_are_refused() {
        for name in ["", "a_b", "a,b", "a\"b", "a b"] {
            assert!(CurveCertificate::new(name, [7; 32]).is_err(), "{name:?}");
        }
    }

    proptest! {
        #[test]
        fn the_text_form_reads_back_the_same(secret: [u8; 32]) {
            let certificate = CurveCertificate::new("lead.example-0", secret).unwrap();
            let text = certificate.to_text();
            prop_assert_eq!(CurveCertificate::parse(text.expose()), Ok(certificate));
            prop_assert!(text.expose().lines().all(|line| line.len() < 255));
        }

        #[test]
        fn another_implementation_derives_the_same_public_key(secret: [u8; 32]) {
            let theirs = crypto_box::SecretKey::from(secret).public_key();
            let ours = CurveCertificate::new("n", secret).unwrap().public_key();
            prop_assert_eq!(theirs.as_bytes(), &ours);
        }
    }
}
