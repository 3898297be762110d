//! What is wrong with the options of an installation: all faults at once, each with its remedy.

use super::images::{ImageNames, PROJECT};
use super::installation::{Format, Installation};
use super::names::{image, is_object_name};
use crate::cluster::validate::{Faults, Violations, is_label};

/// Checks the options of `manifests`. With `printed`, everything is one text.
pub fn check(installation: &Installation, format: Format, printed: bool) -> Result<(), Violations> {
    let mut faults = Faults::default();
    for (option, namespace) in [
        ("--namespace", &installation.namespace),
        ("--watch-namespace", &installation.watch_namespace),
    ] {
        let is_name = namespace.as_deref().is_none_or(is_label);
        faults.require(is_name, option, || {
            let name = namespace.as_deref().unwrap_or_default();
            format!("{name:?} cannot be the name of a namespace: use lower-case letters, digits and dashes, at most 63")
        });
    }
    for secret in &installation.image_pull_secrets {
        faults.require(is_object_name(secret), "--image-pull-secret", || {
            format!("{secret:?} cannot be the name of a Secret")
        });
    }
    images(&installation.images, &mut faults);
    packaging(installation, format, printed, &mut faults);
    faults.end()
}

/// Checks the options of `images`.
pub fn check_images(names: &ImageNames) -> Result<(), Violations> {
    let mut faults = Faults::default();
    images(names, &mut faults);
    faults.end()
}

fn images(names: &ImageNames, faults: &mut Faults) {
    let ImageNames { registry, operator_image, agent_image, view_image } = names;
    if let Some(registry) = registry {
        let mut redirected = Faults::default();
        image("--registry", &format!("{registry}/{PROJECT}"), &mut redirected);
        faults.require(redirected.is_empty(), "--registry", || {
            format!("{registry:?} cannot be a registry: write it as <host>[:<port>][/<path>]")
        });
    }
    image("--operator-image", operator_image, faults);
    image("--agent-image", agent_image, faults);
    image("--view-image", view_image, faults);
}

/// What one of the formats leaves to another tool.
fn packaging(installation: &Installation, format: Format, printed: bool, faults: &mut Faults) {
    let whole = !printed || format == Format::Plain;
    faults.require(whole, "--output-directory", || {
        "`-` prints one text, and this format has several files: name a directory".to_owned()
    });
    let namespace = installation.namespace.is_none() || format != Format::Helm;
    faults.require(namespace, "--namespace", || {
        "helm decides: leave it out, and use `helm install --namespace`".to_owned()
    });
    let watched = installation.watch_namespace.is_none() || format != Format::Kustomize;
    faults.require(watched, "--watch-namespace", || {
        "leave it out, and set `namespace:` in a kustomization that has `one-namespace` as its resource".to_owned()
    });
}
