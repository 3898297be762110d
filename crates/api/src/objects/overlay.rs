//! `spec.pod.overlay`.

use anyhow::{Context as _, Result};
use k8s_openapi::DeepMerge as _;
use k8s_openapi::api::core::v1::PodSpec;

/// `spec` with the user's overlay, merged by keys as a strategic merge patch does (containers, volumes, ...).
pub(super) fn overlaid(mut spec: PodSpec, overlay: Option<&serde_json::Value>) -> Result<PodSpec> {
    if let Some(overlay) = overlay {
        let overlay: PodSpec = serde_json::from_value(overlay.clone())
            .context("apply the overlay of the pod specification")?;
        spec.merge_from(overlay);
    }
    Ok(spec)
}
