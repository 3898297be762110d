//! `burst`: a second MiniCluster, usually in another Kubernetes cluster, whose brokers join a running one.

mod lead;
mod second;

use crate::commands::status::summary;
use crate::connection::{Connection, ConnectionArguments};
use crate::duration::duration;
use crate::minicluster::{MiniClusterRef, NameArgument, new_name, objects};
use crate::output::{FormatArgument, print, print_stderr};
use anyhow::{Context as _, Result, bail, ensure};
use clap::{Args, ValueEnum};
use flux_api::crd::{MiniCluster, MiniClusterStatus, State};
use flux_contract::CURVE_SECRET_KEY;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Secret, Service};
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions};
use kube::core::{DynamicObject, PartialObjectMeta};
use kube::{Api, Resource as _, ResourceExt};
use lead::{Address, BURST_OF, read_certificate};
use second::{Plan, Side, default_name, minicluster, plan};
use serde::de::DeserializeOwned;
use serde_json::json;
use std::fmt::Debug;
use std::marker::PhantomData;
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
            kubeconfig: arguments.kubeconfig.clone(),
            context: Some(self.to.clone()),
            namespace: self.to_namespace.clone(),
            request_timeout: arguments.request_timeout,
            ..ConnectionArguments::default()
        };
        let second = Connection::new(&arguments).await;
        let second = second.with_context(|| format!("use the context {}", self.to))?;
        let lead = self.lead.target(connection);
        let limit = self.timeout.unwrap_or(Duration::MAX);
        let work = async {
            if self.down {
                self.delete(&lead, &second).await
            } else {
                Box::pin(self.burst(&lead, &second)).await
            }
        };
        let Ok(done) = timeout(limit, work).await else {
            bail!(
                "not done after {limit:?}; `kubectl flux burst {} --down` deletes what was made",
                lead.name
            )
        };
        done
    }

    async fn burst(&self, lead: &MiniClusterRef, second: &Connection) -> Result<()> {
        let object = lead.object().await?;
        let cluster: MiniCluster = object.clone().try_parse().context("read the MiniCluster")?;
        let plan = plan(&cluster, self.name.as_deref(), self.size)?;
        let certificate = read_certificate(lead).await?;
        let target = MiniClusterRef::new(second.clone(), &plan.name);
        self.check_free(&target).await?;
        let found = lead::service(lead, &plan.name).await?;
        let service = match found {
            None if !self.dry_run => Some(self.create_service(lead, &cluster, &plan).await?),
            found => found,
        };
        let address = lead::reached(lead, service.as_ref(), self.address.as_ref()).await?;
        let side = Side { address, secret: secret_name(&plan.name) };
        let new = minicluster(&object, &cluster, &plan, &side);
        if self.dry_run {
            let text = serde_saphyr::to_string(&new).context("write YAML")?;
            print_stderr(&format!(
                "# its Secret {} has the certificate of {}",
                side.secret, lead.name
            ));
            print(&text);
            return Ok(());
        }
        self.create(second, &lead.name, &side, certificate, &new).await?;
        let status = if self.detach { None } else { Some(self.joined(&target, plan.size).await?) };
        self.print_end(lead, &plan, &side, service.as_ref(), status.as_ref())
    }

    /// Fails if the name of the second MiniCluster is taken.
    async fn check_free(&self, target: &MiniClusterRef) -> Result<()> {
        let found = objects(&target.connection, false).get_metadata_opt(&target.name).await;
        let found = found.with_context(|| self.there("read the MiniCluster", &target.name))?;
        ensure!(
            found.is_none(),
            "the MiniCluster {} exists in the namespace {} of {}: change its size with `kubectl flux scale`, or delete it \
             with --down",
            target.name,
            target.connection.namespace,
            self.to
        );
        Ok(())
    }

    fn there(&self, doing: &str, name: &str) -> String {
        format!("{doing} {name} in {}", self.to)
    }

    async fn create_service(
        &self,
        lead: &MiniClusterRef,
        cluster: &MiniCluster,
        plan: &Plan,
    ) -> Result<Service> {
        let type_ = match self.service {
            ServiceType::NodePort => "NodePort",
            ServiceType::LoadBalancer => "LoadBalancer",
        };
        let new = lead::new_service(cluster, &plan.name, type_);
        let name = new.name_any();
        let created = lead.connection.api().create(&PostParams::default(), &new).await;
        let created = created.with_context(|| format!("create the Service {name}"))?;
        print_stderr(&format!("created the Service {name} of type {type_}"));
        Ok(created)
    }

    /// Creates the Secret and the MiniCluster, which then owns it.
    async fn create(
        &self,
        second: &Connection,
        lead: &str,
        side: &Side,
        certificate: ByteString,
        new: &DynamicObject,
    ) -> Result<()> {
        let secrets: Api<Secret> = second.api();
        let name = &side.secret;
        delete_own(&second.api(), SECRET, name, lead).await?;
        let secret = Secret {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                labels: Some([(BURST_OF.to_owned(), lead.to_owned())].into()),
                ..ObjectMeta::default()
            },
            data: Some([(CURVE_SECRET_KEY.to_owned(), certificate)].into()),
            ..Secret::default()
        };
        let created = secrets.create(&PostParams::default(), &secret).await;
        created.with_context(|| self.there("create the Secret", name))?;
        let created = objects(second, false).create(&PostParams::default(), new).await;
        let created =
            created.with_context(|| self.there("create the MiniCluster", &new.name_any()))?;
        let kind = kube::api::ApiResource::erase::<MiniCluster>(&());
        let owners = json!({ "metadata": { "ownerReferences": [created.owner_ref(&kind)] } });
        let owned = secrets.patch(name, &PatchParams::default(), &Patch::Merge(owners)).await;
        owned.with_context(|| self.there("give the MiniCluster its Secret", name))?;
        print_stderr(&format!("created {} with the Secret {name} in {}", new.name_any(), self.to));
        Ok(())
    }

    /// Waits until so many brokers of the second MiniCluster have joined, and prints what it waits for.
    async fn joined(&self, target: &MiniClusterRef, size: u32) -> Result<MiniClusterStatus> {
        let mut last = String::new();
        let joined = target.until(|cluster| {
            let cluster = cluster.ok_or_else(|| target.absent())?;
            let now = summary(&cluster);
            if matches!(cluster.state(), Some(State::Failed | State::Invalid | State::Complete)) {
                bail!("{now}");
            }
            let status = cluster.status.unwrap_or_default();
            if status.ready_brokers.unsigned_abs() >= size {
                return Ok(Some(status));
            }
            if now != last {
                print_stderr(&now);
                last = now;
            }
            Ok(None)
        });
        joined.await.with_context(|| format!("wait for the brokers in {}", self.to))
    }

    fn print_end(
        &self,
        lead: &MiniClusterRef,
        plan: &Plan,
        side: &Side,
        service: Option<&Service>,
        status: Option<&MiniClusterStatus>,
    ) -> Result<()> {
        let name = MiniClusterRef::new(lead.connection.clone(), &plan.name).full_name();
        let ready = status.map(|status| status.ready_brokers);
        let Address { host, port } = &side.address;
        let report = json!({
            "lead": lead.name, "service": service.map(ResourceExt::name_any), "address": host, "port": port, "context": self.to,
            "name": plan.name, "secret": side.secret, "size": plan.size, "readyBrokers": ready,
        });
        if self.format.print(&report, [name.clone()])? {
            return Ok(());
        }
        print(&match ready {
            Some(ready) => {
                format!("{name}: {ready} brokers of {} have joined {}", self.to, lead.name)
            }
            None => format!("{name} is created in {}", self.to),
        });
        Ok(())
    }

    async fn delete(&self, lead: &MiniClusterRef, second: &Connection) -> Result<()> {
        let first = objects(&lead.connection, false).get_opt(&lead.name).await;
        let first = first.with_context(|| format!("read the MiniCluster {}", lead.name))?;
        let first = first.and_then(|found| found.try_parse::<MiniCluster>().ok());
        let name = self.name.clone().unwrap_or_else(|| default_name(first.as_ref()));
        let of = &lead.name;
        let uid = delete_own(&second.api(), MINICLUSTER, &name, of).await?;
        if let Some(uid) = uid {
            MiniClusterRef::new(second.clone(), &name).until_gone(Some(uid)).await?;
        }
        delete_own(&second.api(), SECRET, &secret_name(&name), of).await?;
        delete_own(&lead.connection.api(), SERVICE, &lead::service_name(of, &name), of).await?;
        Ok(())
    }
}

fn secret_name(burst: &str) -> String {
    format!("{burst}-certificate")
}

/// A kind of object, and how it is deleted: a MiniCluster is gone when its pods are.
struct Deletion<K>(&'static str, fn() -> DeleteParams, PhantomData<K>);

const MINICLUSTER: Deletion<MiniCluster> =
    Deletion("MiniCluster", DeleteParams::foreground, PhantomData);
const SECRET: Deletion<Secret> = Deletion("Secret", DeleteParams::background, PhantomData);
const SERVICE: Deletion<Service> = Deletion("Service", DeleteParams::background, PhantomData);

/// Deletes the object of this name, if there is one, unless others made it. Returns its uid.
async fn delete_own<K>(
    api: &Api<PartialObjectMeta<K>>,
    Deletion(kind, parameters, _): Deletion<K>,
    name: &str,
    lead: &str,
) -> Result<Option<String>>
where
    PartialObjectMeta<K>: Clone + Debug + DeserializeOwned,
{
    let found = api.get_metadata_opt(name).await;
    let Some(found) = found.with_context(|| format!("read the {kind} {name}"))? else {
        return Ok(None);
    };
    let is_own =
        found.metadata.labels.unwrap_or_default().get(BURST_OF).is_some_and(|of| of == lead);
    ensure!(
        is_own,
        "`kubectl flux burst {lead}` has not made the {kind} {name}, which lacks the label {BURST_OF}={lead}: delete or \
         rename it"
    );
    let uid = found.metadata.uid;
    let preconditions = Some(Preconditions { uid: uid.clone(), resource_version: None });
    match api.delete(name, &DeleteParams { preconditions, ..parameters() }).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => {}
        deleted => drop(deleted.with_context(|| format!("delete the {kind} {name}"))?),
    }
    print_stderr(&format!("deleted the {kind} {name}"));
    Ok(Some(uid.unwrap_or_default()))
}
