//! The CURVE certificate of a MiniCluster: random, or the user's.

use crate::cluster::{Cluster, Curve};
use flux_contract::{CertificateError, CurveCertificate, Redacted};

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum CurveError {
    /// The system has no random numbers.
    #[error("draw random numbers for a CURVE key pair")]
    Random(#[source] getrandom::Error),
    /// The name does not fit a certificate.
    #[error("make a CURVE certificate")]
    Certificate(#[source] CertificateError),
}

/// The text of the certificate that goes into the Secret; `None` when the user has an own Secret.
///
/// `draw` fills its argument with random bytes.
pub fn certificate(
    cluster: &Cluster,
    draw: impl FnOnce(&mut [u8]) -> Result<(), getrandom::Error>,
) -> Result<Option<Redacted<String>>, CurveError> {
    match &cluster.flux.curve {
        Curve::Secret(_) => Ok(None),
        Curve::Given(text) => Ok(Some(text.clone())),
        Curve::Generate => {
            let mut secret = [0; 32];
            draw(&mut secret).map_err(CurveError::Random)?;
            let certificate = CurveCertificate::new(cluster.name.as_str(), secret)
                .map_err(CurveError::Certificate)?;
            Ok(Some(certificate.to_text()))
        }
    }
}
