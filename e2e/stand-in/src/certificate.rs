//! The CURVE certificate, with what real Flux asks of its file.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;

use flux_contract::CurveCertificate;
use omq_proto::{CurveKeypair, CurvePublicKey, CurveSecretKey};

use crate::failure::strerror;

/// Opens and reads the certificate: the key pair every broker of an instance has.
pub(crate) fn load(path: &str) -> Result<CurveKeypair, String> {
    let fault = |error: &std::io::Error| format!("{path}: {}", strerror(error));
    let mut file = std::fs::File::open(path).map_err(|error| fault(&error))?;
    let mode = file.metadata().map_err(|error| fault(&error))?.permissions().mode();
    if mode & 0o044 != 0 {
        return Err(format!("{path}: readable by group/other"));
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(|error| fault(&error))?;
    let certificate = CurveCertificate::parse(&text).map_err(|error| format!("{path}: {error}"))?;
    Ok(CurveKeypair {
        public: CurvePublicKey::from_bytes(certificate.public_key()),
        secret: CurveSecretKey::from_bytes(*certificate.secret_key().expose()),
    })
}
