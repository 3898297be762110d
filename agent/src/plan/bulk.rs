//! Whether a submission of `flux submit` makes one job, or several.

use flux_contract::Submission;

/// Options of `flux submit` that `flux run` does not have: most are for several jobs at once.
const BULK: [&str; 8] =
    ["--cc", "--bcc", "--wait", "--watch", "--log", "--log-stderr", "--progress", "--jps"];

/// Whether `flux run` can take the place of the submission: it passes SIGTERM on to the job, and follows the
/// job to its end (flux-core, `flux/job/attach.c`).
pub(super) fn runs_one_job(submission: &Submission) -> bool {
    let flags = submission.submit.iter().chain(&submission.flags);
    is_flux_submit(&submission.submit) && !flags.into_iter().any(|flag| is_of_bulk(flag))
}

/// Whether `flux submit` takes this flag, abbreviated or not, and `flux run` does not (flux-submit(1), flux-run(1)).
fn is_of_bulk(flag: &str) -> bool {
    let name = flag.split_once('=').map_or(flag, |(name, _)| name);
    name.len() > 2 && BULK.iter().any(|option| option.starts_with(name))
}

pub(super) fn is_flux_submit(words: &[String]) -> bool {
    words.starts_with(&["flux".to_owned(), "submit".to_owned()])
}
