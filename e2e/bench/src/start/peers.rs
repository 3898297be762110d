//! Operators of other projects that are measured beside this one, if their programs are at hand.

use super::contender::Contender;
use super::run::MeasuredCluster;
use crate::images;
use crate::operator::{Operator, OperatorProgram};
use clap::Args;
use e2e::cluster::ClusterChoice;
use e2e::environment::MINICLUSTERS;
use e2e::kubernetes::Options;
use e2e::prelude::*;
use e2e::product::binaries::Binaries;
use std::path::PathBuf;

/// Arguments of the Go operator beside another one.
const GO_ARGUMENTS: [&str; 2] =
    ["--metrics-bind-address=127.0.0.1:18080", "--health-probe-bind-address=127.0.0.1:18081"];

/// Which of them are at hand.
#[derive(Debug, Args)]
pub(super) struct Peers {
    /// The Go operator's program and the file of its CRD; without them, the Go operator is not measured.
    #[arg(long = "peer-operator", num_args = 2, value_names = ["PROGRAM", "CRD"])]
    go_operator: Vec<PathBuf>,
    /// The MPI Operator's program and the file of its CRD; without them, the MPI Operator is not measured.
    #[arg(long = "peer-mpi-operator", num_args = 2, value_names = ["PROGRAM", "CRD"])]
    mpi_operator: Vec<PathBuf>,
}

impl Peers {
    /// The files of the program and the CRD that this contender needs and has.
    pub(super) fn of(&self, contender: Contender) -> Option<(&Path, &Path)> {
        let of_mpi = contender == Contender::MpiOperator;
        let given = if of_mpi { &self.mpi_operator } else { &self.go_operator };
        let [program, definition] = &given[..] else { return None };
        contender.is_of_a_peer().then_some((program.as_path(), definition.as_path()))
    }

    /// Starts those that are among the contenders, if any is, in a cluster of their own beside ours.
    pub(super) fn start(
        &self,
        contenders: &[Contender],
        cluster: &Options,
        built: &Binaries,
        view: &View,
    ) -> Result<Option<(MeasuredCluster, Vec<Operator>)>> {
        let files = contenders.iter().filter_map(|it| Some((*it, self.of(*it)?)));
        let program = |(contender, (program, file)): (_, (&Path, &Path))| {
            let (arguments, definition) = if contender == Contender::MpiOperator {
                (&["--lock-namespace=default"][..], "mpijobs.kubeflow.org")
            } else {
                (&GO_ARGUMENTS[..], MINICLUSTERS)
            };
            OperatorProgram::peer(program, arguments, file, definition)
        };
        let programs = files.map(program).collect::<Result<Vec<_>>>()?;
        if programs.is_empty() {
            return Ok(None);
        }
        let environment = Environment::as_it_is(&ClusterChoice::Own(cluster.clone()))?;
        images::load(&environment.cluster, built, view)?;
        programs.iter().try_for_each(|it| it.install(&environment))?;
        let operators = environment
            .run(async |_| programs.iter().map(|it| it.start(&environment)).collect())?;
        Ok(Some((MeasuredCluster::of(environment)?, operators)))
    }
}
