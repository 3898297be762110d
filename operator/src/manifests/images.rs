//! The images of this project, and where they are pulled from.

use clap::Args;

/// Begin of the names of this project's images, in whichever registry. `flux-operator` is the image of the
/// operator in Go.
pub(super) const PROJECT: &str = "flux-operator-rs";

/// The operator image of this release.
pub const OPERATOR_IMAGE: &str =
    concat!("ghcr.io/flux-framework/flux-operator-rs:", env!("CARGO_PKG_VERSION"));

/// The image of this release that has the agent.
pub const AGENT_IMAGE: &str =
    concat!("ghcr.io/flux-framework/flux-operator-rs-agent:", env!("CARGO_PKG_VERSION"));

/// A published view image that is not of this project, for amd64.
pub const VIEW_IMAGE: &str = "ghcr.io/converged-computing/flux-view-ubuntu:tag-noble";

/// The same for arm64: no tag is published for the other's release of Ubuntu.
pub const ARM_VIEW_IMAGE: &str = "ghcr.io/converged-computing/flux-view-ubuntu:arm-jammy";

/// The images of an installation.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct ImageNames {
    /// Registry to pull the images of this project from, whoever released them, which keep their names
    /// and tags (`flux-operator-rs...`); images of other names are not redirected
    #[arg(long, value_name = "REGISTRY")]
    pub registry: Option<String>,
    /// Image of the operator
    #[arg(long, value_name = "IMAGE", default_value = OPERATOR_IMAGE)]
    pub operator_image: String,
    /// Image that holds the agent; it may be the view image
    #[arg(long, value_name = "IMAGE", default_value = AGENT_IMAGE)]
    pub agent_image: String,
    /// View image where a MiniCluster names none; the default is for amd64
    #[arg(long, value_name = "IMAGE", default_value = VIEW_IMAGE)]
    pub view_image: String,
}

impl Default for ImageNames {
    fn default() -> Self {
        Self {
            registry: None,
            operator_image: OPERATOR_IMAGE.to_owned(),
            agent_image: AGENT_IMAGE.to_owned(),
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
        let name = image.rsplit('/').next().unwrap_or(image);
        match &self.registry {
            Some(registry) if name.starts_with(PROJECT) => format!("{registry}/{name}"),
            Some(_) | None => image.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_of_the_project_are_redirected_whoever_released_them_and_no_others() {
        let images = ImageNames {
            registry: Some("registry.example:5000/mirror".to_owned()),
            operator_image: "ghcr.io/somebody/flux-operator-rs@sha256:0".to_owned(),
            agent_image: AGENT_IMAGE.to_owned(),
            view_image: "ghcr.io/flux-framework/flux-operator:v1".to_owned(),
        };
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(
            images.all(),
            [
                "registry.example:5000/mirror/flux-operator-rs@sha256:0",
                &format!("registry.example:5000/mirror/flux-operator-rs-agent:{version}"),
                "ghcr.io/flux-framework/flux-operator:v1",
            ]
        );
    }

    #[test]
    fn an_image_that_is_used_twice_is_listed_once() {
        let view_image = AGENT_IMAGE.to_owned();
        let images = ImageNames { view_image, ..ImageNames::default() };
        assert_eq!(images.all(), [OPERATOR_IMAGE, AGENT_IMAGE]);
    }
}
