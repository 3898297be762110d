//! What a trial needs: a cluster, the images, the installed operator.

use crate::cli::ClusterArguments;
use crate::cluster::{Cluster, ClusterChoice};
use crate::notes;
use crate::product::binaries::{self, Binaries};
use crate::product::install::{self, Installation};
use crate::product::view::View;
use crate::product::{images, printed};
use crate::progress;
use crate::trial::Trial;
use crate::trial::evidence::keep_evidence;
use crate::wait;
use anyhow::{Context as _, Result, anyhow};
use flux_api::crd::Install;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The name of the CRD of this operator, and of the one in Go.
pub const MINICLUSTERS: &str = "miniclusters.flux-framework.org";

/// A cluster with the operator of this checkout installed.
#[derive(Debug)]
pub struct Environment {
    pub cluster: Cluster,
    /// The programs that were built for the cluster; `None` if the tests use the installed operator.
    built: Option<Binaries>,
}

impl Environment {
    /// Starts the cluster if need be, builds and loads the images, installs the operator. With
    /// `published`, Flux is the published view image where it can be pulled.
    pub fn prepare(target: &ClusterChoice, published: bool) -> Result<Self> {
        let built = binaries::build()?;
        let cluster = Cluster::up(target)?;
        let view = if published {
            View::published_if_possible(&cluster)?
        } else {
            View::from_environment()?
        };
        let (environment, loaded) = Self::with_images(cluster, built, &view)?;
        environment.install(loaded)?;
        Ok(environment)
    }

    /// Prepares a cluster with the images and without an operator; the installation names these images.
    pub fn without_operator(target: &ClusterChoice) -> Result<(Self, Installation)> {
        let built = binaries::build()?;
        let cluster = Cluster::up(target)?;
        Self::with_images(cluster, built, &View::from_environment()?)
    }

    /// Loads the images of these programs and this view into the cluster; the installation names these images.
    pub fn with_images(
        cluster: Cluster,
        built: Binaries,
        view: &View,
    ) -> Result<(Self, Installation)> {
        progress::log(&view.describe());
        let installation = images::load(&cluster, &built, view)?;
        Ok((Self { cluster, built: Some(built) }, installation))
    }

    /// Installs the operator.
    pub fn install(&self, loaded: Installation) -> Result<()> {
        let installation = Installation { install: Self::asked_for_install()?, ..loaded };
        progress::step("installing the operator", || install::install(&self.cluster, &installation))
    }

    /// Reads `FLUX_OPERATOR_INSTALL`: how agent and view come into the pods of MiniClusters that do not specify it.
    /// Without the variable the operator decides.
    pub fn asked_for_install() -> Result<Option<Install>> {
        const VARIABLE: &str = "FLUX_OPERATOR_INSTALL";
        let Some(text) = std::env::var(VARIABLE).ok().filter(|it| !it.is_empty()) else {
            return Ok(None);
        };
        let method = text.parse::<Install>();
        method.map(Some).map_err(|error| anyhow!("reading {VARIABLE}={text}: {error}"))
    }

    /// Prepares what the tests share, with the images that only tests use. A second call finds almost everything there.
    pub(crate) fn of_tests(target: &ClusterChoice) -> Result<Self> {
        let environment = Self::prepare(target, false)?;
        if let Some(built) = &environment.built {
            let view = View::from_environment()?;
            images::for_tests::load(&environment.cluster, built, &view)?;
        }
        Ok(environment)
    }

    /// Uses the cluster as it is: builds, loads and installs nothing.
    pub fn as_it_is(target: &ClusterChoice) -> Result<Self> {
        Ok(Self { cluster: Cluster::up(target)?, built: None })
    }

    /// The environment that the tests of one process share: on the cluster that the environment variables name (see
    /// `ClusterArguments::from_environment`), else on this checkout's own. With `FLUX_E2E_AS_INSTALLED` the tests use
    /// the operator and the images that the cluster has.
    pub fn shared() -> Result<&'static Self> {
        static SHARED: OnceLock<Result<Environment>> = OnceLock::new();
        let prepared = SHARED.get_or_init(|| {
            let target = ClusterArguments::from_environment()?.target()?;
            if std::env::var_os("FLUX_E2E_AS_INSTALLED").is_some() {
                return Self::as_it_is(&target);
            }
            Self::of_tests(&target)
        });
        prepared.as_ref().map_err(|error| anyhow!("preparing the environment: {error:#}"))
    }

    /// Runs `body` with a client, on a thread from which the cluster can be reached.
    pub fn run<T: Send>(&self, body: impl AsyncFnOnce(Client) -> Result<T> + Send) -> Result<T> {
        let work = || {
            self.cluster.enter_network()?;
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .context("starting a runtime")?;
            runtime.block_on(async { body(self.client().await?).await })
        };
        std::thread::scope(|scope| match scope.spawn(work).join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    }

    /// Runs `body` in a namespace of its own; keeps the evidence when it fails, cleans up when it
    /// does not.
    pub fn trial<T: Send>(
        &self,
        purpose: &str,
        body: impl AsyncFnOnce(&Trial) -> Result<T> + Send,
    ) -> Result<T> {
        let begun = Instant::now();
        let ended = self.run(async |client| {
            let trial = Trial::begin(&self.cluster, &client, purpose).await?;
            match body(&trial).await {
                Ok(outcome) => trial.clean().await.map(|()| outcome),
                Err(error) => Err(anyhow!("{error:#}\n{}", keep_evidence(&trial).await)),
            }
        });
        notes::took(purpose, begun.elapsed());
        ended
    }

    /// A client for threads from which the cluster can be reached.
    pub async fn client(&self) -> Result<Client> {
        let path = self.cluster.kubeconfig();
        let reading = || format!("reading the kubeconfig {}", path.display());
        let kubeconfig = Kubeconfig::read_from(path).with_context(reading)?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .with_context(reading)?;
        Client::try_from(config).context("making a client of the cluster")
    }

    /// Whether the cluster is one of ours, with the images that no registry has.
    pub fn is_own(&self) -> bool {
        self.cluster.own().is_some()
    }

    /// The operator's program, where it was built for this environment.
    pub fn operator(&self) -> Option<&Path> {
        self.built.as_ref().map(|built| built.operator.as_path())
    }

    /// Loads a view of another release of Flux into a cluster of programs that were built, and returns its name.
    pub fn load_another_release(&self) -> Result<Option<&'static str>> {
        let load = |built: &Binaries| images::load_another_release(&self.cluster, built);
        self.built.as_ref().map_or(Ok(None), load)
    }

    /// Runs `kubectl` with these arguments and returns the output.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        printed(&mut self.cluster.kubectl(arguments))
    }

    /// Waits until MiniClusters can be made.
    pub fn await_definition(&self) -> Result<()> {
        self.await_served(MINICLUSTERS)
    }

    /// Waits until objects of this CRD can be made. `kubectl` fails where it has no conditions yet.
    pub fn await_served(&self, definition: &str) -> Result<()> {
        const DEADLINE: Duration = Duration::from_mins(1);
        const ESTABLISHED: &str =
            "-ojsonpath={.status.conditions[?(@.type=='Established')].status}";
        let look = ["get", "customresourcedefinition", definition, ESTABLISHED];
        wait::until(&format!("{definition} to be served"), DEADLINE, || {
            Ok(self
                .kubectl(&look)
                .and_then(|seen| if seen == "True" { Ok(()) } else { Err(anyhow!(seen)) }))
        })
    }

    /// Runs `program` with these arguments and the cluster's kubeconfig, and returns the output.
    pub fn output_of(&self, program: &Path, arguments: &[&str]) -> Result<String> {
        printed(self.cluster.program(program).args(arguments))
    }
}
