//! Volumes of the pods and the operator's own mounts of them.

use crate::cluster::{Cluster, Curve};
use flux_contract::{CONFIG_MOUNT, CURVE_MOUNT, CURVE_SECRET_KEY, INSTALL_MOUNT, Layout};
use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, EmptyDirVolumeSource, KeyToPath, SecretVolumeSource, Volume, VolumeMount,
};

/// Mode of the certificate's file, 0444: it belongs to root, and a runner with another uid must be
/// able to read it. Only the runner mounts it, and everything in the runner acts for the user who
/// needs it; the agent copies it to a file of mode 0600, because a broker refuses this one.
const CURVE_MODE: i32 = 0o444;

/// All volumes: the shared one, the operator's documents, then the user's.
pub(super) fn volumes(cluster: &Cluster) -> Vec<Volume> {
    let mut all = vec![shared(cluster), config(cluster), curve(cluster)];
    all.extend(cluster.pod.volumes.iter().cloned());
    all
}

/// Mounts of every container that uses Flux: the shared volume, and the view's software where the
/// view's links lead, which is the same volume a second time and no second copy.
pub(super) fn flux_mounts(cluster: &Cluster) -> Vec<VolumeMount> {
    let view = &cluster.flux.view;
    let mut mounts = vec![mount(&view.name, &view.mount_path)];
    if view.enabled {
        mounts.push(VolumeMount {
            sub_path: Some(Layout::SOFTWARE.to_owned()),
            ..mount(&view.name, Layout::SOFTWARE_MOUNT)
        });
    }
    mounts
}

/// The shared volume where the init containers fill it.
pub(super) fn install_mount(cluster: &Cluster) -> VolumeMount {
    mount(&cluster.flux.view.name, INSTALL_MOUNT)
}

/// The agent's configuration.
pub(super) fn config_mount(cluster: &Cluster) -> VolumeMount {
    read_only(mount(&cluster.name.agent_config_map(), CONFIG_MOUNT))
}

/// The CURVE certificate: for the runner, for no other container.
pub(super) fn curve_mount(cluster: &Cluster) -> VolumeMount {
    read_only(mount(&cluster.name.curve_secret(), CURVE_MOUNT))
}

fn shared(cluster: &Cluster) -> Volume {
    Volume {
        name: cluster.flux.view.name.clone(),
        empty_dir: Some(EmptyDirVolumeSource::default()),
        ..Volume::default()
    }
}

fn config(cluster: &Cluster) -> Volume {
    Volume {
        name: cluster.name.agent_config_map(),
        config_map: Some(ConfigMapVolumeSource {
            name: cluster.name.agent_config_map(),
            ..ConfigMapVolumeSource::default()
        }),
        ..Volume::default()
    }
}

fn curve(cluster: &Cluster) -> Volume {
    Volume {
        name: cluster.name.curve_secret(),
        secret: Some(SecretVolumeSource {
            secret_name: Some(curve_secret_name(cluster)),
            items: Some(vec![KeyToPath {
                key: CURVE_SECRET_KEY.to_owned(),
                path: CURVE_SECRET_KEY.to_owned(),
                mode: None,
            }]),
            default_mode: Some(CURVE_MODE),
            optional: None,
        }),
        ..Volume::default()
    }
}

/// The Secret with the certificate: the user's own, or the one the operator creates.
pub(super) fn curve_secret_name(cluster: &Cluster) -> String {
    match &cluster.flux.curve {
        Curve::Secret(name) => name.clone(),
        Curve::Generate | Curve::Given(_) => cluster.name.curve_secret(),
    }
}

fn mount(name: &str, path: &str) -> VolumeMount {
    VolumeMount { name: name.to_owned(), mount_path: path.to_owned(), ..VolumeMount::default() }
}

fn read_only(mount: VolumeMount) -> VolumeMount {
    VolumeMount { read_only: Some(true), ..mount }
}
