//! What the lead runs.

use crate::support::faults;
use crate::validate::{container, good, submission};
use flux_contract::Workload;
use serde_json::json;

#[test]
fn node_and_task_flags_follow_the_number_of_tasks() {
    for (tasks, flags) in [
        (0, &["-N", "4"][..]),
        (1, &["-n1"]),
        (3, &["-n3"]),
        (4, &["-N", "4", "-n4"]),
        (8, &["-N", "4", "-n8"]),
    ] {
        assert_eq!(submission(json!({ "tasks": tasks })).flags, flags);
    }
}

#[test]
fn option_flags_and_debug_follow_the_node_and_task_flags() {
    let flags = submission(json!({
        "flux": { "optionFlags": "-ompi=openmpi@5 --setattr='a b'" },
        "logging": { "debug": true },
    }))
    .flags;
    assert_eq!(flags, ["-n1", "-ompi=openmpi@5", "--setattr=a b", "-vvv"]);
}

#[test]
fn a_submission_has_prefix_program_and_command() {
    let mut change = container(json!({
        "command": "lmp -in 'a b'", "commands": { "prefix": "fusion -x" },
    }));
    change["flux"] = json!({ "submitCommand": "flux mini submit" });
    let submission = submission(change);
    assert_eq!(submission.prefix, ["fusion", "-x"]);
    assert_eq!(submission.submit, ["flux", "mini", "submit"]);
    assert_eq!(submission.command, ["lmp", "-in", "a b"]);
}

#[test]
fn without_a_command_the_instance_is_interactive() {
    for command in [json!({}), json!({ "command": "" }), json!({ "command": " \n" })] {
        assert_eq!(
            good(container(command)).runner.workload,
            Workload::Interactive { submission: None }
        );
    }
}

#[test]
fn an_interactive_instance_submits_its_command_once() {
    match good(json!({ "interactive": true })).runner.workload {
        Workload::Interactive { submission: Some(submission) } => {
            assert_eq!(submission.command, ["echo", "hello"]);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_launcher_is_not_submitted_wherever_it_is_asked_for() {
    let mut above = container(json!({ "command": "snakemake -j 4" }));
    above["launcher"] = json!(true);
    let below = container(json!({ "command": "snakemake -j 4", "launcher": true }));
    for change in [above, below] {
        let command = ["snakemake", "-j", "4"].map(str::to_owned).to_vec();
        assert_eq!(good(change).runner.workload, Workload::Launcher { prefix: vec![], command });
    }
}

#[test]
fn batch_lines_become_numbered_submissions() {
    let mut change = container(
        json!({ "batch": true, "command": "a\n\n # of b\nb 'c'\n", "logs": "/out dir/" }),
    );
    // `flux batch` knows no `-vvv`.
    change["logging"] = json!({ "debug": true });
    match good(change).runner.workload {
        Workload::Batch { script, output_directory, flags, .. } => {
            assert_eq!(output_directory, "/out dir");
            assert_eq!(flags, ["-n1"]);
            insta::assert_snapshot!(script);
        }
        other => panic!("{other:?}"),
    }
}

/// The whole script would be a syntax error, and not one of its jobs run.
#[test]
fn batch_lines_that_are_no_whole_command_are_refused_unless_they_are_the_script() {
    for command in ["a\nfor i in 1 2; do", "echo 'a\nb'", "a \\\n-b", "done"] {
        let change = |raw| container(json!({ "batch": true, "batchRaw": raw, "command": command }));
        let faults = faults(&change(false));
        assert!(faults[0].starts_with("spec.containers[0].command: "), "{command}: {faults:?}");
        assert_eq!(good(change(true)).not_acted_on, Vec::<String>::new(), "{command}");
    }
    let harmless = "echo 'a; b' # for c\n# don't\nforge -x\n";
    good(container(json!({ "batch": true, "command": harmless })));
}

#[test]
fn raw_batch_lines_are_the_script() {
    let raw = |command: &str| {
        let change = container(json!({ "batch": true, "batchRaw": true, "command": command }));
        match good(change).runner.workload {
            Workload::Batch { script, output_directory, .. } => {
                assert_eq!(output_directory, "/tmp/fluxout");
                script
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(raw("flux queue idle"), "#!/bin/bash\nflux queue idle\n");
    assert_eq!(raw("#!/bin/sh\nx\n"), "#!/bin/sh\nx\n");
}

#[test]
fn a_script_is_the_command_and_its_escaped_dollars_are_plain() {
    let script = "#!/bin/bash\necho \"rank \\${FLUX_TASK_RANK} $HOME\"\n";
    let submission = submission(container(json!({ "commands": { "script": script } })));
    assert_eq!(submission.command, ["/tmp/custom-entrypoint.sh"]);
    assert_eq!(
        submission.script.as_deref(),
        Some("#!/bin/bash\necho \"rank ${FLUX_TASK_RANK} $HOME\"\n")
    );
}

#[test]
fn a_script_that_names_no_interpreter_is_run_by_bash() {
    let script = json!({ "commands": { "script": "[[ 1 == 1 ]] && hostname" } });
    assert_eq!(submission(container(script)).command, ["bash", "/tmp/custom-entrypoint.sh"]);
}
