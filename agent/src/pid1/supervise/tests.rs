use super::*;
use crate::execute::session::Session;
use crate::plan::budget::{Budget, Duties};
use crate::process::children::Children;
use crate::process::signals::Signals;
use crate::status::progress::Progress;
use crate::system::CHILDREN_OF_TESTS;
use crate::system::environment::Report;
use crate::system::output::Log;
use crate::system::root::Root;
use std::path::{Path, PathBuf};

fn context(directory: &Path, children: &Children) -> Context {
    let start = Report {
        working_directory: directory.to_owned(),
        environment: [("PATH".into(), "/usr/bin:/bin".into())].into(),
    };
    Context {
        root: Root::new("/"),
        configuration: PathBuf::new(),
        exit_code: 0,
        unfinished_jobs: Vec::new(),
        log: Log::new(true, false),
        strict: true,
        quiet: true,
        report_file: PathBuf::new(),
        signals: Signals::default(),
        budget: Budget::new(2, Duties::default()),
        children: children.clone(),
        progress: Progress::new(),
        session: Session::new("/agent".into(), start),
    }
}

fn broker() -> BrokerRun {
    BrokerRun {
        command: vec![],
        archive: None,
        lead_command: None,
        quorum: None,
        submission: None,
        entrance: None,
        socket: "/none".into(),
        flux: String::new(),
        timed: false,
        worker: None,
    }
}

/// How a worker's broker ends that does `script`, was seen in state `run`, and loses its lead.
async fn ends_without_lead(children: &Children, script: &str) -> (i32, bool) {
    let directory = tempfile::tempdir().unwrap();
    let mut context = context(directory.path(), children);
    let script = format!("{script}; touch up; while :; do sleep 0.02; done");
    let words = ["sh".to_owned(), "-c".to_owned(), script];
    let mut command = context.session.command(&words);
    let mut running = context.children.spawn(&mut command).unwrap();
    let (events, mut changes) = mpsc::unbounded_channel();
    events.send(Event::State("run".to_owned())).unwrap();
    let broker = broker();
    let address = BrokerAddress { socket: broker.socket.clone(), owner: None };
    let own_rank = OwnRank { broker: address, rank: 1 };
    let mut supervision = Supervision::new(&broker, Role::Worker, own_rank);
    let lost = async {
        while !directory.path().join("up").exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let ended = supervision.until_ended(&mut context, &mut running, &mut changes, lost, pending());
    let status = tokio::time::timeout(Duration::from_secs(30), ended).await.unwrap().unwrap();
    assert!(supervision.ran && supervision.stop.is_none());
    (exit_code(status), supervision.lead_lost)
}

#[tokio::test]
async fn a_broker_without_its_lead_is_told_to_end_and_killed_if_it_does_not() {
    let _only_children = CHILDREN_OF_TESTS.lock().await;
    let children = Children::reaped().unwrap();
    assert_eq!(ends_without_lead(&children, "trap 'exit 3' TERM").await, (3, true));
    assert_eq!(ends_without_lead(&children, "trap '' TERM").await, (137, true));
}
