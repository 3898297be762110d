//! What holds for every configuration and every pod, also for those nobody would write.

use crate::prelude::*;
use crate::settings::{self, bootstraps};
use flux_agent::accounts::Databases;
use flux_agent::plan::{Facts, Plan, plan};
use proptest::collection::{btree_map, vec};
use proptest::option::{of, weighted};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// Text that breaks what takes it for more than text.
fn text() -> impl Strategy<Value = String> {
    let known = [
        "", " ", "'", "\"", "\\", "\n", "$HOME", "$(id)", "`id`", "a b", "a\nb", "'\"$X\"", "'\n'",
        "#", "-", "--", "=", "%p", "{{id}}", "*", "~", "!", ";", "flux", "\r\n", "\u{85}",
        "\u{2028}", "ä🦀", "\x7f\x01", "[x]\n", "fd00::7", "10.0.0.1", "\"\"\"", "'''",
    ];
    prop_oneof![
        4 => prop::sample::select(known.map(str::to_owned).to_vec()),
        2 => "[^\\x00]{0,12}",
        1 => "[a-z/:.,-]{1,20}",
    ]
}

fn path() -> impl Strategy<Value = PathBuf> {
    text().prop_map(|text| Path::new("/").join(text))
}

/// What somebody may write in the place of a setting, be it of that kind or not.
fn other() -> impl Strategy<Value = Value> {
    prop_oneof![
        1 => Just(Value::Null),
        4 => text().prop_map(Value::from),
        2 => prop_oneof![0..1_000_u64, (0..=u64::MAX >> 1)].prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => vec(text(), 0..4).prop_map(Value::from),
    ]
}

prop_compose! {
    /// A configuration with another value in the place of some.
    fn config()(
        config in prop::sample::select(settings::full()),
        others in vec(weighted(0.3, other()), 80), environment in btree_map(text(), text(), 0..4),
        sidecar in text(),
    ) -> AgentConfig {
        let places = settings::values(&config).into_keys();
        let others = places.zip(others).filter_map(|(path, other)| Some((path, other?)));
        let change = |config, (path, other): (String, Value)| {
            settings::with_value(&config, &path, other).unwrap_or(config)
        };
        let mut config = others.fold(config, change);
        config.version = AgentConfig::VERSION;
        config.environment.extend(environment);
        config.sidecars = config.sidecars.into_values().map(|it| (sidecar.clone(), it)).collect();
        config
    }
}

prop_compose! {
    /// Any pod, for one with such a configuration.
    fn any_facts(config: AgentConfig)(
        index in 0..10_u32, known in prop::bool::weighted(0.9), name in text(),
        uid in prop_oneof![Just(0_u32), any::<u32>()], gid in any::<u32>(),
        groups in vec(any::<u32>(), 0..3),
        passwd in vec(any::<u8>(), 0..40), agent in path(), cluster_domain in of(text()),
        (site_packages, fluxion_modules, pmix_plugins) in (of(path()), of(path()), of(path())),
        environment in btree_map(text(), text(), 0..4),
        [is_runner, has_temporary_directories, view_has_libc, has_home] in any::<[bool; 4]>(),
        [is_known, has_submission_plugins, has_own_cores] in any::<[bool; 3]>(),
        (cores, gpus) in (1..200_usize, 0..9_usize), replaced in 0..2_u32,
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
            environment, agent, cluster_domain, site_packages, fluxion_modules, pmix_plugins,
            flux_version: is_known.then(|| "0.88.0".to_owned()), has_submission_plugins,
            is_runner, has_temporary_directories, view_has_libc, uid, cores, has_own_cores, gpus,
            replaced,
        }
    }
}

fn pod() -> impl Strategy<Value = (AgentConfig, Facts)> {
    let facts = |config: AgentConfig| (Just(config.clone()), any_facts(config).boxed());
    config().boxed().prop_flat_map(facts)
}

fn written(plan: &Plan, path: &str) -> String {
    let document = serde_json::to_value(plan).unwrap();
    let mut files = document["steps"].as_array().unwrap().iter().map(|step| &step["write-file"]);
    let file = files.find(|file| file["path"] == json!(path)).unwrap();
    file["content"].as_str().unwrap().to_owned()
}

fn scripts(config: &AgentConfig, plan: &Plan) -> [String; 3] {
    let layout = &config.layout;
    [layout.view_helper(), layout.connect_helper(), layout.fluxion_helper()]
        .map(|path| written(plan, &path))
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
        prop_assert_eq!(settings::decided(&config, &facts), settings::decided(&config, &facts));
    }

    #[test]
    fn any_configuration_survives_its_document(config in config()) {
        let document = config.to_toml().unwrap();
        prop_assert_eq!(&AgentConfig::from_toml(&document).unwrap(), &config);
        prop_assert_eq!(config.to_toml().unwrap(), document);
    }

    #[test]
    fn the_brokers_configuration_is_a_document_whatever_is_in_it((mut config, facts) in pod()) {
        config.broker.custom_config = None;
        let Ok(plan) = plan(&config, &facts) else { return Ok(()) };
        let document: toml::Table = written(&plan, &config.layout.broker_toml()).parse().unwrap();
        prop_assert!(document.contains_key("bootstrap"));
    }
}

#[test]
fn a_wrong_name_of_a_variable_becomes_no_command() {
    let mut config = settings::everything(Workload::Diagnostics {}, bootstraps().remove(0));
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
            // Read, and not run.
            let output = Command::new("/bin/sh").args(["-n", "-c", &script]).output().unwrap();
            prop_assert!(output.status.success(), "{:?}\n{}", output, script);
        }
    }

    #[test]
    fn the_environment_arrives_as_it_was_given(environment in btree_map("X_[A-Z]{2}", text(), 0..4)) {
        let mut config = settings::everything(Workload::Diagnostics {}, bootstraps().remove(0));
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

/// The longest text that the definition of MiniCluster lets a user write.
const TEXT_LIMIT: usize = 65_536;

/// Pieces of text that something reads, splits, quotes, escapes or counts.
const PIECES: [&str; 4] = ["ƒ[", "'", "a\n", "\u{7f}"];

/// What `decide` gives on a thread with a small stack: nothing may recurse over its input.
fn on_a_small_stack<T: Send>(decide: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(512 << 10);
        thread.spawn_scoped(scope, decide).unwrap().join().unwrap()
    })
}

/// How much text is decided about the lead and a worker.
fn length_of_decisions(config: &AgentConfig) -> usize {
    let of = |hostname| settings::decided(config, &settings::facts(config, hostname, 0)).len();
    ["sample-0", "sample-1"].map(of).iter().sum()
}

#[test]
fn every_text_may_be_long() {
    let mut tried = 0;
    for config in settings::full().into_iter().step_by(3) {
        let values = settings::values(&config).into_iter();
        for (index, (path, _)) in values.filter(|(_, value)| value.is_string()).enumerate() {
            let text: String =
                PIECES[index % PIECES.len()].chars().cycle().take(TEXT_LIMIT).collect();
            let Some(config) = settings::with_value(&config, &path, json!(text)) else { continue };
            let length = on_a_small_stack(|| {
                let document = config.to_toml().unwrap();
                assert_eq!(AgentConfig::from_toml(&document).unwrap(), config);
                length_of_decisions(&config)
            });
            // Shown three times for each of two pods, escaped twice; the mount path is in some thirty paths.
            assert!(length < 600 * TEXT_LIMIT, "{path}: {length}");
            tried += 1;
        }
    }
    assert!(tried > 110, "{tried}");
}
