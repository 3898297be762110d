//! All paths that operator and agent share.

use serde::{Deserialize, Serialize};

/// Where the `ConfigMap` is mounted in every container that runs the agent.
pub const CONFIG_MOUNT: &str = "/flux_operator/config";
/// The agent's configuration: the only key of the `ConfigMap`, mounted at [`CONFIG_MOUNT`].
pub const AGENT_CONFIG_PATH: &str = "/flux_operator/config/agent.toml";
/// Where the Secret with the CURVE certificate is mounted, in the runner container only.
pub const CURVE_MOUNT: &str = "/flux_operator/curve";
/// Key of the certificate in the Secret, hence its file name below [`CURVE_MOUNT`].
pub const CURVE_SECRET_KEY: &str = "curve.cert";

/// Key of the token that may do everything in the Secret of the API (`flux.rest`).
pub const REST_SECRET_KEY: &str = "token";
/// Key of the token that reads only.
pub const REST_READ_ONLY_KEY: &str = "read-only-token";
/// Where the Secret with the certificate of the API (`flux.rest.tlsSecretName`) is mounted, in the runner container only.
pub const REST_TLS_MOUNT: &str = "/flux_operator/tls";
/// Keys of a Secret of type `kubernetes.io/tls`, hence file names below [`REST_TLS_MOUNT`]: the chain, and its key.
pub const TLS_SECRET_KEYS: [&str; 2] = ["tls.crt", "tls.key"];
/// Where the Secret with the munge key (`flux.mungeSecret`) is mounted, in the runner container only.
pub const MUNGE_MOUNT: &str = "/flux_operator/munge";
/// Key of the munge key in the Secret, hence its file name below [`MUNGE_MOUNT`].
pub const MUNGE_SECRET_KEY: &str = "munge.key";

/// Where the shared volume is mounted in the init containers. It is not the final path, which the view image may contain
/// itself (a flat view is at the mount path for which it was built).
pub const INSTALL_MOUNT: &str = "/flux_operator/volume";

/// Where the private volume, a volume in memory, is mounted, in the runner container only.
pub const PRIVATE_MOUNT: &str = "/flux_operator/private";

/// Where the agent's image is mounted with [`crate::Install::Image`]; [`Layout::bin_dir`] is then a link to it.
pub const AGENT_MOUNT: &str = "/flux_operator/agent";
/// Where the whole view image is mounted with [`crate::Install::Image`]; [`Layout::view`] is then a link into it. Both are
/// outside of the shared volume, because no mount point can be made in a volume that is mounted read-only.
pub const VIEW_MOUNT: &str = "/flux_operator/view";

/// Where `commands.script` is written, on every pod: the job may run on any of them.
pub const CUSTOM_SCRIPT_PATH: &str = "/tmp/custom-entrypoint.sh";
/// Directory of the output of jobs if the specification names none.
pub const DEFAULT_OUTPUT_DIRECTORY: &str = "/tmp/fluxout";

/// Paths below the shared volume (`flux.container.mountPath`, `/mnt/flux` by default), which every container of the pod
/// mounts, all but the runner read-only, and below the private volume, which only the runner mounts. The helper files, the
/// marker files and the broker's socket have the same paths as with the Go operator, because users and tools rely on them.
///
/// Paths are texts, because `kubectl flux` also runs on Windows, where [`std::path::Path`] joins with a backslash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layout {
    shared: String,
    private: String,
}

impl Layout {
    /// Where the shared volume is mounted unless the specification says otherwise.
    pub const DEFAULT_MOUNT: &str = "/mnt/flux";

    /// The paths below the shared volume at `mount`, with the private one at [`PRIVATE_MOUNT`].
    pub fn new(mount: impl Into<String>) -> Self {
        Self { shared: mount.into(), private: PRIVATE_MOUNT.into() }
    }

    /// The same with the private volume at `mount`.
    #[must_use]
    pub fn with_private(self, mount: impl Into<String>) -> Self {
        Self { private: mount.into(), ..self }
    }

    /// The private volume itself.
    pub fn private_volume(&self) -> &str {
        &self.private
    }

    /// The shared volume itself.
    pub fn mount(&self) -> &str {
        &self.shared
    }

    /// Name of the agent's binary, and of its processes.
    pub const AGENT_NAME: &str = "flux-agent";
    /// Name of the program beside the agent that serves the HTTP API of an instance.
    pub const REST_NAME: &str = "flux-rest";
    /// Name of the `flux` command of the view, and of a link to the agent.
    pub const CLIENT_NAME: &str = "flux";

    /// The agent's binary.
    pub fn agent(&self) -> String {
        join(&self.bin_dir(), Self::AGENT_NAME)
    }

    /// A link to the agent, which becomes the broker's user and then the `flux` of the view.
    pub fn client(&self) -> String {
        join(&self.bin_dir(), Self::CLIENT_NAME)
    }

    /// [`Self::software`] relative to the shared volume, as a `subPath`.
    pub const SOFTWARE: &str = "software";

    /// Where Spack views expect [`Self::software`] to be found.
    pub const SOFTWARE_MOUNT: &str = "/opt/software";

    /// The broker's local socket as a Flux URI.
    pub fn local_uri(&self) -> String {
        format!("local://{}", self.local_socket())
    }
}

/// The path of `name` below `directory`, on every system as in a pod.
pub(crate) fn join(directory: &str, name: &str) -> String {
    format!("{}/{name}", directory.trim_end_matches('/'))
}

/// Defines a function for each path below a volume.
macro_rules! paths {
    ($($(#[$doc:meta])* $name:ident = $volume:ident / $path:expr;)*) => {
        impl Layout {
            $($(#[$doc])* pub fn $name(&self) -> String {
                join(&self.$volume, $path)
            })*
        }
    };
}

paths! {
    /// Directory of the agent's binary and of its link [`Self::client`], first on the `PATH` of users.
    bin_dir = shared / "bin";
    /// The Flux installation.
    view = shared / "view";
    /// The packages of a Spack view, whose links lead to `/opt/software`; also mounted there.
    software = shared / Layout::SOFTWARE;
    /// Root of all files that the agent writes for Flux.
    config_root = shared / "config";
    /// The broker's configuration path, and a directory of Lua files that Flux's shells run in every job
    /// (`FLUX_SHELL_RC_PATH`).
    broker_config_dir = shared / "config/etc/flux/config";
    /// The broker's configuration.
    broker_toml = shared / "config/etc/flux/config/broker.toml";
    /// The hosts in rank order, one line, RFC 29.
    hostlist = shared / "config/etc/flux/system/hostlist";
    /// The resource set, RFC 20.
    resource_file = shared / "config/etc/flux/system/R";
    /// The empty directory of the broker's cron module.
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
    /// A file that the runner's agent keeps locked, so that sidecars notice every end of it.
    runner_lock = shared / "runner.lock";
    /// Directory of mode 0711 with the status of the runner's agent, which all users may read, and the files of hooks.
    private_directory = private / "agent";
    /// The status of the run, which PID 1 writes.
    agent_status = private / "agent/status.json";
    /// Home directory of a user without one in the image.
    home = shared / "home";
    /// A file in which the lead's command may describe its failure for PID 1.
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
    fn secrets_are_in_the_private_volume() {
        let layout = Layout::new("/srv/shared").with_private("/srv/private");
        for private in [Layout::curve_certificate, Layout::agent_status, Layout::private_directory]
        {
            assert!(private(&layout).starts_with("/srv/private"), "{}", private(&layout));
        }
        assert!(layout.curve_certificate_link().starts_with("/srv/shared"));
    }

    /// Windows joins paths with a backslash. This cannot fail on another system, so nothing here may be joined by it.
    #[test]
    fn no_path_of_a_pod_is_joined_by_this_system() {
        for source in [include_str!("layout.rs"), include_str!("invocation.rs")] {
            let code = source.split("#[cfg(test)]").next().unwrap_or_default();
            let code = code.lines().filter(|line| !line.trim_start().starts_with("//"));
            let uses: Vec<&str> = code.filter(|line| line.contains("Path")).collect();
            assert!(uses.is_empty(), "{uses:?}");
        }
        let paths = ["/srv", "/srv/"].map(|mount| Layout::new(mount).agent());
        assert_eq!(paths, ["/srv/bin/flux-agent"; 2]);
    }
}
