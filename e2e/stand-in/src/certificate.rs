//! The CURVE certificate, read as narrowly as real Flux reads it.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;

use omq_proto::{CurveKeypair, CurvePublicKey, CurveSecretKey};

use crate::failure::strerror;

/// Bytes real Flux reads at a time; a longer line falls apart.
const LINE_PIECE: usize = 255;
/// Marks allowed beside letters and digits in a Z85 key.
const KEY_MARKS: &str = ".-:+=^!/*?&<>()[]{}@%$#";

/// A key pair with its metadata.
#[derive(Debug, Clone)]
pub(crate) struct Certificate {
    /// The keys; every broker of an instance has the same ones.
    pub(crate) keys: CurveKeypair,
    /// `name` and whatever else `keygen` wrote.
    pub(crate) metadata: BTreeMap<String, String>,
}

/// Opens and reads the certificate; the error is Flux's text after `Error loading certificate: `.
pub(crate) fn load(path: &str) -> Result<Certificate, String> {
    let fault = |error: &std::io::Error| format!("{path}: {}", strerror(error));
    let mut file = std::fs::File::open(path).map_err(|error| fault(&error))?;
    let mode = file.metadata().map_err(|error| fault(&error))?.permissions().mode();
    if mode & 0o044 != 0 {
        return Err(format!("{path}: readable by group/other"));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(|error| fault(&error))?;
    parse(&bytes).ok_or_else(|| format!("{path}: Invalid argument"))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Section {
    None,
    Metadata,
    Curve,
}

/// The certificate in `bytes`, `None` where Flux would refuse it.
pub(crate) fn parse(bytes: &[u8]) -> Option<Certificate> {
    let text = std::str::from_utf8(bytes).ok()?;
    let mut section = Section::None;
    let mut metadata = BTreeMap::new();
    let (mut public, mut secret) = (None, None);
    for line in pieces(text) {
        let indented = line.starts_with([' ', '\t']);
        let stripped = line.trim_matches(|c: char| c.is_ascii_whitespace());
        match (indented, stripped, section) {
            (_, "", _) => {}
            (_, comment, _) if comment.starts_with('#') => {}
            (false, "metadata", _) => section = Section::Metadata,
            (false, "curve", _) => section = Section::Curve,
            (true, pair, Section::Metadata) => {
                let (key, value) = key_value(pair)?;
                if metadata.insert(key.to_owned(), value.to_owned()).is_some() {
                    return None;
                }
            }
            (true, pair, Section::Curve) => match key_value(pair)? {
                ("public-key", value) => public = Some(key_text(value)?),
                ("secret-key", value) => secret = Some(key_text(value)?),
                _ => return None,
            },
            _ => return None,
        }
    }
    let public = CurvePublicKey::from_z85(public?).ok()?;
    let secret = CurveSecretKey::from_z85(secret?).ok()?;
    (secret.derive_public() == public)
        .then_some(Certificate { keys: CurveKeypair { public, secret }, metadata })
}

/// Lines, each cut where the reader's buffer would end.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive('\n').flat_map(|line| {
        let mut rest = line;
        std::iter::from_fn(move || {
            let mut cut = rest.len().min(LINE_PIECE);
            while !rest.is_char_boundary(cut) {
                cut -= 1;
            }
            let (piece, left) = rest.split_at(cut);
            rest = left;
            (!piece.is_empty()).then_some(piece)
        })
    })
}

fn key_value(pair: &str) -> Option<(&str, &str)> {
    let (key, value) = pair.split_once('=')?;
    let key = key.trim_matches(|c: char| c.is_ascii_whitespace());
    let value = value.trim_matches(|c: char| c.is_ascii_whitespace());
    let value = value.strip_prefix('"')?.strip_suffix('"')?;
    let key_fits = !key.is_empty() && letters(key, "-.");
    let value_fits = letters(value, ".-:+=^!/*?&<>()[]{}@%$# \t");
    (key_fits && value_fits).then_some((key, value))
}

fn key_text(value: &str) -> Option<&str> {
    (value.len() == 40 && letters(value, KEY_MARKS)).then_some(value)
}

fn letters(text: &str, marks: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || marks.contains(c))
}

/// The file's text, with `metadata` in the order given.
pub(crate) fn write(keys: &CurveKeypair, metadata: &[(String, String)]) -> String {
    let pairs: Vec<String> =
        metadata.iter().map(|(key, value)| format!("    {key} = \"{value}\"\n")).collect();
    let pairs = pairs.concat();
    format!(
        "#  ZeroMQ CURVE **Secret** Certificate\n#  DO NOT DISTRIBUTE\n\nmetadata\n{pairs}curve\n    \
         public-key = \"{}\"\n    secret-key = \"{}\"\n",
        keys.public.to_z85(),
        keys.secret.to_z85()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text() -> String {
        write(&CurveKeypair::generate(), &[("name".to_owned(), "x".to_owned())])
    }

    fn accepted(text: &str) -> bool {
        parse(text.as_bytes()).is_some()
    }

    #[test]
    fn what_keygen_writes_is_read_back() {
        let text = text();
        let read = parse(text.as_bytes()).expect("valid");
        assert_eq!(read.metadata.get("name").map(String::as_str), Some("x"));
        assert!(text.contains(&read.keys.public.to_z85()));
    }

    #[test]
    fn the_grammar_is_narrow() {
        let good = text();
        let bad = [
            good.replace("metadata\n", " metadata\n"),
            good.replace("    name", "name"),
            good.replace("\"x\"", "\"a_b\""),
            good.replace("\"x\"", "x"),
            good.replace("    name = \"x\"\n", "    name = \"x\"\n    name = \"y\"\n"),
            good.replace("curve\n", "curve\n    other = \"1\"\n"),
            good.replace("curve\n", "curves\n"),
            good.replace("    public-key", "    public_key"),
            good.lines().filter(|line| !line.contains("secret-key")).collect::<Vec<_>>().join("\n"),
        ];
        assert!(accepted(&good));
        for text in bad {
            assert!(!accepted(&text), "{text}");
        }
    }

    #[test]
    fn the_public_key_must_belong_to_the_secret_one() {
        let (one, two) = (CurveKeypair::generate(), CurveKeypair::generate());
        let mixed = CurveKeypair { public: one.public, secret: two.secret };
        assert!(!accepted(&write(&mixed, &[])));
    }

    #[test]
    fn a_file_others_may_read_is_refused() {
        let folder = tempfile::tempdir().expect("temporary directory");
        let path = folder.path().join("curve.cert");
        std::fs::write(&path, text()).expect("writes");
        let mode = |bits| std::fs::set_permissions(&path, PermissionsExt::from_mode(bits));
        let path_text = path.to_string_lossy().into_owned();
        for bits in [0o644, 0o640, 0o604] {
            mode(bits).expect("chmod");
            let error = load(&path_text).expect_err("refused");
            assert_eq!(error, format!("{path_text}: readable by group/other"));
        }
        mode(0o422).expect("chmod");
        assert!(load(&path_text).is_ok());
        assert!(load("/nowhere").expect_err("refused").ends_with("No such file or directory"));
    }
}
