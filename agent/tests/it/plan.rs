//! Configuration and facts become plans. Snapshots show everything a pod would do, with the content of every file, and
//! what changes by settings and facts.

use crate::prelude::*;
use crate::settings::{self, words};
use flux_agent::accounts::Databases;
use flux_agent::plan::{Facts, broker_config, client_environment, plan};
use flux_contract::{Archive, Bootstrap, Rest, Submission, WorkerPolicy};
use flux_protocol::Hostlist;
use std::collections::BTreeSet;
use std::fmt::Write as _;

const FLUX: &str = "/mnt/shared/view/bin/flux";
const VIEW_BASH: &str = "/mnt/shared/view/bin/bash";

fn paths(paths: &[&str]) -> BTreeSet<PathBuf> {
    paths.iter().map(PathBuf::from).collect()
}

/// An instance that is another one's child, whose lead is at port 9 of `lead`.
fn child_of(lead: &str, hosts: &str) -> Bootstrap {
    let hosts = Hostlist::parse(hosts).unwrap();
    Bootstrap::Child { lead: lead.to_owned(), lead_port: 9, hosts }
}

fn config() -> AgentConfig {
    settings::plain(Workload::Submit { submission: submission() })
}

fn submission() -> Submission {
    settings::submission(&["-N", "3", "-n6"], &["echo", "a \"quoted\" $word"])
}

/// A pod of an image with both shells and an account of its own, and of a view without Fluxion.
fn facts(hostname: &str) -> Facts {
    let (root, app) = ("root:x:0:0:root:/root:/bin/bash\n", "app:x:3000:3001::/srv/app:/bin/sh\n");
    Facts {
        groups: vec![],
        accounts: Databases { passwd: [root, app].concat().into(), ..Databases::default() },
        is_runner: true,
        has_temporary_directories: true,
        pmix_plugins: None,
        fluxion_modules: None,
        executables: paths(&["/bin/bash", "/bin/sh", FLUX, VIEW_BASH]),
        ..settings::facts(&config(), hostname, 0)
    }
}

/// The plan of `hostname` after a `change`, or why there is none.
fn planned(hostname: &str, change: impl FnOnce(&mut AgentConfig, &mut Facts)) -> String {
    let (mut config, mut facts) = (config(), facts(hostname));
    change(&mut config, &mut facts);
    plan(&config, &facts).map_or_else(
        |refused| format!("refused with code {}: {refused}", refused.code),
        |plan| format!("{plan:#}"),
    )
}

#[test]
fn whole_plans() {
    let everything = |config: &mut AgentConfig, _: &mut Facts| {
        *config = settings::everything(config.workload.clone(), settings::bootstraps().remove(0));
    };
    for (name, hostname, change) in [
        ("lead", "sample-0", (|_, _| ()) as Change),
        ("everything_that_can_be_set", "sample-0", everything),
        ("worker_with_the_simple_scheduler", "sample-2", |config, _| {
            config.broker.simple_scheduler = true;
        }),
        ("worker_of_a_bursted_cluster", "sample-0", |config, _| {
            config.network.lead_address = None;
            config.network.bootstrap = child_of("lead.example.test", "root-[0-1],sample-[0-2]");
        }),
        ("without_the_view_flux_is_the_images_own", "sample-0", |config, facts| {
            config.view.enabled = false;
            facts.site_packages = None;
            facts.executables = paths(&["/bin/sh"]);
        }),
    ] {
        insta::assert_snapshot!(name, planned(hostname, change));
    }
}

type Change = fn(&mut AgentConfig, &mut Facts);

/// Changes of the pod `sample-0` or another, each with the parts of its plan that are there because of it (`+`) or are not
/// (`-`).
#[derive(Default)]
struct Changes(String);

impl Changes {
    fn show(
        &mut self,
        title: &str,
        hostname: &str,
        change: impl FnOnce(&mut AgentConfig, &mut Facts),
    ) {
        let (before, after) = (planned(hostname, |_, _| ()), planned(hostname, change));
        let _ = writeln!(self.0, "== {title}, {hostname}");
        if after.starts_with("refused") {
            let _ = writeln!(self.0, "{after}");
            return;
        }
        for (sign, of, other) in [('-', &before, &after), ('+', &after, &before)] {
            let other: BTreeSet<_> = parts(other).collect();
            for part in parts(of).filter(|part| !other.contains(part)) {
                let _ = writeln!(self.0, "{sign} {part}");
            }
        }
    }
}

/// The lines of a plan, and the words of those that are lists: of variables, and of the broker's options.
fn parts(plan: &str) -> impl Iterator<Item = &str> {
    let is_list = |line: &str| line.starts_with("change the") || line.starts_with("start the");
    plan.lines().flat_map(move |line| line.split(if is_list(line) { ' ' } else { '\n' }))
}

#[test]
fn changes_by_settings() {
    let mut changes = Changes::default();
    changes.show("a worker with options and hooks", "sample-1", |config, _| {
        config.broker.local_socket = false;
        config.hooks.worker_pre = Some("of a worker".to_owned());
        config.hooks.broker_pre = Some("of the lead".to_owned());
        config.broker.wrap = Some("strace".to_owned());
        config.archive =
            Some(Archive { path: "/archive/state.tgz".to_owned(), every_seconds: None });
        config.worker = WorkerPolicy::Rejoin;
    });
    changes.show("an address of IPv6", "sample-1", |config, _| {
        config.network.lead_address = Some("fd00::7".parse().unwrap());
    });
    changes.show("a lead elsewhere with an address of IPv6", "sample-1", |config, _| {
        config.network.lead_address = None;
        config.network.bootstrap = child_of("fd00::9", "far-0,sample-1");
    });
    changes.show("the API, whose jobs come one by one", "sample-0", |config, _| {
        config.rest = Some(Rest { port: 8080, ..Rest::default() });
    });
    for archive in ["/state/a.tar", "/state/a.tar.xz", "/state/flux"] {
        changes.show(&format!("the archive {archive}"), "sample-0", |config, _| {
            config.archive = Some(Archive { path: archive.to_owned(), every_seconds: Some(60) });
        });
    }
    insta::assert_snapshot!(changes.0);
}

#[test]
fn changes_by_facts() {
    let mut changes = Changes::default();
    let all: [(&str, Change); 8] = [
        ("no directories for temporary files", |_, it| it.has_temporary_directories = false),
        ("a view with a C library", |_, it| it.view_has_libc = true),
        // Flux gets the view's bash, hooks keep the image's own sh.
        ("an image without bash", |config, it| {
            config.hooks.pre = Some("true".to_owned());
            it.executables.remove(Path::new("/bin/bash"));
        }),
        ("an image without a shell", |config, it| {
            config.hooks.pre = Some("true".to_owned());
            it.executables.retain(|path| path.starts_with("/mnt"));
        }),
        ("a shell that is missing", |_, it| it.environment = variable("SHELL", "/bin/fish")),
        ("Flux's cleanup is switched off", |_, it| {
            it.environment = variable("FLUX_DISABLE_JOB_CLEANUP", "1");
        }),
        // As containerd does: those of the image for root, `supplementalGroups`, `fsGroup`.
        ("groups of root and of the pod", |_, it| {
            it.accounts.group = b"root:x:0:root\ndisk:x:6:root\nstaff:x:50:app\n".to_vec();
            it.groups = vec![0, 6, 50, 4343];
        }),
        ("Fluxion is in the view", |_, it| {
            it.fluxion_modules = Some("/mnt/shared/view/lib64/flux/modules".into());
        }),
    ];
    for (title, change) in all {
        changes.show(title, "sample-0", change);
    }
    for (uid, gid, home) in [(4321, 99, "/none"), (3000, 3001, "/srv/app"), (0, 0, "/root")] {
        changes.show(&format!("a container of user {uid}"), "sample-0", |config, facts| {
            (facts.uid, facts.gid, facts.homes) = (uid, gid, paths(&[home]));
            config.user.run_as_root = uid == 0;
        });
    }
    insta::assert_snapshot!(changes.0);
}

fn variable(name: &str, value: &str) -> BTreeMap<String, String> {
    [(name.to_owned(), value.to_owned())].into()
}

#[test]
fn changes_by_kinds_of_work() {
    let mut changes = Changes::default();
    let batch = || Workload::Batch {
        prefix: words(&["fusion"]),
        flags: words(&["-N", "3", "--job-name=two words"]),
        script: "#!/bin/bash\nflux submit --flags=waitable hostname\n".to_owned(),
        output_directory: "/data/output".to_owned(),
    };
    changes.show("a quiet batch", "sample-0", |config, _| {
        (config.workload, config.logging.quiet) = (batch(), true);
    });
    changes.show("a timed launcher", "sample-0", |config, _| {
        let command = words(&["nextflow", "run", "a b.nf"]);
        config.logging.timed = true;
        config.workload = Workload::Launcher { prefix: words(&["fusion"]), command, script: None };
    });
    for hostname in ["sample-0", "sample-1"] {
        // The job may run on any pod.
        changes.show("an interactive instance with a script", hostname, |config, _| {
            let submission = Submission {
                script: Some("#!/bin/sh\nhostname\n".to_owned()),
                command: words(&["/bin/sh", "/tmp/custom-entrypoint.sh"]),
                ..submission()
            };
            config.workload = Workload::Interactive { submission: Some(submission) };
        });
        changes
            .show("diagnostics", hostname, |config, _| config.workload = Workload::Diagnostics {});
    }
    // The archive has the job, or the lead before has submitted it, or no container of that was started.
    for (submitted, replaced, unstarted) in [(true, 0, 0), (false, 1, 0), (false, 1, 1)] {
        let title = format!("submitted {submitted}, replaced {replaced}, unstarted {unstarted}");
        changes.show(&title, "sample-0", |config, facts| {
            config.workload = Workload::Interactive { submission: Some(submission()) };
            (config.submitted, config.unstarted_leads) = (submitted, unstarted);
            facts.replaced = replaced;
        });
    }
    insta::assert_snapshot!(changes.0);
}

#[test]
fn changes_by_submissions() {
    let mut changes = Changes::default();
    let split = |text: &str| words(&text.split_whitespace().collect::<Vec<_>>());
    // One job is run, and several are submitted.
    for (submit, flags) in [
        ("flux submit", "-N2 --wait-event=start --cwd=/a"),
        ("flux submit", "--cc=1-4"),
        ("flux submit", "-N2 --bcc 1-4"),
        ("flux submit", "--prog"),
        ("flux submit --log=/tmp/log", "-N2"),
        ("flux mini submit", "-N2"),
    ] {
        changes.show(&format!("{submit} {flags}"), "sample-0", |config, _| {
            let (submit, flags) = (split(submit), split(flags));
            let submission = Submission { submit, flags, ..submission() };
            config.workload = Workload::Submit { submission };
        });
    }
    insta::assert_snapshot!(changes.0);
}

/// A change of what is submitted by the agent itself.
type ChangedSubmission = fn(&mut Submission, &mut AgentConfig, &mut Facts);

#[test]
fn changes_by_what_the_agent_can_submit() {
    let mut changes = Changes::default();
    let all: [(&str, ChangedSubmission); 14] = [
        ("nodes and tasks", |_, _, facts| facts.flux_version = Some("0.87.0".to_owned())),
        ("nodes", |it, _, _| it.flags = words(&["-N", "3"])),
        ("tasks", |it, _, _| it.flags = words(&["-n6"])),
        ("a configuration", |_, config, _| {
            config.broker.custom_config = Some("[exec]\n".to_owned());
        }),
        ("a prefix", |it, _, _| it.prefix = words(&["fusion"])),
        ("an option of the submission", |it, _, _| it.submit.push("-u".to_owned())),
        ("another option", |it, _, _| it.flags.push("-vvv".to_owned())),
        ("more nodes than tasks", |it, _, _| it.flags = words(&["-N", "3", "-n2"])),
        ("a command that is an option", |it, _, _| it.command = words(&["-x"])),
        ("Flux of the image", |_, config, _| config.view.enabled = false),
        ("plugins", |_, _, facts| facts.has_submission_plugins = true),
        ("another release", |_, _, facts| facts.flux_version = Some("0.80.0".to_owned())),
        ("a variable of Python", |_, _, it| it.environment = variable("PYTHONHOME", "/")),
        ("a validator", |_, config, _| {
            config.broker.custom_config = Some("[ingest.validator]\n".to_owned());
        }),
    ];
    for (title, change) in all {
        changes.show(title, "sample-0", |config, facts| {
            facts.flux_version = Some("0.88.0".to_owned());
            let mut submission = submission();
            change(&mut submission, config, facts);
            config.workload = Workload::Submit { submission };
        });
    }
    insta::assert_snapshot!(changes.0);
}

/// flux-core 0.50 takes a set of ranks for the quorum, 0.47 has no `flux submit`; no release before 0.69 has
/// `flux start -S`.
#[test]
fn changes_by_releases_and_shells() {
    let mut changes = Changes::default();
    for release in ["0.47.0", "0.50.0", "0.51.0"] {
        changes.show(&format!("Flux {release} with a quorum"), "sample-0", |config, facts| {
            config.broker.quorum = Some(3);
            facts.flux_version = Some(release.to_owned());
        });
    }
    changes.show("Flux 0.47.0 with its own submission", "sample-0", |config, facts| {
        facts.flux_version = Some("0.47.0".to_owned());
        let submit = words(&["flux", "mini", "submit"]);
        config.workload = Workload::Submit { submission: Submission { submit, ..submission() } };
    });
    for (first, there) in [
        ("#!/bin/bash", ""),
        ("#!/bin/bash -e", ""),
        ("#! /usr/bin/bash -eu", ""),
        ("#!/usr/bin/env bash", ""),
        ("#!/usr/bin/env -S bash -e -x", ""),
        ("#!/usr/bin/env python3", ""),
        ("#!/opt/bash", ""),
        ("#!/usr/bin/env bash", "/usr/bin/env"),
        ("#!/bin/bash -e", "/bin/bash"),
    ] {
        let script = format!("{first}\nhostname\n");
        let submission = Submission { script: Some(script.clone()), ..submission() };
        let output_directory = "/data/output".to_owned();
        let batch = Workload::Batch { prefix: vec![], flags: vec![], script, output_directory };
        for workload in [Workload::Submit { submission }, batch] {
            changes.show(
                &format!("{first}, and there is {there:?}"),
                "sample-0",
                |config, facts| {
                    config.workload = workload;
                    facts.executables = paths(&[FLUX, VIEW_BASH, there]);
                },
            );
        }
    }
    insta::assert_snapshot!(changes.0);
}

#[test]
fn what_an_older_release_lacks_is_noted_if_asked_for() {
    let (mut config, mut facts) = (config(), facts("sample-0"));
    config = settings::everything(config.workload, config.network.bootstrap);
    config.broker.topology = Some("mincrit:4".to_owned());
    let mut command_and_notes = |release: &str| {
        facts.flux_version = Some(release.to_owned());
        let plan = plan(&config, &facts).unwrap();
        (plan.broker.lead_command.unwrap(), plan.notes)
    };
    let releases = ["0.78.0", "0.77.0", "0.74.0", "0.60.0", "0.56.0", "0.52.0", "0.48.0"];
    let lacks = releases.map(|release| command_and_notes(release).1.len());
    assert_eq!(lacks, [0, 1, 2, 4, 5, 6, 9]);
    let simple = "with Flux 0.77.0, flux.scheduler.simple has no effect";
    assert_eq!(command_and_notes("0.77.0").1, [simple]);
    // Root does not find its jobs.
    let is_asked = ["0.56.0", "0.57.0"].map(|it| command_and_notes(it).0.may_be_refused);
    assert_eq!(is_asked, [false, true]);
}

#[test]
fn changes_that_no_pod_can_follow() {
    let mut changes = Changes::default();
    changes.show("a host of no rank", "stranger", |_, _| ());
    changes.show("a lead of the same name elsewhere", "sample-0", |config, _| {
        config.network.bootstrap = child_of("far", "sample-[0-2]");
    });
    for strict in [true, false] {
        changes.show(&format!("no shell, strict {strict}"), "sample-0", |config, facts| {
            config.hooks.post = Some("true".to_owned());
            config.logging.strict = strict;
            facts.executables = paths(&[FLUX]);
        });
    }
    // A lead that follows one whose container was started would run the command again; a worker has nothing to repeat.
    for (hostname, replaced, unstarted) in
        [("sample-0", 1, 0), ("sample-2", 1, 0), ("sample-0", 1, 1), ("sample-0", 2, 1)]
    {
        let title = format!("{replaced} pods before, {unstarted} not started");
        changes.show(&title, hostname, |config, facts| {
            (config.unstarted_leads, facts.replaced) = (unstarted, replaced);
        });
    }
    insta::assert_snapshot!(changes.0);
}

/// A name may lead to a pod of before for as long as DNS remembers; the address never does. And `ZeroMQ` looks for addresses
/// of one kind only, so the broker needs to know which one let us in.
#[test]
fn changes_by_where_the_lead_was_found() {
    let (mut config, facts) = (config(), facts("sample-1"));
    let mut text = String::new();
    for bootstrap in
        [config.network.bootstrap.clone(), child_of("lead.example.test", "far-0,sample-1")]
    {
        config.network.bootstrap = bootstrap;
        for found in [None, Some("10.96.0.7"), Some("10.244.1.7"), Some("fd00::1")] {
            let at = found.map(|at| at.parse().unwrap());
            let file = broker_config(&config, &facts, at).unwrap().content;
            let lines = file.lines().filter(|line| {
                ["enable_ipv6", "bind", "connect", "host"].iter().any(|name| line.starts_with(name))
            });
            let _ = writeln!(text, "== {found:?}\n{}", lines.collect::<Vec<_>>().join("\n"));
        }
    }
    insta::assert_snapshot!(text);
}

#[test]
fn a_sidecar_finds_a_socket_that_is_not_shared() {
    let mut config = config();
    let uri = |config: &AgentConfig| client_environment(config, &facts("sample-2")).unwrap().uri;
    assert_eq!(uri(&config), config.layout.local_uri());
    config.broker.local_socket = false;
    assert_eq!(uri(&config), "local:///mnt/shared/config/run/flux/local-2");
}
