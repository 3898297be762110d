//! Finds state in the shell of a hook that later steps lose. They get its environment, directory, limits and mask; in
//! the Go operator, where hooks are part of one script, they get everything.

use serde_json::Value;

/// The fields with hooks, in the order in which they run.
const HOOKS: &str = "commands.init preCommand commands.pre commands.brokerPre commands.preBroker \
                     commands.workerPre commands.preWorker commands.servicePre commands.post";

/// Names that the script of the Go operator defines before the hooks, each with a replacement.
const OF_GO: [(&str, &str); 6] = [
    ("asFlux", "use flux-agent connect -- COMMAND once the broker runs"),
    ("brokerOptions run_interactive_cluster", "set the fields of spec.flux, and spec.interactive"),
    ("fluxuid fluxuser", "write $(id -u), $(id -un)"),
    ("mainHost", "write the name of the MiniCluster and -0"),
    ("workdir", "write $PWD"),
    (
        "cfg configroot curvepath curvesrc fluxpath foundroot hosts pythonversion software viewbase viewbin viewroot",
        "write the path, below /mnt/flux/view or /mnt/flux/config",
    ),
];

type Script<'spec> = (&'static str, &'spec str);

/// Lost state of the hooks in `specification`: path of the field, and a message with line, effect and remedy.
pub fn not_carried_over(specification: &Value) -> Vec<(String, String)> {
    let containers = specification["containers"].as_array().into_iter().flatten().enumerate();
    let found = containers.flat_map(|(index, container)| {
        let of_container = in_container(container).into_iter();
        of_container
            .map(move |(field, message)| (format!("spec.containers[{index}].{field}"), message))
    });
    found.collect()
}

fn in_container(container: &Value) -> Vec<(&'static str, String)> {
    let text = |field: &'static str| {
        let value = field.split('.').fold(container, |value, name| &value[name]);
        Some((field, value.as_str()?))
    };
    let scripts: Vec<Script<'_>> = HOOKS.split(' ').filter_map(text).collect();
    let environment = container["environment"].as_object().into_iter().flatten();
    let mut set: Vec<&str> = environment.map(|(name, _)| &**name).collect();
    let mut found = Vec::new();
    for (position, (field, script)) in scripts.iter().enumerate() {
        let later = scripts.get(position + 1..).unwrap_or_default();
        for (line, command) in commands(script) {
            let message = of_go(command, &set).or_else(|| lost(command, later));
            found.extend(message.map(|message| (*field, format!("line {line} {message}"))));
            set.extend(sets(command));
        }
    }
    found
}

/// The commands of a script with their lines, as far as they can be separated without a shell.
fn commands(script: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = (1..).zip(script.lines()).filter(|(_, line)| !line.trim_start().starts_with('#'));
    lines.flat_map(|(number, line)| line.split([';', '&', '|']).map(move |it| (number, it.trim())))
}

fn of_go(command: &str, set: &[&str]) -> Option<String> {
    OF_GO.iter().find_map(|(names, instead)| {
        let name = names.split(' ').find(|name| uses(command, name) && !set.contains(name))?;
        Some(format!(
            "uses {name}, which the script of the operator in Go had and this one has not: {instead}"
        ))
    })
}

/// Message about state of `command` that `later` scripts lose.
fn lost(command: &str, later: &[Script<'_>]) -> Option<String> {
    let mut words = command.split_whitespace();
    let (first, second) = (words.next()?, words.next().unwrap_or_default());
    let is_redirection = second.trim_start_matches(|it: char| it.is_ascii_digit());
    let is_trap_of_end = first == "trap" && ["EXIT", "0"].iter().any(|end| command.ends_with(end));
    let is_end = first == "exec" && !second.is_empty() && !is_redirection.starts_with(['<', '>']);
    if is_trap_of_end || is_end {
        let effect = "nothing that this script exports or sets reaches later steps";
        return Some(format!("has {first}: {effect}: leave it out, or write it into a subshell"));
    }
    if ["set", "shopt", "trap"].contains(&first) {
        let (field, _) = later.first()?;
        return Some(format!("has {first}, which ends with this script: repeat it in {field}"));
    }
    let is_assignment =
        first.contains('=') && (second.is_empty() || command.contains(['"', '\'', '$']));
    let name = match first {
        "alias" | "function" => second,
        _ if is_assignment || first.contains('(') || second.starts_with('(') => first,
        _ => return None,
    };
    let name = name.split(['=', '(']).next().filter(|name| name.starts_with(is_of_name))?;
    let (field, _) = later.iter().find(|(_, script)| {
        let before = commands(script).take_while(|(_, it)| sets(it) != Some(name));
        before.map(|(_, it)| it).any(|it| uses(it, name))
    })?;
    let remedy = "export a variable, repeat the rest there";
    Some(format!("defines {name}, which {field} uses and does not get: {remedy}"))
}

fn is_of_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

fn sets(command: &str) -> Option<&str> {
    let of_loop = || command.strip_prefix("for ")?.split_whitespace().next();
    let of_assignment = || command.split_once('=')?.0.split_whitespace().next_back();
    of_loop().or_else(of_assignment)
}

/// True if `command` calls `name` or expands the variable.
fn uses(command: &str, name: &str) -> bool {
    let begins = |text: &str| {
        let rest = text.strip_prefix('{').unwrap_or(text).strip_prefix(name);
        rest.is_some_and(|rest| !rest.starts_with(is_of_name))
    };
    command.split_whitespace().next() == Some(name) || command.split('$').skip(1).any(begins)
}
