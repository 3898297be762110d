//! The contenders, their order, and the objects of each.

use super::recording::{JOB_COMPLETE, MINICLUSTER_COMPLETE, MPI_JOB_SUCCEEDED};
use crate::images::{AGENT_WITH_VIEW, MPI, PEER_VIEW, SYSTEM_WITH_VIEW};
use clap::ValueEnum;
use e2e::prelude::*;
use e2e::product::OPERATING_SYSTEM;
use flux_protocol::CurveCertificate;
use kube::core::{DynamicObject, GroupVersionKind};
use kube::discovery::ApiResource;
use serde::Serialize;

const NAME: &str = "bench";

/// The ranks of a pod of an MPI program: as many as its tasks and slots.
const RANKS_OF_A_POD: u32 = 2;

/// A way to run a program on some pods: `true`, or one of MPI with two ranks a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Contender {
    /// An Indexed Job of `true`, without Flux.
    Bare,
    /// A Job of brokers, written by hand, which mounts the view.
    MountedByHand,
    /// The same, but an init container copies the view.
    CopiedByHand,
    /// A MiniCluster of this operator with `install: Image`, from an image that has view and agent.
    Mounted,
    /// The same with `install: Copy`, from the image of the view and that of the agent.
    Copied,
    /// The same from an image that has both.
    CopiedFromOne,
    /// A MiniCluster of the Go operator.
    Peer,
    /// A MiniCluster of the MPI program, mounted as in `mounted`.
    MpiMounted,
    /// A job of the MPI Operator, with the same program and a launcher besides the pods.
    MpiOperator,
}

impl Contender {
    /// As on the command line and in results.
    pub(super) fn name(self) -> String {
        self.to_possible_value().map(|it| it.get_name().to_owned()).unwrap_or_default()
    }

    /// Whether this project's operator runs it.
    pub(super) fn is_ours(self) -> bool {
        matches!(self, Self::Mounted | Self::Copied | Self::CopiedFromOne | Self::MpiMounted)
    }

    /// Whether another project's operator runs it.
    pub(super) fn is_of_a_peer(self) -> bool {
        matches!(self, Self::Peer | Self::MpiOperator)
    }

    /// Whether it runs the program of MPI.
    pub(super) fn is_of_mpi(self) -> bool {
        matches!(self, Self::MpiMounted | Self::MpiOperator)
    }

    /// The object that its user made and watches, where that is no Job.
    pub(super) fn resource(self) -> Option<ApiResource> {
        if self.is_ours() {
            return Some(ApiResource::erase::<MiniCluster>(&()));
        }
        let mpi_job = GroupVersionKind::gvk("kubeflow.org", "v2beta1", "MPIJob");
        (self == Self::MpiOperator).then(|| ApiResource::from_gvk(&mpi_job))
    }

    /// The milestone at which that object reports the end.
    pub(super) fn reported(self) -> &'static str {
        if self.is_ours() {
            MINICLUSTER_COMPLETE
        } else if self == Self::MpiOperator {
            MPI_JOB_SUCCEEDED
        } else {
            JOB_COMPLETE
        }
    }
}

/// The contenders in the order of a round: each round begins with another one, and every second round is reversed, so
/// that no contender always follows the same one.
pub(super) fn order(contenders: &[Contender], round: usize) -> Vec<Contender> {
    let mut order = contenders.to_vec();
    if round % 2 == 1 {
        order.reverse();
    }
    order.rotate_left((round / 2).checked_rem(contenders.len()).unwrap_or_default());
    order
}

/// The contenders in the order of their first runs. `mounted` comes first: its first run is that on a fresh node.
pub(super) fn first_runs(contenders: &[Contender]) -> Vec<Contender> {
    let mut order = contenders.to_vec();
    order.sort_by_key(|it| *it != Contender::Mounted);
    order
}

#[derive(Debug, Clone, Copy)]
pub(super) struct RunSpec<'run> {
    pub(super) contender: Contender,
    pub(super) size: u32,
    /// The view's image, where it is mounted.
    pub(super) view: &'run str,
    pub(super) cores: usize,
}

impl RunSpec<'_> {
    /// What is applied, in this order.
    pub(super) fn objects(&self) -> Result<Vec<DynamicObject>> {
        let without_operator = |job: &str| self.objects_of(job, &Value::Null);
        let by_hand = |job: &str| without_operator(&[include_str!("by-hand.yaml"), job].concat());
        let minicluster = |flux: &Value| self.objects_of(include_str!("minicluster.yaml"), flux);
        let flux =
            |install: &str, image: &str| json!({"container": {"install": install, "image": image}});
        let ours = |install: &str, image: &str| minicluster(&flux(install, image));
        match self.contender {
            Contender::Bare => without_operator(include_str!("bare.yaml")),
            Contender::MountedByHand => by_hand(include_str!("by-hand-mounted.yaml")),
            Contender::CopiedByHand => by_hand(include_str!("by-hand-copied.yaml")),
            Contender::Mounted => ours("Image", AGENT_WITH_VIEW),
            Contender::Copied => ours("Copy", self.view),
            Contender::CopiedFromOne => ours("Copy", AGENT_WITH_VIEW),
            // With a certificate: its program makes one only if it was built with czmq.
            Contender::Peer => minicluster(
                &json!({"container": {"image": PEER_VIEW}, "curveCert": certificate()?}),
            ),
            Contender::MpiMounted => {
                let flux = flux("Image", AGENT_WITH_VIEW);
                self.objects_of(include_str!("mpi-minicluster.yaml"), &flux)
            }
            Contender::MpiOperator => without_operator(include_str!("mpi-job.yaml")),
        }
    }

    fn objects_of(&self, template: &str, flux: &Value) -> Result<Vec<DynamicObject>> {
        let replaced = [
            ("$NAME", NAME.to_owned()),
            ("$SIZE", self.size.to_string()),
            ("$RANKS", (self.size * RANKS_OF_A_POD).to_string()),
            ("$SLOTS", RANKS_OF_A_POD.to_string()),
            ("$LAST", self.size.saturating_sub(1).to_string()),
            ("$CORES", format!("0-{}", self.cores.saturating_sub(1))),
            ("$CERTIFICATE", json!(certificate()?).to_string()),
            ("$MPI", MPI.to_owned()),
            ("$SYSTEM", OPERATING_SYSTEM.to_owned()),
            ("$COPIED_FROM", SYSTEM_WITH_VIEW.to_owned()),
            ("$VIEW", self.view.to_owned()),
            ("$FLUX", flux.to_string()),
        ];
        let text = replaced
            .iter()
            .fold(template.to_owned(), |text, (name, value)| text.replace(name, value));
        serde_saphyr::from_str(&text)
            .with_context(|| format!("reading what is to be applied:\n{text}"))
    }
}

/// A certificate with a fixed key: the cluster ends with the measurement.
fn certificate() -> Result<String> {
    let made = CurveCertificate::new(NAME, [7; 32]).context("making a certificate")?;
    Ok(made.to_text().expose().clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_template_is_filled_and_can_be_read() {
        for contender in Contender::value_variants() {
            let wanted = RunSpec { contender: *contender, size: 4, view: "view:1", cores: 2 };
            let text = serde_json::to_string(&wanted.objects().unwrap()).unwrap();
            // The certificate's key has the sign, too.
            let text = text.replace("2l$Fs", "");
            assert!(!text.contains('$'), "{text}");
        }
    }
}
