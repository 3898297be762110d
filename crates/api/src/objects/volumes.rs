//! Builds the volumes of the pods, and the operator's mounts.

use super::Images;
use crate::cluster::Cluster;
use crate::crd::Medium;
use flux_contract::{
    AGENT_MOUNT, CONFIG_MOUNT, CURVE_MOUNT, CURVE_SECRET_KEY, INSTALL_MOUNT, Install, Layout,
    MUNGE_MOUNT, MUNGE_SECRET_KEY, PRIVATE_MOUNT, REST_TLS_MOUNT, TLS_SECRET_KEYS, VIEW_MOUNT,
};
use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, Container, EmptyDirVolumeSource, ImageVolumeSource, KeyToPath,
    SecretVolumeSource, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Key of the agent's configuration: the file name of [`flux_contract::AGENT_CONFIG_PATH`].
pub const AGENT_CONFIG_KEY: &str = "agent.toml";

/// Mode of key files, 0444: they belong to root, and a runner with another uid must be able to read them. Only the
/// runner mounts them, and everything in the runner acts for the user of the keys. The agent copies those of brokers and
/// munge to a file with a narrower mode, which both require; the API reads its own again when it was renewed.
const KEY_MODE: i32 = 0o444;

/// Size limit of the private volume. It has the certificate, the scripts of hooks, which fit into a `ConfigMap` (1
/// MiB), and the environment of a hook, twice while it is written, which the kernel limits to a quarter of the stack
/// (execve(2): 2 MiB of 8 MiB by default, 6 MiB at most). Only its content counts as memory of the runner.
const PRIVATE_LIMIT: &str = "16Mi";

const IN_MEMORY: &str = "Memory";

/// All volumes: the operator's, then the user's.
pub(super) fn volumes(cluster: &Cluster, images: &Images, install: Install) -> Vec<Volume> {
    let mut all = vec![shared(cluster), private(cluster), config(cluster), curve(cluster)];
    all.extend(munge(cluster));
    all.extend(rest_tls(cluster));
    if install == Install::Image {
        all.extend(image_volumes(cluster, images));
        all.extend(cluster.flux.view.enabled.then(|| software(cluster)));
    }
    all.extend(cluster.pod.spec.volumes.iter().flatten().cloned());
    all
}

/// Mounts of the runner: those for Flux, the private volume, the CURVE certificate, and the munge key and
/// the certificate of the API, if any.
pub(super) fn runner_mounts(
    cluster: &Cluster,
    images: &Images,
    install: Install,
) -> Vec<VolumeMount> {
    let name = &cluster.name;
    let mut mounts = flux_mounts(cluster, images, install);
    mounts.push(mount(&name.private_volume(), PRIVATE_MOUNT));
    mounts.push(read_only(mount(&name.curve_volume(), CURVE_MOUNT)));
    let munge = cluster.flux.munge_secret.as_ref();
    mounts.extend(munge.map(|_| read_only(mount(&name.munge_volume(), MUNGE_MOUNT))));
    let tls = cluster.flux.rest_tls_secret.as_ref();
    mounts.extend(tls.map(|_| read_only(mount(&name.rest_tls_volume(), REST_TLS_MOUNT))));
    mounts
}

/// Mounts of sidecars: those for Flux, read-only, so that only the runner decides what root executes in the pod's
/// containers and who owns the broker's socket. A process can connect to a socket in a read-only mount.
pub(super) fn sidecar_mounts(
    cluster: &Cluster,
    images: &Images,
    install: Install,
) -> Vec<VolumeMount> {
    flux_mounts(cluster, images, install).into_iter().map(read_only).collect()
}

/// Mounts for Flux: the shared volume, the mounted images, the target of the view's links, and the agent's
/// configuration, which `flux-agent connect` needs.
fn flux_mounts(cluster: &Cluster, images: &Images, install: Install) -> Vec<VolumeMount> {
    let view = &cluster.flux.view;
    let mut mounts = vec![mount(&view.container.name, &view.mount_path)];
    if install == Install::Image {
        mounts.push(read_only(mount(&agent_volume(cluster, images), AGENT_MOUNT)));
        let image = view.enabled.then(|| cluster.name.view_image_volume());
        mounts.extend(image.map(|image| read_only(mount(&image, VIEW_MOUNT))));
    }
    if view.enabled {
        mounts.push(match install {
            Install::Image => mount(&cluster.name.software_volume(), Layout::SOFTWARE_MOUNT),
            Install::Copy => VolumeMount {
                sub_path: Some(Layout::SOFTWARE.to_owned()),
                ..mount(&view.container.name, Layout::SOFTWARE_MOUNT)
            },
        });
    }
    mounts.push(read_only(mount(&cluster.name.agent_config_map(), CONFIG_MOUNT)));
    mounts
}

pub(super) fn install_mount(cluster: &Cluster) -> VolumeMount {
    mount(&cluster.flux.view.container.name, INSTALL_MOUNT)
}

/// The shared volume, without a size limit, because the size of the view is unknown and the pod's limits apply.
fn shared(cluster: &Cluster) -> Volume {
    let view = &cluster.flux.view;
    let medium = match view.medium {
        Medium::Disk => None,
        Medium::Memory => Some(IN_MEMORY.to_owned()),
    };
    empty_dir(
        view.container.name.clone(),
        EmptyDirVolumeSource { medium, ..EmptyDirVolumeSource::default() },
    )
}

/// The volume with links to the packages of a mounted view. It is a separate volume, because a `subPath` of another
/// one costs the kubelet two mounts for each pod.
fn software(cluster: &Cluster) -> Volume {
    empty_dir(cluster.name.software_volume(), EmptyDirVolumeSource::default())
}

/// The private volume, in memory, so that no key is written to the node's disk.
fn private(cluster: &Cluster) -> Volume {
    let size_limit = Some(Quantity(PRIVATE_LIMIT.to_owned()));
    let medium = Some(IN_MEMORY.to_owned());
    let source = EmptyDirVolumeSource { medium, size_limit, ..EmptyDirVolumeSource::default() };
    empty_dir(cluster.name.private_volume(), source)
}

fn empty_dir(name: String, source: EmptyDirVolumeSource) -> Volume {
    Volume { name, empty_dir: Some(source), ..Volume::default() }
}

/// One image volume for each image: the kubelet emits an Event for each image volume at each sync of the pod.
fn image_volumes(cluster: &Cluster, images: &Images) -> Vec<Volume> {
    let view = &cluster.flux.view;
    let agent = (!images.have(view)).then(|| {
        let (reference, pull_policy) = (images.agent.clone(), images.agent_pull_policy.clone());
        image(cluster.name.agent_image_volume(), Some(reference), Some(pull_policy))
    });
    let Container { image: reference, image_pull_policy: pull_policy, .. } = view.container.clone();
    let name = cluster.name.view_image_volume();
    let view = view.enabled.then(|| image(name, reference, pull_policy));
    agent.into_iter().chain(view).collect()
}

fn agent_volume(cluster: &Cluster, images: &Images) -> String {
    if images.have(&cluster.flux.view) {
        cluster.name.view_image_volume()
    } else {
        cluster.name.agent_image_volume()
    }
}

fn image(name: String, reference: Option<String>, pull_policy: Option<String>) -> Volume {
    let image = Some(ImageVolumeSource { reference, pull_policy });
    Volume { name, image, ..Volume::default() }
}

/// The volume of the agents' `ConfigMap`. The kubelet starts no container before the `ConfigMap` has both keys, and
/// the operator writes the second when it has recorded the run.
fn config(cluster: &Cluster) -> Volume {
    Volume {
        name: cluster.name.agent_config_map(),
        config_map: Some(ConfigMapVolumeSource {
            name: cluster.name.agent_config_map(),
            items: Some(vec![
                item(AGENT_CONFIG_KEY),
                item(&cluster.fixed_fields.run_key(&cluster.owner.uid, cluster.run_id.as_deref())),
            ]),
            ..ConfigMapVolumeSource::default()
        }),
        ..Volume::default()
    }
}

fn item(key: &str) -> KeyToPath {
    KeyToPath { key: key.to_owned(), path: key.to_owned(), ..KeyToPath::default() }
}

fn curve(cluster: &Cluster) -> Volume {
    key_volume(cluster.name.curve_volume(), cluster.curve_secret(), &[CURVE_SECRET_KEY])
}

fn munge(cluster: &Cluster) -> Option<Volume> {
    let secret = cluster.flux.munge_secret.clone()?;
    Some(key_volume(cluster.name.munge_volume(), secret, &[MUNGE_SECRET_KEY]))
}

fn rest_tls(cluster: &Cluster) -> Option<Volume> {
    let secret = cluster.flux.rest_tls_secret.clone()?;
    Some(key_volume(cluster.name.rest_tls_volume(), secret, &TLS_SECRET_KEYS))
}

fn key_volume(name: String, secret: String, keys: &[&str]) -> Volume {
    Volume {
        name,
        secret: Some(SecretVolumeSource {
            secret_name: Some(secret),
            items: Some(keys.iter().map(|key| item(key)).collect()),
            default_mode: Some(KEY_MODE),
            ..SecretVolumeSource::default()
        }),
        ..Volume::default()
    }
}

fn mount(name: &str, path: &str) -> VolumeMount {
    VolumeMount { name: name.to_owned(), mount_path: path.to_owned(), ..VolumeMount::default() }
}

fn read_only(mount: VolumeMount) -> VolumeMount {
    VolumeMount { read_only: Some(true), ..mount }
}
