//! What holds for every configuration and every pod, also for those nobody would write.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod settings;

use flux_agent::accounts::Databases;
use flux_agent::plan::Facts;
use flux_agent::plan::{Plan, Step};
use flux_agent::plan::{client_environment, lead, plan, sidecar_hook};
use flux_contract::{
    AgentConfig, Archive, Bootstrap, Broker, ClusterName, FluxUser, Hooks, Hostlist, Install,
    Layout, Logging, Network, Shutdown, SidecarConfig, Submission, View, WorkerPolicy, Workload,
};
use proptest::collection::{btree_map, vec};
use proptest::option::of;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use std::io::Write;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Text that breaks what takes it for more than text.
fn text() -> impl Strategy<Value = String> {
    let known = [
        "",
        " ",
        "'",
        "\"",
        "\\",
        "\n",
        "$HOME",
        "$(id)",
        "`id`",
        "a b",
        "a\nb",
        "it's \"$X\"",
        "'\n'",
        "#",
        "-",
        "--",
        "=",
        "%p",
        "{{id}}",
        "*",
        "~",
        "!",
        ";",
        "flux",
        "\r\n",
        "\u{85}",
        "\u{2028}",
        "ä\u{1f980}",
        "\u{7f}\u{1}",
        "[x]\n",
        "\"\"\"",
        "'''",
    ];
    prop_oneof![
        4 => prop::sample::select(known.map(str::to_owned).to_vec()),
        2 => "[^\\x00]{0,12}",
        1 => "[a-z/:.,-]{1,20}",
    ]
}

fn words() -> impl Strategy<Value = Vec<String>> {
    vec(text(), 0..4)
}

fn path() -> impl Strategy<Value = PathBuf> {
    text().prop_map(|text| Path::new("/").join(text))
}

fn address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![any::<[u8; 4]>().prop_map(IpAddr::from), any::<[u16; 8]>().prop_map(IpAddr::from)]
}

prop_compose! {
    fn submission()(
        prefix in words(), submit in words(), flags in words(), command in words(), script in of(text()),
    ) -> Submission {
        Submission { prefix, submit, flags, command, script }
    }
}

fn workload() -> impl Strategy<Value = Workload> {
    prop_oneof![
        of(submission()).prop_map(|submission| Workload::Interactive { submission }),
        submission().prop_map(|submission| Workload::Submit { submission }),
        (words(), words()).prop_map(|(prefix, command)| Workload::Launcher { prefix, command }),
        (words(), words(), text(), text()).prop_map(|(prefix, flags, script, output_directory)| {
            Workload::Batch { prefix, flags, script, output_directory }
        }),
        Just(Workload::Diagnostics {}),
    ]
}

fn bootstrap() -> impl Strategy<Value = Bootstrap> {
    let hosts = |last| Hostlist::of_range("sample", 0..last);
    let child = move |(lead, lead_port, last)| {
        let mut all = Hostlist::parse("root-0").unwrap();
        all.append(&hosts(last)).unwrap();
        Bootstrap::Child { lead, lead_port, hosts: all }
    };
    prop_oneof![
        (1..9_u32).prop_map(move |last| Bootstrap::Root { hosts: hosts(last) }),
        (text(), any::<u16>(), 0..9_u32).prop_map(child),
    ]
}

prop_compose! {
    fn network()(
        headless_service in text(), port in any::<u16>(), lead_address in of(address()),
        bootstrap in bootstrap(), lead_deadline_seconds in any::<u32>().prop_map(u64::from),
    ) -> Network {
        Network { headless_service, port, lead_address, bootstrap, lead_deadline_seconds }
    }
}

prop_compose! {
    fn broker()(
        quorum in of(any::<u32>()), connect_timeout in of(text()), topology in of(text()),
        log_level in any::<u8>(), switches in any::<[bool; 3]>(), wrap in of(text()),
        custom_config in of(text()), queue_policy in text(),
    ) -> Broker {
        let [local_socket, zeromq_debug, simple_scheduler] = switches;
        Broker {
            quorum, connect_timeout, topology, log_level, local_socket, zeromq_debug, wrap,
            custom_config, queue_policy, simple_scheduler,
        }
    }
}

/// Any time that the API has.
fn seconds() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..1_000_u64,
        any::<i64>()
            .prop_map(i64::unsigned_abs)
            .prop_filter("of the API", |it| i64::try_from(*it).is_ok())
    ]
}

prop_compose! {
    fn hooks()(scripts in prop::array::uniform6(of(text()))) -> Hooks {
        let [init, pre_command, pre, broker_pre, worker_pre, post] = scripts;
        Hooks { init, pre_command, pre, broker_pre, worker_pre, post }
    }
}

prop_compose! {
    fn sidecar()(
        wait_for_socket in any::<bool>(), scripts in prop::array::uniform4(of(text())),
    ) -> SidecarConfig {
        let [command, init, service_pre, post] = scripts;
        SidecarConfig { wait_for_socket, command, init, service_pre, post }
    }
}

prop_compose! {
    fn config()(
        (namespace, size, mount) in (text(), any::<u32>(), path()),
        (enabled, python_path) in (any::<bool>(), of(text())),
        (name, uid, run_as_root) in (text(), any::<u32>(), any::<bool>()),
        capabilities in vec(text(), 0..3),
        // Boxed: values of all strategies in one another do not fit the stack of a test.
        (network, broker, workload) in (network().boxed(), broker().boxed(), workload().boxed()),
        worker in prop::sample::select(vec![
            WorkerPolicy::LeaveWhenDone, WorkerPolicy::LeaveAlways, WorkerPolicy::Rejoin,
        ]),
        [quiet, strict, timed, debug] in any::<[bool; 4]>(),
        (hooks, archive, munge) in (hooks().boxed(), of(text()).boxed(), any::<bool>()),
        (grace_seconds, deadline_seconds) in (seconds(), of(seconds())),
        environment in btree_map(text(), text(), 0..4),
        sidecars in btree_map(text(), sidecar().boxed(), 0..3).boxed(),
        (private, mounted, submitted) in (of(text()), any::<bool>(), any::<bool>()),
    ) -> AgentConfig {
        let layout = Layout::new(mount);
        AgentConfig {
            version: AgentConfig::VERSION,
            cluster: flux_contract::ClusterIdentity {
                name: ClusterName::new("sample").unwrap(), namespace, size,
            },
            layout: match private {
                Some(private) => layout.with_private(private),
                None => layout,
            },
            install: if mounted { Install::Image } else { Install::Copy },
            view: View { enabled, python_path },
            user: FluxUser { name, uid, run_as_root, capabilities },
            logging: Logging { quiet, strict, timed, debug },
            archive: archive.map(|path| Archive { path }),
            shutdown: Shutdown { grace_seconds, deadline_seconds },
            network, broker, worker, workload, hooks, munge, environment, submitted, sidecars,
        }
    }
}

prop_compose! {
    /// Any pod, for one with such a configuration.
    fn any_facts(config: AgentConfig)(
        index in 0..10_u32, known in prop::bool::weighted(0.9), name in text(),
        uid in prop_oneof![Just(0_u32), any::<u32>()], gid in any::<u32>(),
        groups in vec(any::<u32>(), 0..3),
        passwd in vec(any::<u8>(), 0..40), agent in path(), cluster_domain in of(text()),
        (site_packages, fluxion_modules) in (of(path()), of(path())),
        environment in btree_map(text(), text(), 0..4),
        [is_runner, has_temporary_directories, view_has_libc, has_home] in any::<[bool; 4]>(),
        processors in 1..200_usize, replaced in 0..2_u32,
        there in prop::array::uniform5(prop::bool::weighted(0.8)),
    ) -> Facts {
        let complete = settings::facts(&config, "", uid);
        let executables = complete.executables.into_iter().zip(there);
        Facts {
            hostname: if known { format!("sample-{index}") } else { name },
            gid,
            groups,
            accounts: Databases { passwd, ..Databases::default() },
            executables: executables.filter_map(|(path, there)| there.then_some(path)).collect(),
            homes: has_home.then(|| PathBuf::from("/root")).into_iter().collect(),
            environment, agent, cluster_domain, site_packages, fluxion_modules,
            is_runner, has_temporary_directories, view_has_libc, uid, processors, replaced,
        }
    }
}

fn pod() -> impl Strategy<Value = (AgentConfig, Facts)> {
    let facts = |config: AgentConfig| (Just(config.clone()), any_facts(config).boxed());
    config().boxed().prop_flat_map(facts)
}

/// Everything that is decided about a pod, as text.
fn decided(config: &AgentConfig, facts: &Facts) -> String {
    let plan = plan(config, facts);
    let shown = plan.as_ref().map(|plan| format!("{plan} {plan:#}"));
    let hook = |name: &String| sidecar_hook(config, facts, "commands.init", Some(name));
    let hooks: Vec<_> = config.sidecars.keys().map(hook).collect();
    let (around, lead) = (client_environment(config, facts), lead(config, facts));
    format!("{plan:#?} {shown:?} {around:#?} {lead:#?} {hooks:#?}")
}

/// What `plan` writes to `path`.
fn written<'plan>(plan: &'plan Plan, path: &Path) -> &'plan str {
    let mut files = plan.steps.iter().filter_map(|step| {
        let Step::WriteFile(file) = step else { return None };
        (file.path == path).then_some(&*file.content)
    });
    files.next().unwrap()
}

/// The scripts for shells in a plan.
fn scripts(config: &AgentConfig, plan: &Plan) -> [String; 3] {
    let layout = &config.layout;
    [layout.view_helper(), layout.connect_helper(), layout.fluxion_helper()]
        .map(|path| written(plan, &path).to_owned())
}

/// What a shell says against `script` without running it.
fn complaint(script: &str) -> String {
    let mut shell = Command::new("/bin/sh");
    shell.arg("-n").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut shell = shell.spawn().unwrap();
    shell.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = shell.wait_with_output().unwrap();
    if output.status.success() {
        return String::new();
    }
    format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr))
}

/// The same cases each time.
fn cases(number: u32) -> ProptestConfig {
    ProptestConfig {
        rng_seed: RngSeed::Fixed(20_261_121),
        failure_persistence: None,
        ..ProptestConfig::with_cases(number)
    }
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn any_configuration_is_planned_or_refused_and_twice_the_same((config, facts) in pod()) {
        prop_assert_eq!(decided(&config, &facts), decided(&config, &facts));
    }

    #[test]
    fn any_configuration_survives_its_document(config in config()) {
        let document = config.to_toml().unwrap();
        prop_assert_eq!(&AgentConfig::from_toml(&document).unwrap(), &config);
        prop_assert_eq!(config.to_toml().unwrap(), document);
    }

    #[test]
    fn the_brokers_configuration_is_a_document_whatever_is_in_it((config, facts) in pod()) {
        prop_assume!(config.broker.custom_config.is_none());
        let Ok(plan) = plan(&config, &facts) else { return Ok(()) };
        let document: toml::Table = written(&plan, &config.layout.broker_toml()).parse().unwrap();
        prop_assert!(document.contains_key("bootstrap"));
    }
}

#[test]
fn the_name_of_a_variable_that_is_none_cannot_become_a_command() {
    let mut config =
        settings::everything(Workload::Diagnostics {}, settings::bootstraps().remove(0));
    config.environment = [("a\nexit 7\n".to_owned(), "b".to_owned())].into();
    let facts = settings::facts(&config, "sample-0", 0);
    let [view, ..] = scripts(&config, &plan(&config, &facts).unwrap());
    let status = Command::new("/bin/sh").args(["-c", &view]).status().unwrap();
    assert_eq!(status.code(), Some(0), "{view}");
}

proptest! {
    // Each case starts up to three shells.
    #![proptest_config(cases(64))]

    #[test]
    fn the_helper_files_are_scripts_whatever_is_in_them((config, facts) in pod()) {
        let Ok(plan) = plan(&config, &facts) else { return Ok(()) };
        for script in scripts(&config, &plan) {
            let complaint = complaint(&script);
            prop_assert!(complaint.is_empty(), "{}\n{}", complaint, script);
        }
    }

    #[test]
    fn the_environment_arrives_as_it_was_given(environment in btree_map("X_[A-Z]{2}", text(), 0..4)) {
        let mut config = settings::everything(Workload::Diagnostics {}, settings::bootstraps().remove(0));
        config.environment = environment.clone();
        let facts = settings::facts(&config, "sample-0", 0);
        let [view, ..] = scripts(&config, &plan(&config, &facts).unwrap());
        let show = |name: &String| format!("printf '%s\\0' \"${name}\"\n");
        let script = view + &environment.keys().map(show).collect::<String>();
        let output = Command::new("/bin/sh").args(["-c", &script]).output().unwrap();
        let values = environment.values().map(|value| format!("{value}\0"));
        prop_assert_eq!(String::from_utf8_lossy(&output.stdout), values.collect::<String>());
    }
}
