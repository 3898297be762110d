//! The images of this project, and where they are pulled from.

use clap::Args;

/// Where the images of this project are, unless they are redirected.
pub(super) const REGISTRY: &str = "ghcr.io/flux-framework";

/// Begin of the names of this project's images. `flux-operator` is the image of the operator in Go.
pub(super) const PROJECT: &str = "flux-operator-rs";

/// The operator image of this release.
pub const OPERATOR_IMAGE: &str =
    concat!("ghcr.io/flux-framework/flux-operator-rs:", env!("CARGO_PKG_VERSION"));

/// The image of this release that has agent and view: a pod that copies them needs one init
/// container.
pub const VIEW_IMAGE: &str =
    concat!("ghcr.io/flux-framework/flux-operator-rs-view:", env!("CARGO_PKG_VERSION"));

/// The image of this release that has the agent alone, for views that lack it.
pub const AGENT_IMAGE: &str =
    concat!("ghcr.io/flux-framework/flux-operator-rs-agent:", env!("CARGO_PKG_VERSION"));

/// The images of an installation.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct ImageNames {
    /// Registry to pull the images of this project from, which keep their names and tags; images of
    /// other names are not redirected
    #[arg(long, value_name = "REGISTRY", default_value = REGISTRY)]
    pub registry: String,
    /// Image of the operator
    #[arg(long, value_name = "IMAGE", default_value = OPERATOR_IMAGE)]
    pub operator_image: String,
    /// Image that holds the agent; it may be the view image
    #[arg(long, value_name = "IMAGE", default_value = VIEW_IMAGE)]
    pub agent_image: String,
    /// View image where a MiniCluster names none
    #[arg(long, value_name = "IMAGE", default_value = VIEW_IMAGE)]
    pub view_image: String,
}

impl Default for ImageNames {
    fn default() -> Self {
        Self {
            registry: REGISTRY.to_owned(),
            operator_image: OPERATOR_IMAGE.to_owned(),
            agent_image: VIEW_IMAGE.to_owned(),
            view_image: VIEW_IMAGE.to_owned(),
        }
    }
}

impl ImageNames {
    /// The operator's image, as it is pulled.
    pub(super) fn operator(&self) -> String {
        self.redirected(&self.operator_image)
    }

    /// The agent's image, as it is pulled.
    pub(super) fn agent(&self) -> String {
        self.redirected(&self.agent_image)
    }

    /// The view's image, as it is pulled.
    pub(super) fn view(&self) -> String {
        self.redirected(&self.view_image)
    }

    /// Every image that is pulled, each once.
    pub fn all(&self) -> Vec<String> {
        let mut all = Vec::new();
        for image in [self.operator(), self.agent(), self.view()] {
            if !all.contains(&image) {
                all.push(image);
            }
        }
        all
    }

    /// `image` in the registry that is asked for, if it is one of this project.
    fn redirected(&self, image: &str) -> String {
        let name = image.strip_prefix(REGISTRY).and_then(|rest| rest.strip_prefix('/'));
        match name.filter(|name| name.starts_with(PROJECT)) {
            Some(name) => format!("{}/{name}", self.registry),
            None => image.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_of_the_project_are_redirected_and_no_others() {
        let images = ImageNames {
            registry: "registry.example:5000/mirror".to_owned(),
            operator_image: "ghcr.io/flux-framework/flux-operator-rs@sha256:0".to_owned(),
            agent_image: "ghcr.io/flux-framework/flux-operator:v1".to_owned(),
            ..ImageNames::default()
        };
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(
            images.all(),
            [
                "registry.example:5000/mirror/flux-operator-rs@sha256:0",
                "ghcr.io/flux-framework/flux-operator:v1",
                &format!("registry.example:5000/mirror/flux-operator-rs-view:{version}"),
            ]
        );
    }

    #[test]
    fn an_image_that_is_used_twice_is_listed_once() {
        assert_eq!(ImageNames::default().all(), [OPERATOR_IMAGE, VIEW_IMAGE]);
    }

    #[test]
    fn the_images_of_this_release_are_in_the_registry_of_the_project() {
        for image in [OPERATOR_IMAGE, VIEW_IMAGE] {
            assert!(image.starts_with(&format!("{REGISTRY}/{PROJECT}")), "{image}");
        }
    }
}
