//! What every reconcile of a MiniCluster works with.

use super::failures::Failures;
use super::observe::demand::Demands;
use super::observe::image_volumes::ImageVolumes;
use super::observe::rate_limit::RateLimit;
use super::observe::mini_cluster_cache::Recent;
use super::observe::stores::{Stores, Writers};
use crate::metrics::Metrics;
use flux_api::cluster::validate::Defaults;
use flux_api::objects::Images;
use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::runtime::events::Reporter;
use kube::{Api, Client, Resource};
use parking_lot::Mutex;
use std::sync::Arc;

pub(super) const FIELD_MANAGER: &str = "flux-operator";

/// What every reconcile works with.
pub struct Context {
    pub(super) client: Client,
    pub(super) reporter: Reporter,
    pub(super) metrics: Arc<Metrics>,
    pub(super) images: Images,
    pub(super) defaults: Defaults,
    /// What the watches bring.
    pub(super) stores: Stores,
    /// Until the watches begin.
    pub(super) writers: Mutex<Option<Writers>>,
    pub(super) recent: Arc<Recent>,
    pub(super) image_volumes: ImageVolumes,
    pub(super) demands: Arc<Demands>,
    /// Of checks that are repeated.
    pub(super) check_rate: RateLimit,
    /// Of statuses that say what a MiniCluster goes on waiting for.
    pub(super) status_rate: RateLimit,
    pub(super) failures: Failures,
    /// Tells the time: the system's, unless it is that of a simulation.
    pub clock: Box<dyn Fn() -> Timestamp + Send + Sync>,
}

impl Context {
    /// A context that acts through `client`; `instance` names this operator's pod in Events.
    pub fn new(
        client: Client,
        instance: Option<String>,
        metrics: Arc<Metrics>,
        images: Images,
        defaults: Defaults,
    ) -> Self {
        let (stores, writers) = Stores::new();
        Self {
            reporter: Reporter { controller: FIELD_MANAGER.to_owned(), instance },
            client,
            metrics,
            images,
            defaults,
            stores,
            writers: Mutex::new(Some(writers)),
            recent: Arc::default(),
            image_volumes: ImageVolumes::default(),
            demands: Arc::default(),
            check_rate: RateLimit::default(),
            status_rate: RateLimit::default(),
            failures: Failures::default(),
            clock: Box::new(Timestamp::now),
        }
    }

    /// True once the watches have begun, which bring what changes.
    pub(super) fn watches(&self) -> bool {
        self.writers.lock().is_none()
    }

    /// The time in whole seconds, as Kubernetes writes it.
    pub(super) fn now(&self) -> Time {
        let now = (self.clock)();
        Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
    }
}

/// Where to reconcile, and how much at the same time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// The only namespace; all of them unless given.
    pub namespace: Option<String>,
    /// Reconciles that run at the same time, never two of one MiniCluster.
    pub concurrency: u16,
}

pub(super) fn api<K>(client: &Client, namespace: Option<&str>) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}
