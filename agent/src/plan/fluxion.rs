//! Fluxion, the graph-based scheduler that a view may have beside those of flux-core.

use crate::plan::pod::Pod;
use std::path::PathBuf;

/// The lists on which a view with Fluxion has to be, with what they lack. Flux looks below the
/// prefix it was compiled for; where the view is made of links, as Spack does it, that is
/// flux-core's own, and Fluxion is in another one.
pub(super) fn search_paths(pod: Pod<'_>) -> Vec<(&'static str, PathBuf)> {
    let Some(modules) = &pod.facts.fluxion_modules else { return vec![] };
    let view = pod.config.layout.view();
    vec![
        ("FLUX_MODULE_PATH", modules.clone()),
        ("FLUX_MODPROBE_PATH_APPEND", view.join("etc/flux/modprobe")),
        ("FLUX_EXEC_PATH", view.join("libexec/flux/cmd")),
    ]
}
