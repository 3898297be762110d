//! Every subcommand, started in a pod whose broker is not up: what needs none answers, what needs one says so.

use crate::pod::namespace::first_process;
use crate::pod::{Background, Ended, Pod};
use flux_contract::Exit;
use std::collections::BTreeSet;
use std::fs;

/// A subcommand with its arguments, the code that it ends with, and what it prints among other things.
struct Case {
    words: Vec<String>,
    code: i32,
    prints: &'static str,
}

fn case(words: &[&str], code: i32, prints: &'static str) -> Case {
    Case { words: words.iter().map(|&word| word.to_owned()).collect(), code, prints }
}

fn cases(pod: &Pod) -> Vec<Case> {
    let root = pod.at("").display().to_string();
    let in_this_pod = |words: &[&str], code, prints| {
        let place = ["--root", &root, "--hostname", &pod.hostname];
        let words: Vec<_> = words[..1].iter().chain(&place).chain(&words[1..]).copied().collect();
        case(&words, code, prints)
    };
    let (copy, key) = (pod.at("copy").display().to_string(), pod.at("key").display().to_string());
    let volume = pod.at("volume").display().to_string();
    fs::create_dir(&volume).unwrap();
    let for_ever = u64::MAX.to_string();
    let not_up = i32::from(Exit::Broker.code());
    vec![
        case(&["help"], 0, "Usage: flux-agent"),
        case(&["install", &copy], 0, ""),
        case(&["keygen", &key], 0, ""),
        case(
            &[
                "view",
                "install",
                "--root",
                &root,
                "--source",
                "/mnt/flux/view",
                "--destination",
                &volume,
            ],
            0,
            "",
        ),
        in_this_pod(&["plan"], 0, "lead hello-0 rank 0\n"),
        in_this_pod(&["plan", "--output", "json"], 0, "\"role\": \"lead\""),
        in_this_pod(&["resources"], 0, "cores for Flux  -\n"),
        in_this_pod(&["resources", "--output", "json"], 0, "\"fluxCores\": null"),
        in_this_pod(&["env"], 0, "PATH"),
        in_this_pod(&["doctor"], 1, "broker"),
        // The longest number there is, as somebody writes who means for ever.
        in_this_pod(&["probe", "--timeout", &for_ever, "127.0.0.1:1"], 1, "refused"),
        in_this_pod(&["ready"], 1, ""),
        in_this_pod(&["status"], 1, "no agent runs here"),
        in_this_pod(&["wait", "broker", "--timeout", "0"], 1, "still waiting"),
        in_this_pod(&["connect", "--", "true"], not_up, "broker is not up"),
        in_this_pod(&["run"], 0, "hello"),
    ]
}

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
    let cases = cases(&pod);
    let listed = listed(&Ended::of(&mut pod.agent(&["--help"])).output);
    let tried: BTreeSet<_> = cases.iter().map(|case| case.words[0].clone()).collect();
    assert_eq!(tried, listed, "a subcommand without a case, or the other way round");
    let mut wrong = Vec::new();
    for Case { words, code: expected, prints } in cases {
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let mut command = pod.agent(&words);
        if words[0] == "run" {
            // As in a pod: an emulator may not know how others get orphans.
            let Some(first) = first_process(&pod, &command) else { continue };
            command = first;
        }
        let ended = Background::start(command).end();
        if ended.code != expected || !(ended.output.clone() + &ended.log).contains(prints) {
            wrong.push(format!("{words:?}, {expected}, {prints:?}: {ended:?}"));
        }
        let changed = pod.at("mnt/flux/config").exists();
        assert_eq!(changed, words[0] == "run", "nothing else changes what a run finds");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
