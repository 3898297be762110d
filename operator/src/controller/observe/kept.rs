//! A store of objects of one kind that takes bounded memory. An object of a run that is over never takes the place of
//! one that runs.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::ObjectMeta;
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::watcher::Event;
use kube::{Resource, ResourceExt as _};
use parking_lot::Mutex;
use serde::Serialize;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::mem;
use std::sync::Arc;

/// Largest object that is stored whole, in bytes of JSON; without scripts, objects have less than 4 KiB.
const OBJECT_SIZE_LIMIT: usize = 16 * 1024;
/// Memory limit of the whole objects of running MiniClusters in one store in bytes, as estimated by [`memory_of`]:
/// enough for 2,000. Objects of runs that are over may take half as much besides.
const STORE_LIMIT: usize = 16 * 1024 * 1024;
/// Longest name of an owner that the identity of a large object keeps.
const OWNER_NAME_LIMIT: usize = 253;

/// How far the run of an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    Running,
    /// The object has ended, and the run perhaps not.
    Ended,
    /// The run is over. A first list brings all that have ever been, so none of it is stored.
    Finished,
}

/// A store, and how much memory it may take.
pub(crate) struct Kept<K: Resource<DynamicType = ()> + Clone + 'static> {
    writer: Writer<K>,
    budget: Budget,
}

pub(crate) type SharedKept<K> = Arc<Mutex<Kept<K>>>;

impl<K: Resource<DynamicType = ()> + Serialize + Default + Clone> Kept<K> {
    /// An empty store, and what writes into it.
    pub(crate) fn shared() -> (Store<K>, SharedKept<K>) {
        let (store, writer) = reflector::store();
        (store, Arc::new(Mutex::new(Self { writer, budget: Budget::default() })))
    }

    /// Stores what `event` brings as far as there is room. Returns the event with the object as it is stored.
    pub(crate) fn write(&mut self, mut event: Event<K>, strip: fn(&mut K) -> Stage) -> Event<K> {
        let stage = self.budget.fit(&mut event, strip);
        if let Event::InitApply(object) = &event
            && stage == Stage::Finished
        {
            self.budget.release(object);
        } else {
            self.writer.apply_watcher_event(&event);
        }
        event
    }

    /// Removes the object `name` that `owner` controls.
    pub(crate) fn forget(&mut self, namespace: &str, name: &str, owner: &str) {
        let key = ObjectRef::new(name).within(namespace);
        let Some(object) = self.writer.as_reader().get(&key) else { return };
        let is_controller = |it: &OwnerReference| it.controller == Some(true) && it.uid == owner;
        if object.owner_references().iter().any(is_controller) {
            self.budget.release(&*object);
            self.writer.apply_watcher_event(&Event::Delete((*object).clone()));
        }
    }
}

/// Memory of the whole objects of a store, by a hash of namespace and name.
#[derive(Default)]
struct Budget {
    /// The size of each object, and whether it runs.
    sizes: HashMap<u64, (usize, bool)>,
    sum_of_running: usize,
    sum_of_others: usize,
}

impl Budget {
    /// Strips the object of `event`, and reduces it to its identity if it exceeds [`OBJECT_SIZE_LIMIT`] or [`STORE_LIMIT`].
    fn fit<K>(&mut self, event: &mut Event<K>, strip: fn(&mut K) -> Stage) -> Stage
    where
        K: Resource + Serialize + Default + Clone,
    {
        match event {
            Event::Init => *self = Self::default(),
            Event::InitApply(object) | Event::Apply(object) => {
                let stage = strip(object);
                self.hold(object, stage);
                // A parsed `Vec` has spare capacity, of up to a KiB for each element; a clone has none.
                *object = object.clone();
                return stage;
            }
            Event::Delete(object) => {
                let stage = strip(object);
                self.release(object);
                return stage;
            }
            Event::InitDone => {}
        }
        Stage::Running
    }

    fn hold<K>(&mut self, object: &mut K, stage: Stage)
    where
        K: Resource + Serialize + Default,
    {
        let key = self.release(object);
        let runs = stage == Stage::Running;
        let (sum, limit) = if runs {
            (&mut self.sum_of_running, STORE_LIMIT)
        } else {
            (&mut self.sum_of_others, STORE_LIMIT / 2)
        };
        match memory_of(object).filter(|size| *sum + size <= limit) {
            Some(size) => {
                *sum += size;
                self.sizes.insert(key, (size, runs));
            }
            None => leave_identity(object),
        }
    }

    fn release(&mut self, object: &impl Resource) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&object.meta().namespace, &object.meta().name).hash(&mut hasher);
        let key = hasher.finish();
        let (size, runs) = self.sizes.remove(&key).unwrap_or_default();
        let sum = if runs { &mut self.sum_of_running } else { &mut self.sum_of_others };
        *sum -= size;
        key
    }
}

/// An estimate of the memory of `object`: the size of its JSON, and 64 bytes for each field and map entry. `None` if
/// it is larger than [`OBJECT_SIZE_LIMIT`].
fn memory_of(object: &impl Serialize) -> Option<usize> {
    let text = serde_json::to_vec(object).ok().filter(|text| text.len() <= OBJECT_SIZE_LIMIT)?;
    Some(text.len() + 64 * text.split(|byte| *byte == b':').count())
}

/// True for an object that is not reduced to its identity.
pub(crate) fn is_whole(object: &impl Resource) -> bool {
    object.meta().resource_version.is_some()
}

/// Removes everything but the identity from an object, also the resource version, which [`is_whole`] looks at.
fn leave_identity<K: Resource + Default>(object: &mut K) {
    let metadata = mem::take(object.meta_mut());
    let owners = metadata.owner_references.into_iter().flatten();
    let controller = owners.filter(|it| it.controller == Some(true)).filter(is_short).take(1);
    *object = K::default();
    *object.meta_mut() = ObjectMeta {
        name: metadata.name,
        namespace: metadata.namespace,
        uid: metadata.uid,
        owner_references: Some(controller.collect()),
        ..ObjectMeta::default()
    };
}

fn is_short(owner: &OwnerReference) -> bool {
    [&owner.name, &owner.uid, &owner.api_version].iter().all(|text| text.len() <= OWNER_NAME_LIMIT)
}

#[cfg(test)]
mod tests;
