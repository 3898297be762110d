//! `burst`: a second MiniCluster, usually in another Kubernetes cluster, whose brokers join a running one.

mod lead;
mod second;

use crate::commands::status::summary;
use crate::connection::{Access, Connection, ConnectionArguments};
use crate::duration::duration;
use crate::minicluster::{MiniClusterRef, NameArgument, new_name, objects};
use crate::output::{FormatArgument, print, print_stderr};
use anyhow::{Context as _, Result, anyhow, bail, ensure};
use clap::{Args, ValueEnum};
use flux_api::crd::{MiniCluster, State};
use flux_contract::CURVE_SECRET_KEY;
use k8s_openapi::api::core::v1::{Secret, Service};
use k8s_openapi::{ByteString, NamespaceResourceScope};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::{DynamicObject, PartialObjectMeta};
use kube::{Resource, ResourceExt};
use lead::{Address, BURST_OF, read_certificate};
use second::{default_name, minicluster, plan, secret_name};
use serde::de::DeserializeOwned;
use serde_json::json;
use std::fmt::Debug;
use std::time::Duration;
use tokio::time::timeout;

/// The type of a Service that is reached from outside of its cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ServiceType {
    NodePort,
    LoadBalancer,
}

#[derive(Debug, Args)]
#[command(
    after_help = "In the cluster with the lead this makes a Service, unless there is one by which the lead is reached from \
outside; in the other one a Secret with the lead's certificate, and the MiniCluster. --down deletes these objects and no \
others."
)]
pub(crate) struct Burst {
    #[command(flatten)]
    lead: NameArgument,
    /// Context of the cluster whose pods join
    #[arg(long, value_name = "CONTEXT")]
    to: String,
    /// Namespace there [default: the namespace of the context]
    #[arg(long, value_name = "NAME")]
    to_namespace: Option<String>,
    /// Number of pods [default: as many as the lead has hosts for]
    #[arg(long, value_name = "NUMBER")]
    size: Option<u32>,
    /// Name of the second MiniCluster: one of flux.bursting.clusters [default: the first of them]
    #[arg(long = "name", id = "burst", value_name = "NAME", value_parser = new_name)]
    name: Option<String>,
    /// Where the pods there reach the lead [default: the Service's address, or its port at the node of the lead]
    #[arg(long, value_name = "HOST[:PORT]", value_parser = lead::address)]
    address: Option<Address>,
    /// Type of the Service that is made
    #[arg(long, value_enum, value_name = "TYPE", default_value = "node-port")]
    service: ServiceType,
    /// Do not wait until the brokers have joined
    #[arg(long, short)]
    detach: bool,
    /// Longest time to wait for an address of the lead, and for the brokers [default: no limit]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    timeout: Option<Duration>,
    /// Print the second MiniCluster, and make nothing; takes --address with a port, or a Service that exists
    #[arg(long, conflicts_with = "down")]
    dry_run: bool,
    /// Delete what this command has made in both clusters
    #[arg(long, conflicts_with_all = ["size", "address", "detach"])]
    down: bool,
    #[command(flatten)]
    format: FormatArgument,
}

impl Burst {
    pub(crate) async fn execute(
        &self,
        connection: Connection,
        arguments: &ConnectionArguments,
    ) -> Result<()> {
        let arguments = ConnectionArguments {
            context: Some(self.to.clone()),
            namespace: self.to_namespace.clone(),
            access: Access::default(),
            names_last: false,
            ..arguments.clone()
        };
        let second = Connection::new(&arguments).await;
        let second = second.with_context(|| format!("use the context {}", self.to))?;
        let lead = self.lead.target(connection);
        let limit = self.timeout.unwrap_or(Duration::MAX);
        let work = async {
            if self.down {
                self.delete(&lead, &second).await
            } else {
                Box::pin(self.burst(&lead, second)).await
            }
        };
        let late = |_| {
            let name = &lead.name;
            Err(anyhow!(
                "not done after {limit:?}; `kubectl flux burst {name} --down` deletes what was made"
            ))
        };
        timeout(limit, work).await.unwrap_or_else(late)
    }

    async fn burst(&self, lead: &MiniClusterRef, second: Connection) -> Result<()> {
        let object = lead.object().await?;
        let cluster: MiniCluster = object.clone().try_parse().context("read the MiniCluster")?;
        let plan = plan(&cluster, self.name.as_deref(), self.size)?;
        let certificate = read_certificate(lead).await?;
        let target = MiniClusterRef::new(second, &plan.name);
        self.check_free(&target).await.with_context(|| self.there())?;
        let service = match lead::service(lead, &plan.name).await? {
            None if !self.dry_run => Some(self.create_service(lead, &cluster, &plan.name).await?),
            found => found,
        };
        let address = lead::reached(lead, service.as_ref(), self.address.as_ref()).await?;
        let new = minicluster(&object, &cluster, &plan, &address);
        let (of, secret) = (&lead.name, secret_name(&plan.name));
        if self.dry_run {
            print_stderr(&format!("# its Secret {secret} has the certificate of {of}"));
            print(&serde_saphyr::to_string(&new).context("write YAML")?);
            return Ok(());
        }
        let created = create(&target, of, &secret, certificate, &new).await;
        created.with_context(|| self.there())?;
        print_stderr(&format!("created {} with the Secret {secret} in {}", plan.name, self.to));
        let ready = if self.detach { None } else { Some(self.joined(&target, plan.size).await?) };
        let (name, Address { host, port }) = (target.full_name(), address);
        let report = json!({
            "lead": of, "service": service.map(|it| it.name_any()), "address": host, "port": port, "context": self.to,
            "name": plan.name, "secret": secret, "size": plan.size, "readyBrokers": ready,
        });
        if !self.format.print(&report, [name.clone()])? {
            print(&match ready {
                Some(ready) => format!("{name}: {ready} brokers of {} have joined {of}", self.to),
                None => format!("{name} is created in {}", self.to),
            });
        }
        Ok(())
    }

    fn there(&self) -> String {
        format!("burst to {}", self.to)
    }

    /// Fails if the name of the second MiniCluster is taken.
    async fn check_free(&self, target: &MiniClusterRef) -> Result<()> {
        let MiniClusterRef { connection, name } = target;
        let found = objects(connection, false).get_metadata_opt(name).await;
        let is_free = found.with_context(|| format!("read the MiniCluster {name}"))?.is_none();
        ensure!(
            is_free,
            "the MiniCluster {name} exists in the namespace {} of {}: change its size with `kubectl flux scale`, or \
             delete it with --down",
            connection.namespace,
            self.to
        );
        Ok(())
    }

    async fn create_service(
        &self,
        lead: &MiniClusterRef,
        cluster: &MiniCluster,
        burst: &str,
    ) -> Result<Service> {
        let type_ = format!("{:?}", self.service);
        let new = lead::new_service(cluster, burst, &type_)?;
        let name = new.name_any();
        let created = lead.connection.api().create(&PostParams::default(), &new).await;
        let created = created.with_context(|| format!("create the Service {name}"))?;
        print_stderr(&format!("created the Service {name} of type {type_}"));
        Ok(created)
    }

    /// Waits until so many brokers of the second MiniCluster have joined, and prints what it waits for; returns how many
    /// there are.
    async fn joined(&self, target: &MiniClusterRef, size: u32) -> Result<i32> {
        let mut last = String::new();
        let joined = target.until(|cluster| {
            let cluster = cluster.ok_or_else(|| target.absent())?;
            let now = summary(&cluster);
            if matches!(cluster.state(), Some(State::Failed | State::Invalid | State::Complete)) {
                bail!("{now}");
            }
            let ready = cluster.status.map_or(0, |status| status.ready_brokers);
            let is_done = ready.unsigned_abs() >= size;
            if !is_done && now != last {
                print_stderr(&now);
                last = now;
            }
            Ok(is_done.then_some(ready))
        });
        joined.await.with_context(|| format!("wait for the brokers in {}", self.to))
    }

    async fn delete(&self, lead: &MiniClusterRef, second: &Connection) -> Result<()> {
        let MiniClusterRef { connection, name: of } = lead;
        let first = connection.api::<MiniCluster>().get_opt(of).await;
        let first = first.with_context(|| format!("read the MiniCluster {of}"))?;
        let name = self.name.clone().unwrap_or_else(|| default_name(first.as_ref()));
        // It is gone when its pods are.
        let foreground = DeleteParams::foreground();
        if let Some(uid) = delete_own::<MiniCluster>(second, &name, of, foreground).await? {
            MiniClusterRef::new(second.clone(), &name).until_gone(Some(uid)).await?;
        }
        let background = DeleteParams::background();
        delete_own::<Secret>(second, &secret_name(&name), of, background.clone()).await?;
        let service = lead::service_name(of, &name);
        delete_own::<Service>(connection, &service, of, background).await?;
        Ok(())
    }
}

/// Creates the Secret and the MiniCluster `new`, which then owns it.
async fn create(
    target: &MiniClusterRef,
    lead: &str,
    name: &str,
    certificate: ByteString,
    new: &DynamicObject,
) -> Result<()> {
    let second = &target.connection;
    let (secrets, parameters) = (second.api::<Secret>(), PostParams::default());
    delete_own::<Secret>(second, name, lead, DeleteParams::background()).await?;
    let secret = json!({
        "metadata": { "name": name, "labels": { BURST_OF: lead } }, "data": { CURVE_SECRET_KEY: certificate },
    });
    let secret = serde_json::from_value(secret).context("make the Secret")?;
    let created = secrets.create(&parameters, &secret).await;
    created.with_context(|| format!("create the Secret {name}"))?;
    let created = objects(second, false).create(&parameters, new).await;
    let created = created.with_context(|| format!("create the MiniCluster {}", target.name))?;
    let kind = kube::api::ApiResource::erase::<MiniCluster>(&());
    let owners = json!({ "metadata": { "ownerReferences": [created.owner_ref(&kind)] } });
    let owned = secrets.patch(name, &PatchParams::default(), &Patch::Merge(owners)).await;
    owned.with_context(|| format!("give the MiniCluster its Secret {name}"))?;
    Ok(())
}

/// Deletes the object of this name, if there is one, unless others made it. Returns its uid.
async fn delete_own<K>(
    connection: &Connection,
    name: &str,
    lead: &str,
    parameters: DeleteParams,
) -> Result<Option<String>>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    PartialObjectMeta<K>: Clone + Debug + DeserializeOwned,
{
    let (kind, api) = (K::kind(&()), connection.api::<PartialObjectMeta<K>>());
    let found = api.get_metadata_opt(name).await;
    let Some(found) = found.with_context(|| format!("read the {kind} {name}"))? else {
        return Ok(None);
    };
    ensure!(
        found.labels().get(BURST_OF).is_some_and(|of| of == lead),
        "`kubectl flux burst {lead}` has not made the {kind} {name}, which lacks the label {BURST_OF}={lead}: delete or \
         rename it"
    );
    let uid = found.uid();
    let preconditions = Some(Preconditions { uid: uid.clone(), resource_version: None });
    match api.delete(name, &DeleteParams { preconditions, ..parameters }).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => {}
        deleted => drop(deleted.with_context(|| format!("delete the {kind} {name}"))?),
    }
    print_stderr(&format!("deleted the {kind} {name}"));
    Ok(Some(uid.unwrap_or_default()))
}
