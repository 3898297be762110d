//! The command line's part about clusters: which one ([`ClusterArguments`]), and what to do with it
//! ([`ClusterCommand`]).

mod commands;

pub use self::commands::ClusterCommand;

use std::{
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
    process::Command,
    str::FromStr,
};

use anyhow::{Context as _, Result, bail};
use clap::{Args, Parser};

use crate::{
    cache::Cache,
    cluster::Target,
    kubernetes::{
        ClusterDomain, ClusterId, IpFamilies, KubernetesVersion, MOST_NODES, Network, Nodes,
        Options, id_of_version,
    },
};

/// Variables that say which cluster tests use; each stands for an option of the command line.
mod variable {
    pub(super) const KUBECONFIG: &str = "FLUX_E2E_KUBECONFIG";
    pub(super) const LOAD_COMMAND: &str = "FLUX_E2E_LOAD_COMMAND";
    pub(super) const ID: &str = "FLUX_E2E_ID";
    pub(super) const IP_FAMILY: &str = "FLUX_E2E_IP_FAMILY";
    pub(super) const CLUSTER_DOMAIN: &str = "FLUX_E2E_CLUSTER_DOMAIN";
    pub(super) const KUBERNETES: &str = "FLUX_E2E_KUBERNETES";
    pub(super) const NODES: &str = "FLUX_E2E_NODES";
    pub(super) const ALL: [&str; 7] =
        [KUBECONFIG, LOAD_COMMAND, ID, IP_FAMILY, CLUSTER_DOMAIN, KUBERNETES, NODES];
}

/// Which cluster to work with.
#[derive(Debug, Clone, Default, Args)]
pub struct ClusterArguments {
    /// Use the cluster of this kubeconfig instead of one on this machine.
    #[arg(long, value_name = "FILE", env = variable::KUBECONFIG)]
    kubeconfig: Option<PathBuf>,
    /// Use the cluster of $KUBECONFIG, or of ~/.kube/config.
    #[arg(long, conflicts_with = "kubeconfig")]
    external: bool,
    /// How to load an image archive into that cluster, as 'kind load image-archive {}'.
    #[arg(long, value_name = "COMMAND", env = variable::LOAD_COMMAND)]
    load_command: Option<String>,
    /// Name of the cluster on this machine; by default each checkout has its own of each Kubernetes.
    #[arg(long, value_name = "NAME", env = variable::ID)]
    id: Option<String>,
    /// Addresses of the cluster on this machine: ipv4, ipv6, or both, as 'ipv4,ipv6'; the usual kind first.
    #[arg(long, value_name = "KINDS", env = variable::IP_FAMILY, default_value_t)]
    ip_family: IpFamilies,
    /// Domain of the names of the cluster on this machine.
    #[arg(long, value_name = "DOMAIN", env = variable::CLUSTER_DOMAIN, default_value_t)]
    cluster_domain: ClusterDomain,
    /// Kubernetes of the cluster on this machine.
    #[arg(long, value_name = "VERSION", env = variable::KUBERNETES, default_value_t)]
    kubernetes: KubernetesVersion,
    /// Nodes of the cluster on this machine: 1 to 3, each in namespaces of its own; the first has the control
    /// plane.
    #[arg(long, value_name = "NUMBER", env = variable::NODES, default_value_t)]
    nodes: NumberOfNodes,
}

/// How many nodes a cluster has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct NumberOfNodes(usize);

impl Default for NumberOfNodes {
    fn default() -> Self {
        Self(1)
    }
}

impl fmt::Display for NumberOfNodes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl FromStr for NumberOfNodes {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let number = text.parse().ok().filter(|number| (1..=MOST_NODES).contains(number));
        number.map(Self).with_context(|| format!("a cluster has 1 to {MOST_NODES} nodes"))
    }
}

/// The arguments alone, to read those that the environment gives.
#[derive(Debug, Parser)]
struct FromEnvironment {
    #[command(flatten)]
    cluster: ClusterArguments,
}

/// Makes the tests that `command` runs use this cluster, whichever this process's own variables name.
pub(crate) fn use_cluster(command: &mut Command, target: &Target) {
    for name in variable::ALL {
        command.env_remove(name);
    }
    command.envs(environment(target));
}

/// The variables that make [`ClusterArguments::from_environment`] name this cluster.
fn environment(target: &Target) -> Vec<(&'static str, OsString)> {
    match target {
        Target::External { kubeconfig, load_command } => {
            let command = load_command.as_ref().map(|it| (variable::LOAD_COMMAND, it.into()));
            [(variable::KUBECONFIG, kubeconfig.into())].into_iter().chain(command).collect()
        }
        Target::Own(Options { cache: _, id, network, version, nodes }) => vec![
            (variable::ID, id.as_str().into()),
            (variable::IP_FAMILY, network.ip_families.to_string().into()),
            (variable::CLUSTER_DOMAIN, network.domain.to_string().into()),
            (variable::KUBERNETES, version.to_string().into()),
            (variable::NODES, nodes.count().to_string().into()),
        ],
    }
}

impl ClusterArguments {
    /// What the environment says, by the variables that the options' help names.
    pub fn from_environment() -> Result<Self> {
        let parsed = FromEnvironment::try_parse_from(["tests"]);
        parsed.map(|it| it.cluster).context("reading the variables that name a cluster")
    }

    /// The cluster that the arguments name.
    pub fn target(&self) -> Result<Target> {
        let kubeconfig = match (&self.kubeconfig, self.external) {
            (Some(path), _) => Some(path.clone()),
            (None, true) => Some(usual_kubeconfig(|name| std::env::var_os(name))?),
            (None, false) => None,
        };
        if let Some(kubeconfig) = kubeconfig {
            return Ok(Target::External { kubeconfig, load_command: self.load_command.clone() });
        }
        if self.load_command.is_some() {
            bail!("--load-command is for a cluster named by --kubeconfig or --external");
        }
        Ok(Target::Own(self.options()?))
    }

    fn options(&self) -> Result<Options> {
        let id = match &self.id {
            Some(name) => ClusterId::named(name)?,
            None => id_of_version(self.kubernetes)?,
        };
        let network = Network {
            ip_families: self.ip_family.clone(),
            domain: self.cluster_domain.clone(),
            ..Network::default()
        };
        let (version, nodes) = (self.kubernetes, Nodes::of(self.nodes.0));
        Ok(Options { cache: Cache::locate()?, id, network, version, nodes })
    }

    /// The options of a cluster on this machine.
    fn own(&self, verb: &str) -> Result<Options> {
        match self.target()? {
            Target::Own(options) => Ok(options),
            Target::External { kubeconfig, .. } => {
                bail!("the cluster of {} is not ours to {verb}", kubeconfig.display())
            }
        }
    }
}

/// As kubectl looks for it, but one file only.
fn usual_kubeconfig(variable: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf> {
    let named = variable("KUBECONFIG").filter(|value| !value.is_empty()).map(PathBuf::from);
    named
        .or_else(|| variable("HOME").map(|home| Path::new(&home).join(".kube/config")))
        .context("--external needs KUBECONFIG or HOME to be set")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn a_kubeconfig_names_an_external_cluster() {
        let arguments = ClusterArguments {
            kubeconfig: Some("/k".into()),
            load_command: Some("load {}".into()),
            ..ClusterArguments::default()
        };
        let Target::External { kubeconfig, load_command } = arguments.target().unwrap() else {
            panic!("expected an external cluster");
        };
        assert_eq!((kubeconfig, load_command), ("/k".into(), Some("load {}".into())));
    }

    #[test]
    fn a_load_command_without_an_external_cluster_is_refused() {
        let arguments =
            ClusterArguments { load_command: Some("x {}".into()), ..ClusterArguments::default() };
        assert!(arguments.target().is_err());
    }

    #[test]
    fn what_is_set_up_is_passed_on_whole_by_the_environment() {
        let options = Options {
            cache: Cache::locate().unwrap(),
            id: ClusterId::named("a").unwrap(),
            network: Network {
                ip_families: "ipv6,ipv4".parse().unwrap(),
                domain: "k8s.example".parse().unwrap(),
                ..Network::default()
            },
            version: KubernetesVersion::all()[0],
            nodes: Nodes::of(2),
        };
        // Each variable stands for the option that names it.
        let command = FromEnvironment::command();
        let option = |variable: &str| {
            let named = |it: &&clap::Arg| it.get_env().is_some_and(|name| name == variable);
            command.get_arguments().find(named).unwrap().get_long().unwrap().to_owned()
        };
        let words = environment(&Target::Own(options.clone()));
        let words = words
            .iter()
            .map(|(name, value)| format!("--{}={}", option(name), value.to_string_lossy()));
        let parsed =
            FromEnvironment::try_parse_from([String::from("tests")].into_iter().chain(words));
        let target = parsed.unwrap().cluster.target().unwrap();
        let Target::Own(read) = target else { panic!("expected a cluster on this machine") };
        assert_eq!(
            (read.id, read.network, read.version, read.nodes),
            (options.id, options.network, options.version, options.nodes)
        );
    }

    #[test]
    fn tests_are_told_every_variable_anew() {
        let mut command = Command::new("true");
        let target = Target::External { kubeconfig: "/k".into(), load_command: None };
        use_cluster(&mut command, &target);
        let told: Vec<_> = command.get_envs().collect();
        let options = FromEnvironment::command();
        for name in options.get_arguments().filter_map(clap::Arg::get_env) {
            let value = (name == "FLUX_E2E_KUBECONFIG").then(|| OsString::from("/k"));
            assert!(told.contains(&(name, value.as_deref())), "{name:?}: {told:?}");
        }
    }

    #[test]
    fn another_kubernetes_is_another_cluster_unless_its_name_is_given() {
        let id = |words: &[&str]| {
            let words = [&["tests"], words].concat();
            let parsed = FromEnvironment::try_parse_from(words).unwrap();
            parsed.cluster.options().unwrap().id.as_str().to_owned()
        };
        let usual = ClusterId::of_this_checkout().as_str().to_owned();
        assert_eq!(id(&["--kubernetes=1.33"]), format!("{usual}-1-33"));
        assert_eq!(id(&[&format!("--kubernetes={}", KubernetesVersion::default())]), usual);
        assert_eq!(id(&["--kubernetes=1.33", "--id=mine"]), "mine");
        let unknown = FromEnvironment::try_parse_from(["tests", "--kubernetes=1.12"]).unwrap_err();
        assert!(unknown.to_string().contains("possible values: 1.33, "), "{unknown}");
    }

    #[test]
    fn a_cluster_has_one_node_or_a_few() {
        let count = |words: &[&str]| {
            let parsed = FromEnvironment::try_parse_from([&["tests"], words].concat());
            parsed.map(|it| it.cluster.options().unwrap().nodes.count())
        };
        assert_eq!(count(&[]).unwrap(), 1);
        assert_eq!(count(&["--nodes=2"]).unwrap(), 2);
        for bad in ["0", "4", "-1", "two"] {
            let refused = count(&[&format!("--nodes={bad}")]).unwrap_err().to_string();
            assert!(refused.contains("a cluster has 1 to 3 nodes"), "{refused}");
        }
    }

    #[test]
    fn the_usual_kubeconfig_is_the_variables_else_the_homes() {
        let home = |name: &str| (name == "HOME").then(|| OsString::from("/h"));
        assert_eq!(usual_kubeconfig(home).unwrap(), Path::new("/h/.kube/config"));
        let both = |_: &str| Some(OsString::from("/set"));
        assert_eq!(usual_kubeconfig(both).unwrap(), Path::new("/set"));
        assert!(usual_kubeconfig(|_| None).is_err());
    }
}
