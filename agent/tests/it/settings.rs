//! A configuration with everything set, and what pods there are for it.
#![allow(dead_code, reason = "every test binary uses its own part of this")]
#![allow(clippy::unwrap_used, reason = "a test helper that fails fails its test")]

use flux_agent::accounts::Databases;
use flux_agent::plan::{Facts, client_environment, lead, plan, sidecar_hook};
use flux_contract::{
    AgentConfig, Archive, Autoscale, Bootstrap, Broker, ClusterIdentity, ClusterName, FluxUser,
    Hooks, Install, Layout, Logging, Network, Rest, Shutdown, Submission, View, WorkerPolicy,
    Workload,
};
use flux_protocol::Hostlist;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub(crate) fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// A submission of `command` with nothing in it that can be left out.
pub(crate) fn submission(flags: &[&str], command: &[&str]) -> Submission {
    Submission {
        prefix: vec![],
        submit: words(&["flux", "submit"]),
        flags: words(flags),
        command: words(command),
        script: None,
    }
}

fn full_submission() -> Submission {
    let script = Some("#!/bin/sh\nhostname\n".to_owned());
    Submission { prefix: words(&["fusion"]), script, ..submission(&["-N3"], &["echo", "a  b"]) }
}

/// One of each kind of work, each with everything set.
pub(crate) fn workloads() -> Vec<Workload> {
    vec![
        Workload::Interactive { submission: Some(full_submission()) },
        Workload::Submit { submission: full_submission() },
        Workload::Launcher {
            prefix: words(&["fusion"]),
            command: words(&["nextflow", "run"]),
            script: Some("echo script\n".to_owned()),
        },
        Workload::Batch {
            prefix: words(&["fusion"]),
            flags: words(&["-N3"]),
            script: "#!/bin/sh\nflux submit hostname\n".to_owned(),
            output_directory: "/data/output".to_owned(),
        },
        Workload::Diagnostics {},
    ]
}

/// One of each kind of instance.
pub(crate) fn bootstraps() -> Vec<Bootstrap> {
    let mut hosts = Hostlist::of_range("root", 0..1);
    hosts.append(&Hostlist::of_range("sample", 0..3)).unwrap();
    vec![
        Bootstrap::Root { hosts: Hostlist::of_range("sample", 0..3) },
        Bootstrap::Child { lead: "lead.example.test".to_owned(), lead_port: 30093, hosts },
    ]
}

/// A document with every field, as the first release writes it.
const DOCUMENT: &str = include_str!("../../../crates/contract/tests/golden/agent.toml");

/// A configuration with every switch on, nothing left out, and nothing of the network that is a default.
pub(crate) fn everything(workload: Workload, bootstrap: Bootstrap) -> AgentConfig {
    let written = AgentConfig::from_toml(DOCUMENT).unwrap();
    let (name, namespace) = (ClusterName::new("sample").unwrap(), "science".to_owned());
    AgentConfig {
        cluster: ClusterIdentity { name, namespace, size: 3 },
        layout: Layout::new("/mnt/shared").with_private("/srv/private"),
        view: View { enabled: true, ..written.view },
        user: FluxUser { name: "fluxer".to_owned(), uid: 1717, ..written.user },
        network: Network {
            headless_service: "subdomain".to_owned(),
            port: 8051,
            bootstrap,
            lead_deadline_seconds: 321,
            ..written.network
        },
        broker: Broker {
            connect_timeout: Some("7s".to_owned()),
            log_level: 5,
            local_socket: true,
            ..written.broker
        },
        worker: WorkerPolicy::LeaveWhenDone,
        workload,
        logging: Logging { strict: true, ..written.logging },
        shutdown: Shutdown {
            grace_seconds: 20,
            deadline_seconds: Some(60),
            idle_seconds: Some(120),
        },
        archive: written.archive.map(|it| Archive { every_seconds: Some(60), ..it }),
        autoscale: Some(Autoscale { max_size: 3, idle_seconds: 45 }),
        rest: written.rest.map(|rest| Rest {
            read_only_token_sha256: Some("7f".to_owned()),
            rotation: Some("second".to_owned()),
            tls: true,
            ..rest
        }),
        environment: [("GREETING".to_owned(), "hello".to_owned())].into(),
        sidecars: [("beside".to_owned(), written.sidecars["db"].clone())].into(),
        ..written
    }
}

/// [`everything`] for every kind of work and of instance.
pub(crate) fn full() -> Vec<AgentConfig> {
    let of_each = |bootstrap: Bootstrap| {
        workloads().into_iter().map(move |workload| everything(workload, bootstrap.clone()))
    };
    bootstraps().into_iter().flat_map(of_each).collect()
}

/// All values in the document of `config`, by their path in it (JSON pointers, RFC 6901).
pub(crate) fn values(config: &AgentConfig) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    let mut open = vec![(String::new(), serde_json::to_value(config).unwrap())];
    while let Some((path, value)) = open.pop() {
        match &value {
            Value::Object(fields) => {
                open.extend(fields.iter().map(|(name, it)| (format!("{path}/{name}"), it.clone())));
            }
            Value::Array(list) => {
                let list = list.iter().enumerate();
                open.extend(list.map(|(index, it)| (format!("{path}/{index}"), it.clone())));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
        found.insert(path, value);
    }
    found
}

/// `config` with `value` at `path`, if it has such a place and that is a configuration.
pub(crate) fn with_value(config: &AgentConfig, path: &str, value: Value) -> Option<AgentConfig> {
    let mut document = serde_json::to_value(config).unwrap();
    *document.pointer_mut(path)? = value;
    serde_json::from_value(document).ok()
}

/// Everything that is decided about a pod, as text.
pub(crate) fn decided(config: &AgentConfig, facts: &Facts) -> String {
    let plan = plan(config, facts);
    let shown = plan.as_ref().map(|plan| format!("{plan} {plan:#}"));
    let hook = |name: &String| sidecar_hook(config, facts, "commands.init", Some(name));
    let hooks: Vec<_> = config.sidecars.keys().map(hook).collect();
    let (client, lead) = (client_environment(config, facts), lead(config, facts));
    format!("{plan:#?} {shown:?} {client:#?} {lead:#?} {hooks:#?}")
}

/// A configuration of which every value differs from every default and constant, with every switch off
/// and everything left out that can be.
pub(crate) fn plain(workload: Workload) -> AgentConfig {
    let all = everything(workload, bootstraps().remove(0));
    AgentConfig {
        install: Install::Copy,
        view: View { python_path: None, ..all.view },
        user: FluxUser { run_as_root: false, capabilities: vec![], ..all.user },
        broker: Broker {
            quorum: None,
            topology: None,
            zeromq_debug: false,
            wrap: None,
            custom_config: None,
            simple_scheduler: false,
            ..all.broker
        },
        logging: Logging { quiet: false, strict: true, timed: false, debug: false },
        hooks: Hooks::default(),
        archive: None,
        autoscale: None,
        rest: None,
        munge: false,
        environment: BTreeMap::new(),
        exclusive_cpus: None,
        submitted: false,
        unstarted_leads: 0,
        sidecars: BTreeMap::new(),
        ..all
    }
}

/// The pod `hostname` of a container that starts as `uid`, with everything in its image and view.
pub(crate) fn facts(config: &AgentConfig, hostname: &str, uid: u32) -> Facts {
    let view = PathBuf::from(config.layout.view());
    let executables = ["bin/flux", "bin/bash", "bin/sh"].map(|path| view.join(path));
    let image = ["/bin/bash", "/bin/sh"].map(Into::into);
    Facts {
        hostname: hostname.to_owned(),
        uid,
        gid: uid,
        groups: vec![4343],
        accounts: Databases {
            passwd: b"root:x:0:0:root:/root:/bin/bash\n".to_vec(),
            ..Databases::default()
        },
        environment: [("HOME".to_owned(), "/root".to_owned())].into(),
        agent: config.layout.agent().into(),
        cluster_domain: Some("example.test".to_owned()),
        site_packages: Some(view.join("lib/python3.12/site-packages")),
        flux_version: None,
        has_submission_plugins: false,
        pmix_plugins: Some(view.join("lib/pmix")),
        fluxion_modules: Some(view.join("lib/flux/modules")),
        is_runner: true,
        has_temporary_directories: false,
        cores: 3,
        has_own_cores: false,
        gpus: 0,
        replaced: 0,
        view_has_libc: false,
        executables: executables.into_iter().chain(image).collect(),
        homes: [Path::new("/root").to_owned()].into(),
    }
}
