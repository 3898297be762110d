//! The stages of a reconcile: each imports only earlier ones.

use flux_testkit::repository::{files, in_repository};
use std::collections::BTreeSet;
use std::path::Path;

/// The stages, in their order.
const STAGES: [&str; 6] = ["observe", "decide", "apply", "status", "report", "reconcile"];

/// Modules that all stages may import, and that import no stage.
const SHARED: [&str; 6] = ["error", "failures", "guard", "job_ext", "pod_ext", "run_record"];

/// The modules of the controller that `text` names, its tests left out. `at_top`: `text` is a file beside them.
fn imports(text: &str, at_top: bool) -> BTreeSet<&str> {
    let code = text.split_once("#[cfg(test)]").map_or(text, |(code, _)| code);
    let paths =
        if at_top { &["crate::controller::", "super::"][..] } else { &["crate::controller::"] };
    let after = paths.iter().flat_map(|path| code.split(path).skip(1));
    let end = |c: char| !c.is_ascii_lowercase() && c != '_';
    after.filter_map(|rest| rest.split(end).next()).collect()
}

fn place(module: &str) -> Option<usize> {
    let stage = STAGES.iter().position(|stage| *stage == module).map(|at| at + 1);
    stage.or_else(|| SHARED.contains(&module).then_some(0))
}

#[test]
fn a_stage_imports_only_earlier_stages() {
    let directory = in_repository("operator/src/controller");
    let mut wrong = Vec::new();
    for file in files(&directory, "rs") {
        let below = file.strip_prefix(&directory).unwrap();
        let top = below.iter().next().map(Path::new).and_then(Path::file_stem).unwrap();
        let module = top.to_str().unwrap();
        let Some(own) = place(module) else { continue };
        let text = std::fs::read_to_string(&file).unwrap();
        let imports = imports(&text, below.components().count() == 1);
        let later = imports.into_iter().filter(|it| place(it).is_some_and(|at| at > own));
        wrong.extend(later.map(|it| format!("{} imports {it}", below.display())));
    }
    assert_eq!(wrong, [""; 0], "the stages are {STAGES:?}");
}
