//! `containers[].volumes`: sources, mounts and collisions.

use super::text::{
    is_absolute_path, is_data_key, is_label, is_subdomain, non_empty, non_empty_owned,
};
use super::violations::Violations;
use crate::crd::ContainerVolume;
use k8s_openapi::api::core::v1::{
    CSIVolumeSource, ConfigMapVolumeSource, EmptyDirVolumeSource, HostPathVolumeSource, KeyToPath,
    PersistentVolumeClaimVolumeSource, SecretVolumeSource, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use std::collections::BTreeMap;
use std::path::Path;

/// Default mount path of an `emptyDir`, as in the Go operator.
const SHARED_MEMORY: &str = "/dev/shm";

/// The volumes of a pod by name, and the reserved paths and names.
pub(super) struct Volumes<'cluster> {
    pub(super) reserved_paths: &'cluster [String],
    /// Names of the operator's own volumes.
    pub(super) reserved_names: Vec<String>,
    /// Each volume with the path of the field that has it first.
    pub(super) by_name: BTreeMap<String, (String, Volume)>,
}

impl Volumes<'_> {
    /// Adds the volumes of the container at `path`; returns its mounts.
    pub(super) fn mount(
        &mut self,
        path: &str,
        volumes: &BTreeMap<String, ContainerVolume>,
        faults: &mut Violations,
    ) -> Vec<VolumeMount> {
        let mut mounts: Vec<VolumeMount> = Vec::new();
        for (name, volume) in volumes {
            let path = format!("{path}.volumes[{name}]");
            self.add(&path, name, volume, faults);
            let Some(mount) = self.mount_of(&path, name, volume, faults) else { continue };
            let same =
                |other: &&VolumeMount| Path::new(&other.mount_path) == Path::new(&mount.mount_path);
            if let Some(other) = mounts.iter().find(same) {
                faults.add(
                    format!("{path}.path"),
                    format!(
                        "{:?} is where volume {:?} is mounted: give another path",
                        mount.mount_path, other.name
                    ),
                );
            }
            mounts.push(mount);
        }
        mounts
    }

    fn mount_of(
        &self,
        path: &str,
        name: &str,
        volume: &ContainerVolume,
        faults: &mut Violations,
    ) -> Option<VolumeMount> {
        let target = non_empty(volume.path.as_ref())
            .or_else(|| volume.empty_dir.then_some(SHARED_MEMORY))?;
        let target = if target == "/" { target } else { target.trim_end_matches('/') };
        let inside = |reserved: &String| Path::new(target).starts_with(reserved);
        if !is_absolute_path(target) || target == "/" || target.contains(':') {
            faults.add(
                format!("{path}.path"),
                format!("{target:?} is no mount path: give an absolute path without '..' and ':', other than '/'"),
            );
        } else if self.reserved_paths.iter().any(inside) {
            faults.add(
                format!("{path}.path"),
                format!("{target:?} belongs to the operator: mount the volume elsewhere"),
            );
        }
        Some(VolumeMount {
            name: name.to_owned(),
            mount_path: target.to_owned(),
            read_only: volume.read_only.then_some(true),
            ..VolumeMount::default()
        })
    }

    fn add(&mut self, path: &str, name: &str, volume: &ContainerVolume, faults: &mut Violations) {
        let is_free = !self.reserved_names.iter().any(|reserved| reserved == name);
        faults.require(is_label(name) && is_free, path, || {
            format!("volume {name:?} has the name of a volume of the operator, or none that Kubernetes takes: use another, of lower-case letters, digits and '-'")
        });
        let volume = Volume { name: name.to_owned(), ..source(path, volume, faults) };
        match self.by_name.get(name) {
            Some((first, other)) if *other != volume => faults.add(
                path,
                format!("volume {name:?} has another source than in {first}: use another name, or the same source"),
            ),
            Some(_) => {}
            None => {
                self.by_name.insert(name.to_owned(), (path.to_owned(), volume));
            }
        }
    }
}

pub(super) fn is_mounted(path: &str, mounts: &[VolumeMount]) -> bool {
    mounts.iter().any(|mount| Path::new(path).starts_with(&mount.mount_path))
}

fn source(path: &str, volume: &ContainerVolume, faults: &mut Violations) -> Volume {
    check_details(path, volume, faults);
    let items = items(volume);
    let mut result = Volume::default();
    if let Some(driver) = non_empty(volume.csi_driver.as_ref()) {
        let attributes = &volume.csi_driver_attributes;
        result.csi = Some(CSIVolumeSource {
            driver: driver.to_owned(),
            read_only: volume.read_only.then_some(true),
            volume_attributes: (!attributes.is_empty()).then(|| attributes.clone()),
            ..CSIVolumeSource::default()
        });
    } else if let Some(name) = non_empty_owned(volume.secret_name.as_ref()) {
        result.secret = Some(SecretVolumeSource {
            secret_name: Some(name),
            items,
            ..SecretVolumeSource::default()
        });
    } else if let Some(name) = non_empty_owned(volume.config_map_name.as_ref()) {
        result.config_map =
            Some(ConfigMapVolumeSource { name, items, ..ConfigMapVolumeSource::default() });
    } else if let Some(claim_name) = non_empty_owned(volume.claim_name.as_ref()) {
        result.persistent_volume_claim = Some(PersistentVolumeClaimVolumeSource {
            claim_name,
            ..PersistentVolumeClaimVolumeSource::default()
        });
    } else if let Some(host_path) = non_empty(volume.host_path.as_ref()) {
        if !is_absolute_path(host_path) {
            faults.add(
                format!("{path}.hostPath"),
                format!("{host_path:?} is not an absolute path without '..'"),
            );
        }
        result.host_path = Some(HostPathVolumeSource {
            path: host_path.to_owned(),
            ..HostPathVolumeSource::default()
        });
    } else {
        result.empty_dir = Some(EmptyDirVolumeSource {
            medium: medium(path, volume, faults),
            size_limit: non_empty(volume.empty_dir_size_limit.as_ref())
                .map(|limit| Quantity(limit.to_owned())),
            ..EmptyDirVolumeSource::default()
        });
    }
    result
}

/// Refuses fields that do not belong to the kind of source.
fn check_details(path: &str, volume: &ContainerVolume, faults: &mut Violations) {
    let has = |field: &Option<String>| non_empty(field.as_ref()).is_some();
    let of_files = has(&volume.config_map_name) || has(&volume.secret_name);
    let of_driver = has(&volume.csi_driver);
    let is_empty_dir =
        !(of_files || of_driver || has(&volume.claim_name) || has(&volume.host_path));
    let asks_for_empty =
        volume.empty_dir || has(&volume.empty_dir_medium) || has(&volume.empty_dir_size_limit);
    faults.require(asks_for_empty || !is_empty_dir, path, || {
        "has no source: give claimName, hostPath, configMapName, secretName or csiDriver, or emptyDir: true".to_owned()
    });
    let empty_dir = "an emptyDir";
    for (field, is_given, applies, source) in [
        ("emptyDirMedium", has(&volume.empty_dir_medium), is_empty_dir, empty_dir),
        ("emptyDirSizeLimit", has(&volume.empty_dir_size_limit), is_empty_dir, empty_dir),
        ("items", !volume.items.is_empty(), of_files, "configMapName and secretName"),
        ("csiDriverAttributes", !volume.csi_driver_attributes.is_empty(), of_driver, "csiDriver"),
    ] {
        faults.require(applies || !is_given, format!("{path}.{field}"), || {
            format!("applies to {source} only: remove it")
        });
    }
    for (key, file) in &volume.items {
        let is_inside = !file.is_empty()
            && is_absolute_path(&format!("/{file}"))
            && !file.starts_with(['/', '.']);
        faults.require(is_data_key(key) && is_inside, format!("{path}.items[{key}]"), || {
            format!("{key:?} is no key, or {file:?} no path below the mount: give a key of the object, and a relative path without '..'")
        });
    }
    let driver = non_empty(volume.csi_driver.as_ref());
    let fits = driver.is_none_or(|driver| driver.len() <= 63 && is_subdomain(driver));
    faults.require(fits, format!("{path}.csiDriver"), || {
        format!(
            "{:?} is no name of a driver: use at most 63 lower-case letters, digits, '-' and '.'",
            driver.unwrap_or_default()
        )
    });
}

fn items(volume: &ContainerVolume) -> Option<Vec<KeyToPath>> {
    let item = |(key, path): (&String, &String)| KeyToPath {
        key: key.clone(),
        path: path.clone(),
        ..KeyToPath::default()
    };
    (!volume.items.is_empty()).then(|| volume.items.iter().map(item).collect())
}

fn medium(path: &str, volume: &ContainerVolume, faults: &mut Violations) -> Option<String> {
    let medium = non_empty(volume.empty_dir_medium.as_ref())?;
    if medium.eq_ignore_ascii_case("memory") {
        return Some("Memory".to_owned());
    }
    faults.require(medium.starts_with("HugePages"), format!("{path}.emptyDirMedium"), || {
        format!(
            "{medium:?} is no medium: use memory, HugePages or HugePages-<size>, or leave it out"
        )
    });
    Some(medium.to_owned())
}
