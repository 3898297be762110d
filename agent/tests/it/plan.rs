//! Configuration and facts become plans. A snapshot shows everything a pod would do, with the
//! content of every file.

use crate::settings::{self, words};
use flux_agent::accounts::Databases;
use flux_agent::plan::{Facts, broker_config, client_environment, plan};
use flux_contract::{
    AgentConfig, Archive, Bootstrap, Exit, Logging, Rest, Submission, WorkerPolicy, Workload,
};
use flux_protocol::Hostlist;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

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

fn shown(config: &AgentConfig, facts: &Facts) -> String {
    format!("{:#}", plan(config, facts).unwrap())
}

/// The plan of `hostname` after a `change`.
fn planned(hostname: &str, change: impl FnOnce(&mut AgentConfig, &mut Facts)) -> String {
    let (mut config, mut facts) = (config(), facts(hostname));
    change(&mut config, &mut facts);
    shown(&config, &facts)
}

/// Checks that the plan of `hostname` has each of `texts` after a `change`, or has it not where it begins with `!`.
fn plan_says(hostname: &str, texts: &[&str], change: impl FnOnce(&mut AgentConfig, &mut Facts)) {
    let plan = planned(hostname, change);
    for text in texts {
        let (is_there, text) = text.strip_prefix('!').map_or((true, *text), |text| (false, text));
        assert_eq!(plan.contains(text), is_there, "{text:?}: {plan}");
    }
}

#[test]
fn lead() {
    insta::assert_snapshot!(planned("sample-0", |_, _| ()));
}

#[test]
fn worker_with_the_simple_scheduler() {
    let plan = planned("sample-2", |config, _| config.broker.simple_scheduler = true);
    insta::assert_snapshot!(plan);
}

#[test]
fn worker_of_a_bursted_cluster() {
    insta::assert_snapshot!(planned("sample-0", |config, _| {
        config.network.lead_address = None;
        config.network.bootstrap = child_of("lead.example.test", "root-[0-1],sample-[0-2]");
    }));
}

#[test]
fn without_the_view_flux_is_the_images_own() {
    insta::assert_snapshot!(planned("sample-0", |config, facts| {
        config.view.enabled = false;
        facts.site_packages = None;
        facts.executables = paths(&["/bin/sh"]);
    }));
}

#[test]
fn everything_that_can_be_set() {
    let workload = Workload::Submit { submission: submission() };
    let config = settings::everything(workload, settings::bootstraps().remove(0));
    insta::assert_snapshot!(shown(&config, &facts("sample-0")));
}

/// The lines of the plan of `hostname` for `workload`, and for `logging`, from the first file of the user on.
fn commands(hostname: &str, workload: Workload, logging: impl FnOnce(&mut Logging)) -> String {
    let text = planned(hostname, |config, _| {
        config.workload = workload;
        logging(&mut config.logging);
    });
    let (_, behind_helpers) = text.split_once("load-fluxion.sh").unwrap();
    behind_helpers.split_once("flux-agent fluxion\n").unwrap().1.to_owned()
}

#[test]
fn batch() {
    let workload = Workload::Batch {
        prefix: words(&["fusion"]),
        flags: words(&["-N", "3", "--job-name=two words"]),
        script: "#!/bin/bash\nflux submit --flags=waitable hostname\n".to_owned(),
        output_directory: "/data/output".to_owned(),
    };
    insta::assert_snapshot!(commands("sample-0", workload, |logging| logging.quiet = true));
}

#[test]
fn launcher_timed() {
    let command = words(&["nextflow", "run", "a b.nf"]);
    let workload = Workload::Launcher { prefix: words(&["fusion"]), command, script: None };
    insta::assert_snapshot!(commands("sample-0", workload, |logging| logging.timed = true));
}

#[test]
fn interactive_with_a_command() {
    let submission = Submission {
        script: Some("#!/bin/sh\nhostname\n".to_owned()),
        command: words(&["/bin/sh", "/tmp/custom-entrypoint.sh"]),
        ..submission()
    };
    let workload = Workload::Interactive { submission: Some(submission) };
    insta::assert_snapshot!(commands("sample-0", workload.clone(), |_| ()));
    let worker = commands("sample-1", workload, |_| ());
    assert!(!worker.contains("flux submit"), "only the lead submits: {worker}");
    assert!(worker.contains("custom-entrypoint.sh"), "the job may run on any pod: {worker}");
}

#[test]
fn a_worker_has_hooks_and_options_of_its_own() {
    let hooks = ["of a worker", "!of the lead"];
    let options = ["--wrap=strace", "!-Slocal-uri", "!archive", "start it again\n"];
    plan_says("sample-1", &[&hooks[..], &options].concat(), |config, _| {
        config.broker.local_socket = false;
        config.hooks.worker_pre = Some("of a worker".to_owned());
        config.hooks.broker_pre = Some("of the lead".to_owned());
        config.broker.wrap = Some("strace".to_owned());
        config.archive = Some(Archive { path: "/archive/state.tgz".to_owned() });
        config.worker = WorkerPolicy::Rejoin;
    });
}

/// flux-core 0.50 takes a set of ranks for the quorum, 0.47 has no `flux submit`; no release before 0.69 has
/// `flux start -S`.
#[test]
fn each_release_gets_what_it_understands_or_is_refused() {
    for (release, quorum) in [
        ("0.48.0", "-o-Sbroker.quorum=0-2"),
        ("0.50.0", "-o-Sbroker.quorum=0-2"),
        ("0.51.0", "-o-Sbroker.quorum=3"),
        ("0.66.0", "-o-Sbroker.quorum=3"),
        ("0.88.0", "-o-Sbroker.quorum=3"),
    ] {
        plan_says("sample-0", &[quorum, "-o-Srundir=", "! -S"], |config, facts| {
            config.broker.quorum = Some(3);
            facts.flux_version = Some(release.to_owned());
        });
    }
    let old = Facts { flux_version: Some("0.47.0".to_owned()), ..facts("sample-0") };
    let error = plan(&config(), &old).unwrap_err().to_string();
    assert!(error.contains("this is Flux 0.47.0, which lacks flux submit"), "{error}");
    let mini = settings::plain(Workload::Submit {
        submission: Submission { submit: words(&["flux", "mini", "submit"]), ..submission() },
    });
    plan(&mini, &old).unwrap();
}

#[test]
fn the_lead_alone_asks_for_diagnostics() {
    let program = "-- /mnt/shared/bin/flux-agent diagnose --flux /mnt/shared/view/bin/flux\n";
    for (hostname, text) in [("sample-0", program), ("sample-1", "!diagnose")] {
        plan_says(hostname, &[text], |config, _| config.workload = Workload::Diagnostics {});
    }
}

#[test]
fn an_image_gets_what_it_lacks() {
    let texts = ["make directory /mnt/shared/config/tmp (1777", "TMPDIR?=/mnt/shared/config/tmp"];
    plan_says("sample-0", &texts, |_, facts| facts.has_temporary_directories = false);
    plan_says("sample-0", &["!export LD_LIBRARY_PATH"], |_, facts| facts.view_has_libc = true);
    // Flux gets the view's bash, hooks keep the image's own sh.
    let texts = ["SHELL?=/mnt/shared/view/bin/bash", "run commands.pre with /bin/sh"];
    plan_says("sample-0", &texts, |config, facts| {
        config.hooks.pre = Some("true".to_owned());
        facts.executables.remove(Path::new("/bin/bash"));
    });
    let texts = ["run commands.pre with /mnt/shared/view/bin/bash"];
    plan_says("sample-0", &texts, |config, facts| {
        config.hooks.pre = Some("true".to_owned());
        facts.executables.retain(|path| path.starts_with("/mnt"));
    });
}

#[test]
fn variables_of_the_container_count_unless_they_name_missing_files() {
    let with = |name: &str, value: &str, texts: &[&str]| {
        let variable = (name.to_owned(), value.to_owned());
        plan_says("sample-0", texts, |_, facts| facts.environment = [variable].into());
    };
    with("SHELL", "/usr/bin/fish", &[" SHELL=/bin/bash "]);
    with("FLUX_DISABLE_JOB_CLEANUP", "1", &["!CLEANUP", "!--cleanup"]);
}

#[test]
fn an_interactive_lead_submits_its_command_once() {
    let interactive = || Workload::Interactive { submission: Some(submission()) };
    for (hostname, submitted, replaced, text) in [
        ("sample-0", false, 0, "flux submit"),
        // The archive has it, or the lead before has submitted it.
        ("sample-0", true, 0, "!flux submit"),
        ("sample-0", false, 1, "!flux submit"),
        ("sample-2", false, 0, "s for the lead's port to close"),
    ] {
        plan_says(hostname, &[text], |config, facts| {
            config.workload = interactive();
            (config.submitted, facts.replaced) = (submitted, replaced);
        });
    }
    plan_says("sample-0", &["flux submit"], |config, facts| {
        config.workload = interactive();
        (config.unstarted_leads, facts.replaced) = (1, 1);
    });
}

#[test]
fn an_ipv6_address_switches_ipv6_on() {
    let texts = ["enable_ipv6 = true", "connect = \"tcp://[fd00::7]:8051\""];
    plan_says("sample-1", &texts, |config, _| {
        config.network.lead_address = Some("fd00::7".parse().unwrap());
    });
    let texts = ["connect = \"tcp://[fd00::9]:9\"", "wait for the lead broker at fd00::9"];
    plan_says("sample-1", &texts, |config, _| {
        config.network.lead_address = None;
        config.network.bootstrap = child_of("fd00::9", "far-0,sample-1");
    });
}

#[test]
fn a_job_of_the_api_is_ingested_alone() {
    let rest = Rest { port: 8080, token_sha256: "0".repeat(64) };
    let ingest = "[ingest]\n    batch-count = 1";
    plan_says("sample-0", &[ingest], |config, _| config.rest = Some(rest));
    plan_says("sample-0", &["![ingest]"], |_, _| ());
}

#[test]
fn one_job_is_run_and_several_are_submitted() {
    for (submit, flags, begins, watches) in [
        ("flux submit", "-N2 --wait-event=start --cwd=/a", "run '--flags=novalidate' -N2 ", false),
        ("flux submit", "--cc=1-4", "submit ", true),
        ("flux submit", "-N2 --bcc 1-4", "submit ", true),
        ("flux submit", "--prog", "submit ", true),
        ("flux submit --log=/tmp/log", "-N2", "submit ", true),
        ("flux mini submit", "-N2", "mini submit -N2 --quiet --watch ", true),
    ] {
        let begins = format!("ending with it: {FLUX} {begins}");
        let watches = if watches { " --quiet --watch " } else { "!--watch" };
        plan_says("sample-0", &[&begins, watches], |config, _| {
            let split = |text: &str| words(&text.split_whitespace().collect::<Vec<_>>());
            let (submit, flags) = (split(submit), split(flags));
            config.workload =
                Workload::Submit { submission: Submission { submit, flags, ..submission() } };
        });
    }
}

/// A change of what is submitted by the agent itself.
type Change = fn(&mut Submission, &mut AgentConfig, &mut Facts);

#[test]
fn the_agent_submits_commands_of_nodes_and_tasks_itself() {
    let own = format!("it: {FLUX} /mnt/shared/bin/flux-agent submit '--flux={FLUX}' ");
    let submitted = |texts: &[&str], change: Change| {
        plan_says("sample-0", texts, |config, facts| {
            facts.flux_version = Some("0.88.0".to_owned());
            let mut submission = submission();
            change(&mut submission, config, facts);
            config.workload = Workload::Submit { submission };
        });
    };
    let by_agent: [(&str, Change); 4] = [
        ("-N 3 -n6 -- echo", |_, _, facts| facts.flux_version = Some("0.87.0".to_owned())),
        ("-N 3 -- echo", |it, _, _| it.flags = words(&["-N", "3"])),
        ("-n6 -- echo", |it, _, _| it.flags = words(&["-n6"])),
        ("-N 3 -n6 -- echo", |_, config, _| {
            config.broker.custom_config = Some("[exec]\n".to_owned());
        }),
    ];
    for (text, change) in by_agent {
        submitted(&[&(own.clone() + text), "\n    submitted by the agent itself\n"], change);
    }
    let by_flux: [(&str, Change); 9] = [
        ("commands.prefix", |it, _, _| it.prefix = words(&["fusion"])),
        ("flux.submitCommand", |it, _, _| it.submit.push("-u".to_owned())),
        ("options besides", |it, _, _| it.flags.push("-vvv".to_owned())),
        ("options besides", |it, _, _| it.flags = words(&["-N", "3", "-n2"])),
        ("begins with an option", |it, _, _| it.command = words(&["-x"])),
        ("the image's own", |_, config, _| config.view.enabled = false),
        ("plugins", |_, _, facts| facts.has_submission_plugins = true),
        ("Flux 0.80.0 is none of", |_, _, facts| facts.flux_version = Some("0.80.0".to_owned())),
        ("PYTHONHOME is set", |_, _, facts| {
            facts.environment = [("PYTHONHOME".to_owned(), "/".to_owned())].into();
        }),
    ];
    for (why, change) in by_flux {
        submitted(&["\n    submitted by flux run: ", why, "--flags=novalidate"], change);
    }
    submitted(&["flux run -N 3", "[ingest]", "!novalidate"], |_, config, _| {
        config.broker.custom_config = Some("[ingest.validator]\n".to_owned());
    });
}

#[test]
fn a_script_keeps_the_options_of_a_missing_shell() {
    let bash = format!("#!{VIEW_BASH}");
    for (first, there, shell) in [
        ("#!/bin/bash", "", bash.as_str()),
        ("#!/bin/bash -e", "", &format!("{bash} -e")),
        ("#! /usr/bin/bash -eu", "", &format!("{bash} -eu")),
        ("#!/usr/bin/env bash", "", &bash),
        ("#!/usr/bin/env -S bash -e -x", "", &format!("{bash} -e -x")),
        ("#!/usr/bin/env python3", "", "#!/usr/bin/env python3"),
        ("#!/opt/bash", "", "#!/opt/bash"),
        ("#!/usr/bin/env bash", "/usr/bin/env", "#!/usr/bin/env bash"),
        ("#!/bin/bash -e", "/bin/bash", "#!/bin/bash -e"),
    ] {
        let script = format!("{first}\nhostname\n");
        let submission = Submission { script: Some(script.clone()), ..submission() };
        let output_directory = "/data/output".to_owned();
        let batch = Workload::Batch { prefix: vec![], flags: vec![], script, output_directory };
        for workload in [Workload::Submit { submission }, batch] {
            let expected = format!("    {shell}\n    hostname\n");
            plan_says("sample-0", &[&expected], |config, facts| {
                config.workload = workload;
                facts.executables = paths(&[FLUX, VIEW_BASH, there]);
            });
        }
    }
}

#[test]
fn a_dump_has_the_format_of_the_archives_name() {
    for (archive, dump) in [
        ("/state/a.tar", "/state/.a.tar.sample-0.new/dump.tar,"),
        ("/state/a.tar.xz", "/state/.a.tar.xz.sample-0.new/dump.tar.xz,"),
        ("/state/flux", "/state/.flux.sample-0.new/dump.tgz,"),
    ] {
        plan_says("sample-0", &[&format!("dumped to {dump}")], |config, _| {
            config.archive = Some(Archive { path: archive.to_owned() });
        });
    }
}

#[test]
fn a_lead_that_follows_a_lost_one_runs_no_command() {
    let again = |hostname: &str| Facts { replaced: 1, ..facts(hostname) };
    let refused = plan(&config(), &again("sample-0")).unwrap_err();
    assert_eq!(refused.code, Exit::LeadLost.code());
    assert!(refused.to_string().contains("spec.backoffLimit"), "{refused}");
    assert!(plan(&config(), &again("sample-2")).is_ok(), "a worker has nothing to repeat");
    let mut first = config();
    first.unstarted_leads = 1;
    assert!(plan(&first, &again("sample-0")).is_ok(), "no container of the other was started");
    let lost = Facts { replaced: 2, ..facts("sample-0") };
    assert_eq!(plan(&first, &lost).unwrap_err().code, Exit::LeadLost.code());
}

#[test]
fn fluxs_user_has_the_pods_groups_and_not_roots() {
    plan_says("sample-0", &["with the pod's groups [50, 4343]\n"], |_, facts| {
        facts.accounts.group = b"root:x:0:root\ndisk:x:6:root\nstaff:x:50:app\n".to_vec();
        // As containerd does: those of the image for root, `supplementalGroups`, `fsGroup`.
        facts.groups = vec![0, 6, 50, 4343];
    });
}

#[test]
fn a_container_of_another_user_gets_a_home() {
    for (uid, gid, home, expected) in [
        (4321, 99, "/none", "fluxer (4321:99), home /mnt/shared/home\n"),
        (3000, 3001, "/srv/app", "app (3000:3001), home /srv/app\n"),
        (0, 0, "/root", "root (0:0), home /root\n"),
    ] {
        let expected = format!("run Flux as the container's own user {expected}");
        plan_says("sample-0", &[&expected], |config, facts| {
            (facts.uid, facts.gid, facts.homes) = (uid, gid, paths(&[home]));
            config.user.run_as_root = uid == 0;
        });
    }
}

/// A name may lead to a pod of before for as long as DNS remembers; the address never does.
#[test]
fn a_lead_found_at_its_address_is_connected_to_there() {
    let (config, facts) = (config(), facts("sample-1"));
    let file = |found: Option<&str>| {
        broker_config(&config, &facts, found.map(|at| at.parse().unwrap())).unwrap()
    };
    let document = serde_json::to_value(plan(&config, &facts).unwrap()).unwrap();
    let step = serde_json::json!({ "write-file": file(None) });
    assert!(document["steps"].as_array().unwrap().contains(&step), "{step}");
    assert_eq!(file(Some("10.96.0.7")), file(None), "it is there from the start");
    assert!(file(None).content.contains("10.96.0.7"));
    let by_name = file(Some("10.244.1.7"));
    assert!(!by_name.content.contains("10.96.0.7"), "{}", by_name.content);
}

/// `ZeroMQ` looks for addresses of one kind only, so the broker needs to know which one let us in.
#[test]
fn a_lead_found_by_name_is_connected_to_by_name() {
    let mut config = config();
    let by_its_own_name = "bind = \"tcp://*:8051\"\nhost = \"sample-0\"\n";
    let elsewhere = "connect = \"tcp://lead.example.test:9\"";
    for (bootstrap, expected) in [
        (config.network.bootstrap.clone(), by_its_own_name),
        (child_of("lead.example.test", "far-0,sample-1"), elsewhere),
    ] {
        config.network.bootstrap = bootstrap;
        for (found, is_ipv6) in [("10.0.0.1", false), ("fd00::1", true)] {
            let found = Some(found.parse().unwrap());
            let file = broker_config(&config, &facts("sample-1"), found).unwrap().content;
            assert!(file.contains(expected), "{file}");
            assert_eq!(file.contains("enable_ipv6 = true"), is_ipv6, "{file}");
        }
    }
}

#[test]
fn flux_finds_fluxion_wherever_its_parts_were_built() {
    let modules = "/mnt/shared/view/lib64/flux/modules";
    let lists = [
        ("FLUX_MODULE_PATH", modules),
        ("FLUX_MODPROBE_PATH_APPEND", "/mnt/shared/view/etc/flux/modprobe"),
        ("FLUX_EXEC_PATH", "/mnt/shared/view/libexec/flux/cmd"),
    ];
    for (list, path) in lists {
        plan_says("sample-0", &[&format!("!{list}")], |_, _| ());
        let broker = format!(" {list}+=:{path} ");
        let people = format!("{list}=\"${{{list}:+${list}:}}\"{path}");
        plan_says("sample-0", &[&broker, &people], |_, facts| {
            facts.fluxion_modules = Some(modules.into());
        });
    }
}

#[test]
fn a_sidecar_finds_a_socket_that_is_not_shared() {
    let mut config = config();
    let uri = |config: &AgentConfig| client_environment(config, &facts("sample-2")).unwrap().uri;
    assert_eq!(uri(&config), config.layout.local_uri());
    config.broker.local_socket = false;
    assert_eq!(uri(&config), "local:///mnt/shared/config/run/flux/local-2");
}

#[test]
fn an_impossible_plan_is_refused_with_cause_and_code() {
    let refused = |config: &AgentConfig, facts: &Facts, exit: Exit, text: &str| {
        let error = plan(config, facts).unwrap_err();
        assert_eq!(error.code, exit.code(), "{error}");
        assert!(error.to_string().contains(text), "{error}");
    };
    refused(&config(), &facts("stranger"), Exit::Config, "stranger");
    refused(&config(), &facts("stranger"), Exit::Config, "sample-[0-2]");

    let mut hooked = config();
    hooked.hooks.post = Some("true".to_owned());
    let without_shell = Facts { executables: paths(&[FLUX]), ..facts("sample-0") };
    refused(&hooked, &without_shell, Exit::Hook, "commands.post");
    hooked.logging.strict = false;
    assert!(plan(&hooked, &without_shell).is_ok(), "reported when it is its turn");

    let mut child = config();
    child.network.bootstrap = child_of("far", "sample-[0-2]");
    refused(&child, &facts("sample-0"), Exit::Config, "far");
}
