//! Actions of users, nodes and faults on a MiniCluster and around it.

use crate::support::world::{CONFIG, JOB, SECRETS, SERVICE};
use flux_testkit::faults::{Failure, Fault};
use flux_testkit::nodes::NODES;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::iter::repeat_n;

pub(crate) const LEAD: &str = "/api/v1/namespaces/work/services/hello-lead";
pub(crate) const ALIAS: &str = "/api/v1/namespaces/work/services/web";
pub(crate) const SERVICES_POD: &str = "/api/v1/namespaces/work/pods/hello-services";

/// Objects of which the operator creates at most one.
pub(crate) const OBJECTS: [&str; 6] = [JOB, CONFIG, SERVICE, LEAD, SERVICES_POD, ALIAS];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tampering {
    /// A field of its specification that may change has another value.
    Changed,
    /// The label that the watch selects by is removed.
    Unlabelled,
    /// The MiniCluster is no longer its owner.
    Disowned,
    Labelled,
    /// Somebody suspends it, if it is a Job.
    Suspended,
    /// Somebody resumes it, if it is a Job.
    Resumed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Deleted,
    /// The same while its container starts: `runc init` ends with code 2.
    DeletedAtStart,
    Evicted,
    /// Its kubelet refuses it.
    Refused,
    Killed,
    /// Its runner ends with this code: on a lead that runs a command the command's, else the agent's.
    Ended(i32),
}

/// A change of a node, which concerns all its pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeFate {
    /// The node stops to answer; its pods may go on.
    Lost,
    /// The node answers again; it was only cut off.
    Back,
    /// The node answers again, and its pods have ended.
    Rebooted,
    /// An administrator gives the node up (the taint `out-of-service`).
    GivenUp,
    Drained,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// Creates a MiniCluster of [`SMALLEST`] and these fields, if there is none.
    Create(&'static str),
    /// The field of the specification at this path gets this value.
    Edit(&'static str, Value),
    /// Deletes the MiniCluster; with `foreground` after all objects that it owns.
    DeleteCluster {
        foreground: bool,
    },
    Pod(u64, Fate),
    Node(usize, NodeFate),
    /// Somebody deletes all pods that have ended.
    Tidy,
    /// The command of the lead ends with this code, if it runs.
    CommandEnds(i32),
    /// Somebody deletes the operator's object at this path, or one of the Secrets.
    Remove(&'static str),
    Tamper(&'static str, Tampering),
    /// Somebody creates an object of this name, if it is free; with `predecessor` it belongs to a deleted
    /// MiniCluster of the same name.
    Occupy {
        path: &'static str,
        predecessor: bool,
    },
    /// The queue admits the Jobs that wait, or stops to admit them.
    Queue {
        admits: bool,
    },
    /// Somebody deletes an own object at this path.
    Vacate(&'static str),
    /// The operator's process ends at any point, and another one begins.
    Restart,
    Fail(Fault),
    /// Watches deliver no changes of these kinds, in the plural, until [`Self::CatchUp`].
    Lag(&'static [&'static str]),
    CatchUp,
    /// The operator gets so many answers.
    Answers(usize),
    /// The operator runs until it waits.
    Act,
    /// The Job controller, the kubelet and the garbage collector do one thing each.
    ClusterActs,
    /// So many seconds pass, in which all of them act.
    Wait(u64),
}

/// A MiniCluster whose command runs once.
pub(crate) const SMALLEST: &str = "{
    apiVersion: flux-framework.org/v1alpha2, kind: MiniCluster, metadata: {name: hello, namespace: work},
    spec: {size: 3, maxSize: 4, containers: [{image: app, command: echo hello}]},
}";

/// Fields that make another MiniCluster of [`SMALLEST`].
fn fields() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        4 => Just("{}"),
        1 => Just("{spec: {backoffLimit: 2}}"),
        1 => Just("{spec: {interactive: true}}"),
        1 => Just("{spec: {services: [{image: db, name: db}]}}"),
        1 => Just("{spec: {containers: [{image: app, command: echo hello, runFlux: true}, {image: web, name: web, runFlux: false, ports: [80]}]}}"),
        1 => Just("{spec: {deadlineSeconds: 100}}"),
        1 => Just("{spec: {cleanup: true}}"),
        1 => Just("{metadata: {labels: {kueue.x-k8s.io/queue-name: team}}}"),
        1 => Just("{metadata: {labels: {kueue.x-k8s.io/queue-name: team}}, spec: {minSize: 2}}"),
    ]
}

fn edit() -> impl Strategy<Value = Action> {
    let command = |number| json!(format!("echo {number}"));
    let label = |number: u32| json!({ "label": number.to_string() });
    prop_oneof![
        // More than four pods are refused.
        4 => (1_u32..=5).prop_map(|size| Action::Edit(".size", json!(size))),
        1 => (1_u32..=3).prop_map(|least| Action::Edit(".minSize", json!(least))),
        2 => (0_u32..3).prop_map(move |number| Action::Edit(".containers[].command", command(number))),
        1 => prop_oneof![Just(50), Just(300)]
            .prop_map(|seconds| Action::Edit(".deadlineSeconds", json!(seconds))),
        1 => (0_u32..3).prop_map(|limit| Action::Edit(".backoffLimit", json!(limit))),
        1 => any::<bool>().prop_map(|cleanup| Action::Edit(".cleanup", json!(cleanup))),
        3 => any::<bool>().prop_map(suspend),
        1 => (0_u32..2).prop_map(move |number| Action::Edit(".jobLabels", label(number))),
        // The operator refuses this value.
        1 => Just(Action::Edit(".flux", json!({ "topology": "nonsense" }))),
        1 => Just(Action::Edit(".flux", json!({}))),
    ]
}

fn suspend(suspend: bool) -> Action {
    Action::Edit(".suspend", json!(suspend))
}

fn object() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        4 => Just(JOB), 3 => Just(CONFIG), 1 => Just(SERVICE), 1 => Just(LEAD),
        1 => Just(SERVICES_POD), 1 => Just(ALIAS),
    ]
}

fn tampering() -> impl Strategy<Value = Tampering> {
    prop_oneof![
        3 => Just(Tampering::Changed), 2 => Just(Tampering::Unlabelled),
        1 => Just(Tampering::Disowned), 1 => Just(Tampering::Labelled),
        1 => Just(Tampering::Suspended), 1 => Just(Tampering::Resumed),
    ]
}

fn fate() -> impl Strategy<Value = Fate> {
    let code = prop_oneof![Just(0), Just(1), Just(68), Just(75), Just(137), Just(2)];
    prop_oneof![
        2 => Just(Fate::Deleted), 1 => Just(Fate::DeletedAtStart), 1 => Just(Fate::Evicted), 1 => Just(Fate::Killed),
        1 => Just(Fate::Refused),
        1 => code.prop_map(Fate::Ended),
    ]
}

fn node_fate() -> impl Strategy<Value = NodeFate> {
    prop_oneof![
        3 => Just(NodeFate::Lost), 1 => Just(NodeFate::Back), 1 => Just(NodeFate::Rebooted),
        2 => Just(NodeFate::GivenUp), 1 => Just(NodeFate::Drained),
    ]
}

fn fault() -> impl Strategy<Value = Fault> {
    let code = || prop_oneof![Just(409_u16), Just(429), Just(500), Just(504)];
    let failure = prop_oneof![
        3 => code().prop_map(Failure::Refused),
        3 => prop_oneof![Just(500_u16), Just(504)].prop_map(Failure::Lost),
        1 => Just(Failure::Swallowed),
        1 => Just(Failure::Unanswered),
    ];
    (0_usize..16, failure).prop_map(|(after, failure)| Fault { after, failure })
}

fn lag() -> impl Strategy<Value = &'static [&'static str]> {
    prop_oneof![
        Just(&["jobs"][..]),
        Just(&["configmaps"][..]),
        Just(&["pods"][..]),
        Just(&["miniclusters"][..]),
        Just(&["jobs", "configmaps", "pods", "services", "miniclusters"][..]),
    ]
}

fn action() -> impl Strategy<Value = Action> {
    let command = prop_oneof![4 => Just(0), 2 => Just(1), 1 => Just(75), 1 => Just(137)];
    prop_oneof![
        1 => fields().prop_map(Action::Create),
        6 => edit(),
        1 => any::<bool>().prop_map(|foreground| Action::DeleteCluster { foreground }),
        4 => (0_u64..4, fate()).prop_map(|(index, fate)| Action::Pod(index, fate)),
        2 => (0..NODES, node_fate()).prop_map(|(node, fate)| Action::Node(node, fate)),
        1 => Just(Action::Tidy),
        4 => command.prop_map(Action::CommandEnds),
        3 => prop_oneof![6 => object(), 1 => Just(SECRETS)].prop_map(Action::Remove),
        3 => (object(), tampering()).prop_map(|(path, how)| Action::Tamper(path, how)),
        1 => (object(), any::<bool>())
            .prop_map(|(path, predecessor)| Action::Occupy { path, predecessor }),
        1 => object().prop_map(Action::Vacate),
        1 => any::<bool>().prop_map(|admits| Action::Queue { admits }),
        3 => Just(Action::Restart),
        4 => fault().prop_map(Action::Fail),
        2 => lag().prop_map(Action::Lag),
        1 => Just(Action::CatchUp),
        6 => (1_usize..16).prop_map(Action::Answers),
        5 => Just(Action::Act),
        4 => Just(Action::ClusterActs),
        8 => prop_oneof![4 => 1_u64..20, 1 => 20_u64..200].prop_map(Action::Wait),
    ]
}

/// The run ends, somebody deletes an object, and the operator is disturbed meanwhile.
fn disturbed_end() -> impl Strategy<Value = Vec<Action>> {
    let disturbance = prop_oneof![
        Just(None),
        Just(Some(Action::Restart)),
        fault().prop_map(|fault| Some(Action::Fail(fault))),
        lag().prop_map(|kinds| Some(Action::Lag(kinds))),
    ];
    let removed = prop_oneof![2 => Just(JOB), 1 => Just(CONFIG)];
    let parts = (0..3_i32, disturbance.clone(), 0_usize..16, disturbance, removed, any::<bool>());
    parts.prop_map(|(code, before, answers, after, removed, acts)| {
        let end = [Action::Wait(5), Action::CommandEnds(code)];
        let seen = repeat_n(Action::ClusterActs, 3).chain(before);
        let goes_on = [Action::Answers(answers)].into_iter().chain(after);
        let rest = [Action::Remove(removed)].into_iter().chain(acts.then_some(Action::Act));
        end.into_iter().chain(seen).chain(goes_on).chain(rest).collect()
    })
}

/// The Job of a run and its pods disappear while no operator runs.
fn unseen_end() -> impl Strategy<Value = Vec<Action>> {
    let end = prop_oneof![Just(None), (0..2_i32).prop_map(|code| Some(Action::CommandEnds(code)))];
    (0_u64..6, end, 0_usize..4).prop_map(|(before, end, moments)| {
        let begin = [Action::Wait(before)].into_iter().chain(end);
        let unseen =
            repeat_n(Action::ClusterActs, moments).chain([Action::Remove(JOB), Action::Restart]);
        begin.chain(unseen).collect()
    })
}

/// A new MiniCluster takes the name of a deleted one while the operator works.
fn namesake() -> impl Strategy<Value = Vec<Action>> {
    (0_usize..16, any::<bool>(), fields(), 0_usize..16).prop_map(
        |(before, foreground, fields, after)| {
            let gone = Action::DeleteCluster { foreground };
            let made = Action::Create(fields);
            vec![Action::Answers(before), gone, Action::ClusterActs, made, Action::Answers(after)]
        },
    )
}

/// A user, another program or a queue suspends and resumes the Job while the operator works.
fn pause() -> impl Strategy<Value = Vec<Action>> {
    let ways = prop_oneof![
        3 => Just([true, false].map(suspend)),
        1 => Just([Tampering::Suspended, Tampering::Resumed].map(|it| Action::Tamper(JOB, it))),
        2 => Just([false, true].map(|admits| Action::Queue { admits })),
    ];
    let between = prop_oneof![
        2 => (0_u64..10).prop_map(Action::Wait), 1 => (0_usize..16).prop_map(Action::Answers),
        1 => Just(Action::Restart), 1 => Just(Action::ClusterActs),
    ];
    (0_u64..8, ways, prop::collection::vec(between, 0..4)).prop_map(
        |(before, [off, on], between)| {
            let begin = [Action::Wait(before), off];
            begin.into_iter().chain(between).chain([on]).collect()
        },
    )
}

/// The fields of a MiniCluster, and the actions after its creation.
pub(crate) fn scenario(longest: usize) -> impl Strategy<Value = (&'static str, Vec<Action>)> {
    let part = prop_oneof![
        16 => action().prop_map(|action| vec![action]),
        1 => disturbed_end(),
        1 => unseen_end(),
        1 => namesake(),
        1 => pause(),
    ];
    let parts = prop::collection::vec(part, 0..longest);
    (fields(), parts.prop_map(|parts| parts.concat()))
}
