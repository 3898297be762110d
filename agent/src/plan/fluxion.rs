//! Fluxion, the graph-based scheduler that a view may have beside those of flux-core.

use crate::plan::pod::Pod;
use std::path::PathBuf;

/// `load-fluxion.sh`, behind the line that puts Flux on the shell's paths. Its rules:
/// - Fluxion's modules want the resources to themselves: one that is loaded beside another
///   scheduler fails, and a module that fails takes the broker with it. So the other one goes first,
///   whichever it is, and comes back when Fluxion cannot be had.
/// - Only the lead has a scheduler; a worker would fail in the same way.
/// - Not while jobs are running: Fluxion cannot take over one without a time limit, and ends it.
/// - Nothing but a POSIX shell is needed, and nothing is left behind in one that sources it.
const SCRIPT: &str = r#"(
FLUX_URI="${FLUX_URI:-$fluxsocket}"
export FLUX_URI
rank=$(flux getattr rank) || exit
if [ "$rank" != 0 ]; then
  echo "load-fluxion.sh: the scheduler is the lead's, and this is rank $rank: run it in the lead" >&2
  exit 1
fi
modules=$(flux module list) || exit
scheduler=$(printf '%s\n' "$modules" | while read -r module rest; do
  case ",${rest##* }," in (*,sched,*) echo "$module" ;; esac
done)
if [ "$scheduler" = sched-fluxion-qmanager ]; then
  echo 'load-fluxion.sh: Fluxion is the scheduler already'
  exit 0
fi
jobs=$(flux job list --user=all --states=running) || exit
if [ -n "$jobs" ]; then
  echo "load-fluxion.sh: jobs are running, and might not survive it: ${scheduler:-no scheduler} stays" >&2
  exit 1
fi
if [ -n "$scheduler" ]; then
  flux module remove "$scheduler" || exit
fi
if flux module load sched-fluxion-resource load-allowlist=node,core,gpu &&
  flux module load sched-fluxion-qmanager; then
  flux module load sched-fluxion-feasibility load-allowlist=node,core,gpu ||
    echo 'load-fluxion.sh: going on without that module: older Fluxions have none' >&2
  echo 'load-fluxion.sh: Fluxion is the scheduler now'
  exit 0
fi
flux module remove -f sched-fluxion-resource
if [ -n "$scheduler" ]; then
  flux module load "$scheduler"
fi
echo "load-fluxion.sh: Fluxion cannot be loaded, see above: ${scheduler:-no scheduler} stays" >&2
exit 1
)
"#;

/// The helper that replaces the scheduler of a running instance; `view_helper` is the quoted path
/// of `flux-view.sh`.
pub(super) fn helper(view_helper: &str) -> String {
    format!(
        "#!/bin/sh\n\
         # Makes Fluxion the scheduler of this instance, if its Flux has it. Run it or source it.\n\
         . {view_helper}\n\
         {SCRIPT}"
    )
}

/// The lists on which a view with Fluxion has to be, with what they lack. Flux looks below the
/// prefix it was compiled for; where the view is made of links, as Spack does it, that is
/// flux-core's own, and Fluxion is in another one.
pub(super) fn search_paths(pod: Pod<'_>) -> Vec<(&'static str, PathBuf)> {
    let Some(modules) = &pod.facts.fluxion_modules else { return vec![] };
    let view = pod.config.layout.view();
    vec![
        ("FLUX_MODULE_PATH", modules.clone()),
        ("FLUX_MODPROBE_PATH_APPEND", view.join("etc/flux/modprobe")),
        ("FLUX_EXEC_PATH", view.join("libexec/flux/cmd")),
    ]
}
