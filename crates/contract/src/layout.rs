//! Every path that operator and agent share, once.

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Where the `ConfigMap` is mounted in every container that runs the agent.
pub const CONFIG_MOUNT: &str = "/flux_operator/config";
/// The agent's configuration: the only key of the `ConfigMap`, mounted at [`CONFIG_MOUNT`].
pub const AGENT_CONFIG_PATH: &str = "/flux_operator/config/agent.toml";
/// Where the Secret with the CURVE certificate is mounted, in the runner container only.
pub const CURVE_MOUNT: &str = "/flux_operator/curve";
/// Key of the certificate in the Secret, hence its file name below [`CURVE_MOUNT`].
pub const CURVE_SECRET_KEY: &str = "curve.cert";

/// Key of the token in the Secret of the API (`flux.rest`).
pub const REST_SECRET_KEY: &str = "token";
/// Where the Secret with the munge key (`flux.mungeSecret`) is mounted, in the runner container only.
pub const MUNGE_MOUNT: &str = "/flux_operator/munge";
/// Key of the munge key in the Secret, hence its file name below [`MUNGE_MOUNT`].
pub const MUNGE_SECRET_KEY: &str = "munge.key";

/// Where the shared volume is mounted in the init containers: not at its final place, which the
/// view image may use itself (a flat view lies at the mount path it was built for).
pub const INSTALL_MOUNT: &str = "/flux_operator/volume";

/// Where the private volume is mounted, in the runner container only. It lies in memory.
pub const PRIVATE_MOUNT: &str = "/flux_operator/private";

/// Where the agent's image is mounted with [`crate::Install::Image`]; [`Layout::bin_dir`] is then a link to it.
pub const AGENT_MOUNT: &str = "/flux_operator/agent";
/// Where the whole view image is mounted there; [`Layout::view`] is then a link into it. Neither lies in the
/// shared volume: where that is mounted read-only, no directory can be made to mount them at.
pub const VIEW_MOUNT: &str = "/flux_operator/view";

/// Where `commands.script` is written, on every pod: the job may run on any of them.
pub const CUSTOM_SCRIPT_PATH: &str = "/tmp/custom-entrypoint.sh";
/// Where jobs leave their output when the specification names no directory.
pub const DEFAULT_OUTPUT_DIRECTORY: &str = "/tmp/fluxout";

/// Paths below the shared volume (`flux.container.mountPath`, `/mnt/flux` by default), which every
/// container of the pod mounts, all but the runner read-only, and below the private one, which only the
/// runner mounts. Users and other tools rely on the helper files, the marker files and the broker's socket being
/// where the Go operator had them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layout {
    shared: PathBuf,
    private: PathBuf,
}

impl Layout {
    /// Where the shared volume is mounted unless the specification says otherwise.
    pub const DEFAULT_MOUNT: &str = "/mnt/flux";

    /// The paths below the shared volume at `mount`, with the private one at [`PRIVATE_MOUNT`].
    pub fn new(mount: impl Into<PathBuf>) -> Self {
        Self { shared: mount.into(), private: PRIVATE_MOUNT.into() }
    }

    /// The same with the private volume at `mount`.
    #[must_use]
    pub fn with_private(self, mount: impl Into<PathBuf>) -> Self {
        Self { private: mount.into(), ..self }
    }

    /// The private volume itself.
    pub fn private_volume(&self) -> &Path {
        &self.private
    }

    /// The shared volume itself.
    pub fn mount(&self) -> &Path {
        &self.shared
    }

    /// Name of the agent's binary, and of its processes.
    pub const AGENT_NAME: &str = "flux-agent";
    /// Name of the program beside the agent that serves the HTTP API of an instance.
    pub const REST_NAME: &str = "flux-rest";
    /// Name of the `flux` command: of the agent where it goes by it, and of the view's own.
    pub const CLIENT_NAME: &str = "flux";

    /// The agent's binary.
    pub fn agent(&self) -> PathBuf {
        self.bin_dir().join(Self::AGENT_NAME)
    }

    /// The agent by the name `flux`: becomes the broker's user, then the `flux` of the view.
    pub fn client(&self) -> PathBuf {
        self.bin_dir().join(Self::CLIENT_NAME)
    }

    /// [`Self::software`] relative to the shared volume, as a `subPath`.
    pub const SOFTWARE: &str = "software";

    /// Where Spack views expect [`Self::software`] to be found.
    pub const SOFTWARE_MOUNT: &str = "/opt/software";

    /// The broker's local socket as a Flux URI.
    pub fn local_uri(&self) -> String {
        format!("local://{}", self.local_socket().display())
    }

    /// Socket at which PID 1 says how the run stands.
    pub fn agent_socket(&self) -> PathBuf {
        self.private_directory().join("status.sock")
    }
}

/// Defines a function for each path below a volume.
macro_rules! paths {
    ($($(#[$doc:meta])* $name:ident = $volume:ident / $path:expr;)*) => {
        impl Layout {
            $($(#[$doc])* pub fn $name(&self) -> PathBuf {
                self.$volume.join($path)
            })*
        }
    };
}

paths! {
    /// Directory of the agent's binary and of its link [`Self::client`], first on the `PATH` of people.
    bin_dir = shared / "bin";
    /// The Flux installation.
    view = shared / "view";
    /// What the view's links into `/opt/software` lead to (Spack views); mounted there too.
    software = shared / Layout::SOFTWARE;
    /// Root of everything the agent configures.
    config_root = shared / "config";
    /// Directory handed to the broker as its configuration path, and to its shells as one of Lua files that they run in
    /// every job (`FLUX_SHELL_RC_PATH`).
    broker_config_dir = shared / "config/etc/flux/config";
    /// The broker's configuration.
    broker_toml = shared / "config/etc/flux/config/broker.toml";
    /// The hosts in rank order, one line, RFC 29.
    hostlist = shared / "config/etc/flux/system/hostlist";
    /// The resource set, RFC 20.
    resource_file = shared / "config/etc/flux/system/R";
    /// Empty directory the broker's cron module is pointed at.
    cron_dir = shared / "config/etc/flux/system/cron.d";
    /// The certificate the broker reads: mode 0600, owned by the broker's user.
    curve_certificate = private / "curve/curve.cert";
    /// A link to [`Self::curve_certificate`], for configurations that users wrote for the Go operator.
    curve_certificate_link = shared / "config/curve/curve.cert";
    /// The broker's state directory.
    state_dir = shared / "config/var/lib/flux";
    /// The broker's run directory.
    run_dir = shared / "config/run/flux";
    /// The broker's local socket.
    local_socket = shared / "config/run/flux/local";
    /// Helper for people: puts Flux on the paths of a shell that sources it.
    view_helper = shared / "flux-view.sh";
    /// Helper for people: opens a shell connected to the broker.
    connect_helper = shared / "flux-connect.sh";
    /// Helper for people: loads the Fluxion scheduler.
    fluxion_helper = shared / "load-fluxion.sh";
    /// Marker: the view is in place.
    view_done_marker = shared / "flux-operator-done.txt";
    /// Marker: the runner has finished.
    complete_marker = shared / "flux-operator-complete.txt";
    /// Locked by the runner's agent as long as it lives, so that sidecars see it go whatever ended it.
    runner_lock = shared / "runner.lock";
    /// Directory of mode 0700 in which the runner's agent has its socket, and what hooks are given and leave.
    private_directory = private / "agent";
    /// Home directory of a user that has none in the image.
    home = shared / "home";
    /// Where the lead's command may leave a sentence about its failure for PID 1.
    command_failure = shared / "config/run/command.failure";
}

impl Default for Layout {
    fn default() -> Self {
        Self::new(Self::DEFAULT_MOUNT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_private_lies_in_the_private_volume() {
        let layout = Layout::new("/srv/shared").with_private("/srv/private");
        for private in [Layout::curve_certificate, Layout::agent_socket, Layout::private_directory]
        {
            assert!(private(&layout).starts_with("/srv/private"), "{}", private(&layout).display());
        }
        assert!(layout.curve_certificate_link().starts_with("/srv/shared"));
    }

    #[test]
    fn paths_that_users_or_mounts_rely_on_stay_where_they_were() {
        let layout = Layout::default();
        assert_eq!(layout.view_helper(), Path::new("/mnt/flux/flux-view.sh"));
        assert_eq!(layout.local_uri(), "local:///mnt/flux/config/run/flux/local");
        assert!(AGENT_CONFIG_PATH.starts_with(CONFIG_MOUNT));
    }
}
