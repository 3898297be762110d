//! Every subcommand in a pod without a broker: those that need one fail with a message.

use crate::pod::namespace::first_process;
use crate::prelude::*;
use std::collections::BTreeSet;

/// Subcommands with their arguments, their exit codes, and parts of their output. `HERE` stands for this pod, and `FOR-EVER`
/// for the largest number.
const CASES: [(&str, u8, &str); 27] = [
    ("help", 0, "Usage: flux-agent"),
    ("install copy", 0, ""),
    ("keygen key", 0, ""),
    ("keygen", 0, "secret-key"),
    ("keygen --name a_b", Exit::Prepare.code(), "could not make a CURVE certificate named"),
    ("keygen /none/c", Exit::Prepare.code(), "the CURVE certificate to /none/c: No such file"),
    ("view install --root .. --source /mnt/flux/view --destination volume", 0, ""),
    ("plan HERE", 0, "lead hello-0 rank 0\n"),
    ("plan HERE --output json", 0, "\"role\": \"lead\""),
    ("resources HERE", 0, "cores for Flux  -\n"),
    ("resources HERE --output json", 0, "\"fluxCores\": null"),
    ("env HERE", 0, "PATH"),
    ("doctor HERE", 1, "broker"),
    ("probe HERE --timeout FOR-EVER 127.0.0.1:1", 1, "refused"),
    ("ready HERE", 1, ""),
    ("status HERE", 1, "no agent runs here"),
    ("wait HERE broker --timeout 0", 1, "still waiting"),
    ("connect HERE -- true", Exit::Broker.code(), "broker is not up"),
    ("serve HERE", Exit::Broker.code(), "broker is not up"),
    ("instance HERE", Exit::Broker.code(), "run/flux/local: No such file"),
    ("instance HERE --output-of x", 64, "no id of a job"),
    ("ps HERE", 0, "flux-agent ps"),
    ("ps HERE --output json", 0, "\"origin\": \"entered\""),
    ("resolve localhost", 0, "/etc/hosts  127.0.0.1"),
    ("resolve unknown.invalid.", 1, "name        unknown.invalid.\n"),
    ("run HERE", 0, "hello"),
    ("run HERE --container nobody", Exit::Config.code(), "\"nobody\""),
];

/// The subcommands that only the operator calls.
const HIDDEN: [&str; 3] = ["install", "instance", "run"];

/// The names in the list that `--help` prints.
fn listed(help: &str) -> BTreeSet<String> {
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let lines = commands.take_while(|line| !line.is_empty());
    let names = lines.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    names.filter(|name| !name.is_empty()).map(ToOwned::to_owned).collect()
}

#[test]
fn every_subcommand_answers() {
    let pod = Pod::new();
    pod.write_config(&pod.config(&["echo", "hello"]));
    pod.serve_state();
    fs::create_dir(pod.at("work/volume")).unwrap();
    let here = format!("--root {} --hostname {}", pod.at("").display(), pod.hostname);
    let listed = listed(&Ended::of(&mut pod.agent(&["--help"])).output);
    let tried: BTreeSet<_> =
        CASES.iter().map(|(line, ..)| line.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(&tried - &listed, HIDDEN.map(str::to_owned).into(), "what --help does not list");
    assert!(listed.is_subset(&tried), "a subcommand without a case: {listed:?}");
    let mut wrong = Vec::new();
    for (line, code, prints) in CASES {
        let line = line.replace("HERE", &here).replace("FOR-EVER", &u64::MAX.to_string());
        let arguments: Vec<_> = line.split(' ').collect();
        let mut command = pod.agent(&arguments);
        if ["ps", "run"].contains(&arguments[0]) {
            // These run as the first process of a namespace, as in a pod, because of the other processes of the machine.
            let Some(first) = first_process(&pod, &command) else { continue };
            command = first;
        }
        let ended = Background::start(command).end();
        let printed = ended.output + &ended.log;
        if ended.code != i32::from(code) || !printed.contains(prints) {
            wrong.push(format!("{line}, {code}, {prints:?}: {} {printed}", ended.code));
        }
        let changed = pod.at("mnt/flux/config").exists();
        assert_eq!(changed, arguments[0] == "run", "only a run changes the pod");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
