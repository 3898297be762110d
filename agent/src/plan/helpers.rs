//! Shell files for people who enter a pod; other tools rely on them as well.

use crate::plan::files::file;
use crate::plan::pod::Pod;
use crate::plan::step::FileToWrite;
use crate::plan::variables::{chosen_shell, client_first, lists};
use crate::system::environment::Change;
use crate::system::subcommand::{CONNECT, FLUXION};
use crate::system::words::quoted;
use flux_contract::is_shell_name;
use std::fmt::Write as _;

/// `flux-view.sh`, `flux-connect.sh` and `load-fluxion.sh`.
pub(super) fn helpers(pod: Pod<'_>) -> [FileToWrite; 3] {
    let layout = &pod.config.layout;
    let view_helper = quoted(&layout.view_helper());
    let agent = quoted(&layout.agent());
    let connect = format!(
        "#!/bin/sh\n\
         # Opens a shell that is connected to the broker of this pod, as the user Flux runs as (it\n\
         # takes no jobs from root); arguments are a command to run instead. Run it or source it.\n\
         . {view_helper}\n\
         {agent} {CONNECT} -- \"$@\"\n"
    );
    let fluxion = format!(
        "#!/bin/sh\n\
         # Makes Fluxion the scheduler of this instance, if its Flux has it. Run it or source it.\n\
         . {view_helper}\n\
         {agent} {FLUXION}\n"
    );
    [
        file(layout.view_helper(), 0o644, view(pod)),
        file(layout.connect_helper(), 0o755, connect),
        file(layout.fluxion_helper(), 0o755, fluxion),
    ]
}

fn view(pod: Pod<'_>) -> String {
    let config = pod.config;
    let mut text =
        String::from("#!/bin/sh\n# Puts Flux on the paths of the shell that sources this file.\n");
    let mut changes = lists(pod);
    if config.view.enabled && !pod.facts.view_has_libc {
        let libraries = format!("{}/lib", config.layout.view());
        changes.push(Change::append("LD_LIBRARY_PATH", libraries));
    }
    changes.push(client_first(pod));
    text.extend(changes.iter().map(lines));
    // Without it, `flux proxy` may find no shell.
    let shell = quoted(&chosen_shell(pod.config, pod.facts).display().to_string());
    let _ = writeln!(text, "[ -x \"${{SHELL:-}}\" ] || export SHELL={shell}");
    let uri = pod.uri();
    let changes = [
        // Flux's own commands refuse to run without one, be it there or not.
        Change::fallback("HOME", config.layout.home()),
        Change::set("fluxsocket", uri.clone()),
        // A shell that is connected, as in a batch job with an instance of its own, stays so.
        Change::fallback("FLUX_URI", uri),
    ];
    text.extend(changes.iter().map(lines));
    for (name, value) in &config.environment {
        if is_shell_name(name) {
            text.push_str(&lines(&Change::set(name, value.clone())));
        } else {
            // Escaped, so that it stays within its line.
            let _ = writeln!(text, "# left out: {name:?} is no name of a variable");
        }
    }
    text
}

/// Lines that make `change`; an entry is added to its list once, however often the file is sourced.
fn lines(change: &Change) -> String {
    let unless = |there: &str, name: &str, list: &str| {
        format!(
            "case \":${{{name}:-}}:\" in\n  {there}) ;;\n  *) {name}={list} ;;\nesac\nexport {name}\n"
        )
    };
    match change {
        Change::Prepend { name, value } => {
            let value = quoted(value);
            let longer = format!("{value}\"${{{name}:+:${name}}}\"");
            unless(&format!(":{value}:*"), name, &longer)
        }
        Change::Append { name, value } => {
            let value = quoted(value);
            let longer = format!("\"${{{name}:+${name}:}}\"{value}");
            unless(&format!("*:{value}:*"), name, &longer)
        }
        Change::Set { name, value } => format!("export {name}={}\n", quoted(value)),
        Change::Default { name, value } => {
            format!("[ -n \"${{{name}:-}}\" ] || export {name}={}\n", quoted(value))
        }
        Change::Unset { name } => format!("unset {name}\n"),
    }
}
