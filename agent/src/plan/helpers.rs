//! Shell files for people who enter a pod; other tools rely on them as well.

use crate::plan::environment::{chosen_shell, client_first, lists};
use crate::plan::fluxion;
use crate::plan::pod::Pod;
use crate::plan::step::{FileToWrite, Owner};
use crate::system::environment::Change;
use crate::system::words::quoted;
use std::fmt::Write as _;
use std::path::PathBuf;

/// `flux-view.sh`, `flux-connect.sh` and `load-fluxion.sh`.
pub(super) fn helpers(pod: Pod<'_>) -> Vec<FileToWrite> {
    let layout = &pod.config.layout;
    let view_helper = quoted(&layout.view_helper().display().to_string());
    let agent = quoted(&layout.agent().display().to_string());
    let connect = format!(
        "#!/bin/sh\n\
         # Opens a shell that is connected to the broker of this pod, as the user Flux runs as (it\n\
         # takes no jobs from root); arguments are a command to run instead. Run it or source it.\n\
         . {view_helper}\n\
         {agent} connect -- \"$@\"\n"
    );
    vec![
        file(layout.view_helper(), 0o644, view(pod)),
        file(layout.connect_helper(), 0o755, connect),
        file(layout.fluxion_helper(), 0o755, fluxion::helper(&view_helper)),
    ]
}

fn view(pod: Pod<'_>) -> String {
    let config = pod.config;
    let mut text =
        String::from("#!/bin/sh\n# Puts Flux on the paths of the shell that sources this file.\n");
    let mut changes = lists(pod);
    if config.view.enabled && !pod.facts.view_has_libc {
        let value = config.layout.view().join("lib").display().to_string();
        changes.push(Change::Append { name: "LD_LIBRARY_PATH".to_owned(), value });
    }
    changes.push(client_first(pod));
    for change in &changes {
        entry(&mut text, change);
    }
    // Where neither is there, `flux proxy` finds no shell.
    let shell = quoted(&chosen_shell(pod.config, pod.facts).display().to_string());
    let _ = writeln!(text, "[ -x \"${{SHELL:-}}\" ] || export SHELL={shell}");
    // Flux's own commands refuse to run without one, be it there or not.
    let home = quoted(&config.layout.home().display().to_string());
    let _ = writeln!(text, "[ -n \"${{HOME:-}}\" ] || export HOME={home}");
    let uri = quoted(&pod.uri());
    let _ = writeln!(text, "export fluxsocket={uri}");
    // Whoever is connected, as in a batch job with an instance of its own, stays so.
    let _ = writeln!(text, "[ -n \"${{FLUX_URI:-}}\" ] || export FLUX_URI={uri}");
    for (name, value) in &config.environment {
        if is_variable_name(name) {
            let _ = writeln!(text, "export {name}={}", quoted(value));
        } else {
            // Escaped, so that it stays within its line.
            let _ = writeln!(text, "# left out: {name:?} is no name of a variable");
        }
    }
    text
}

/// Lines that add the entry of `change` to its list once, however often the file is sourced.
fn entry(text: &mut String, change: &Change) {
    let (name, value, first) = match change {
        Change::Prepend { name, value } => (name, quoted(value), true),
        Change::Append { name, value } => (name, quoted(value), false),
        // No list: the file has words of its own for them.
        Change::Set { .. } | Change::Default { .. } | Change::Unset { .. } => return,
    };
    let (there, longer) = if first {
        (format!(":{value}:*"), format!("{value}\"${{{name}:+:${name}}}\""))
    } else {
        (format!("*:{value}:*"), format!("\"${{{name}:+${name}:}}\"{value}"))
    };
    let _ = writeln!(
        text,
        "case \":${{{name}:-}}:\" in\n  {there}) ;;\n  *) {name}={longer} ;;\nesac\nexport {name}"
    );
}

fn is_variable_name(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty()
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn file(path: PathBuf, mode: u32, content: String) -> FileToWrite {
    FileToWrite { path, mode, owner: Owner::Container, content }
}
