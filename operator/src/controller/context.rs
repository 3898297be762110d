//! What every reconcile of a MiniCluster works with.

use super::failures::Failures;
use super::observe::demand::Demands;
use super::observe::image_volumes::ImageVolumes;
use super::observe::mini_cluster_cache::MiniClusterCache;
use super::observe::rate_limit::RateLimit;
use super::observe::stores::{Stores, Writers};
use crate::metrics::Metrics;
use flux_api::cluster::Identity;
use flux_api::cluster::validate::Defaults;
use flux_api::objects::Images;
use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::runtime::events::Reporter;
use kube::{Api, Client, Resource};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(super) const FIELD_MANAGER: &str = "flux-operator";

/// What every reconcile works with: clients, caches and rate limits.
pub struct Context {
    pub(super) client: Client,
    pub(super) reporter: Reporter,
    pub(super) metrics: Arc<Metrics>,
    pub(super) images: Images,
    pub(super) defaults: Defaults,
    pub(super) stores: Stores,
    pub(super) writers: Writers,
    has_watches: AtomicBool,
    pub(super) cache: Arc<MiniClusterCache>,
    pub(super) image_volumes: ImageVolumes,
    pub(super) demands: Arc<Demands>,
    /// Limits repeated checks why pods do not start.
    pub(super) check_rate: RateLimit,
    /// Limits status writes of MiniClusters that still wait.
    pub(super) status_rate: RateLimit,
    pub(super) failures: Failures,
    /// How many finished MiniClusters a namespace keeps; by default all.
    pub keep_finished: Option<usize>,
    /// The clock: the system's, or that of a simulation.
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
            writers,
            has_watches: AtomicBool::new(false),
            cache: Arc::default(),
            image_volumes: ImageVolumes::default(),
            demands: Arc::default(),
            check_rate: RateLimit::default(),
            status_rate: RateLimit::default(),
            failures: Failures::default(),
            keep_finished: None,
            clock: Box::new(Timestamp::now),
        }
    }

    /// True once the watches have begun.
    pub(super) fn watches(&self) -> bool {
        self.has_watches.load(Ordering::Acquire)
    }

    /// Notes that the watches begin; false if they have begun before.
    pub(super) fn begin_watches(&self) -> bool {
        !self.has_watches.swap(true, Ordering::AcqRel)
    }

    /// Forgets all but the metadata of a MiniCluster whose run has ended, once nothing of it is left to do.
    pub(super) fn forget_run(&self, identity: &Identity, job: Option<&str>) {
        self.writers.forget_run(&self.stores, identity, job);
        self.cache.forget_run(&(identity.namespace.clone(), identity.name.to_string()));
    }

    /// The time in whole seconds, as Kubernetes writes it.
    pub(super) fn now(&self) -> Time {
        let now = (self.clock)();
        Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
    }
}

/// Which namespaces to reconcile, and how many MiniClusters at the same time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// The only namespace; by default all.
    pub namespace: Option<String>,
    /// Number of reconciles at the same time, never two of one MiniCluster.
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
