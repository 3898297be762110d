//! What users can do about the reason of a condition, or about a line of a log. `docs/troubleshooting.md` has the same
//! remedies, with links; a test compares the two.

/// Remedies by reason, or by reason and exit code of the run. Several reasons may share a remedy.
const BY_REASON: &[(&str, &str)] = &[
    ("FieldsNotActedOn", "remove the fields, or enable what the message names"),
    ("ServiceNameTaken", "use `<name>-<sidecar>`"),
    ("ServiceRefused", "use `<name>-<sidecar>`, or raise the quota"),
    ("Invalid", "correct the faults and apply again"),
    ("Starting, Ending, Suspending", "wait"),
    ("Waiting", "do what the message says"),
    ("LeadReplaced", "remove the cause, and keep its jobs"),
    ("StartedByAnotherOperator", "let the run end, or delete and create the MiniCluster"),
    ("Degraded", "see the lead's log and `kubectl describe node`"),
    ("ChangeRefused", "undo the change, or delete and create the MiniCluster"),
    ("NotRunAgain", "delete and create the MiniCluster"),
    ("PodsRefused", "correct the specification, the quota, or the webhook that the message names"),
    ("ApplyFailed, ReadFailed, DeleteFailed, StatusWriteFailed", "do what the message says"),
    ("NameTaken", "rename one of the two objects"),
    ("WaitingForDeletion", "wait"),
    ("NoPodGroups", "enable or install a gang scheduler, or remove `scheduling.gang`"),
    ("Conflict, TimedOut", "wait; if it stays, check the API server"),
    ("BuildFailed, CertificateFailed", "correct what the message names"),
    ("Internal", "please report it, with the operator's log"),
    ("SuspendedBySpecification", "set `spec.suspend` to false"),
    ("InQueue", "wait for quota, raise the quota, lower `size`, or use a queue that exists"),
    ("Idle", "run `kubectl flux submit` or `kubectl flux resume`, or change an annotation"),
    ("JobSuspended", "set the Job's `spec.suspend` to false"),
    ("LeadNotAsked", "wait"),
    (
        "LeadNotAnswering",
        "do what the message says, and let the operator reach port 18049 of the lead",
    ),
    ("CommandFailed", "see the command's output in the lead's log"),
    ("CommandFailed, 127", "use the full path, or an image that has the command"),
    ("CommandFailed, 126", "check its mode, its first line, and the architecture of the image"),
    ("OOMKilled", "raise `resources.limits.memory`, or run fewer tasks in a pod"),
    ("Evicted", "raise its limit for ephemeral storage, or lower its use of memory"),
    (
        "FluxRefused",
        "for `unsatisfiable request`, ask for at most as many tasks as there are cores",
    ),
    ("HookFailed", "see its output in the log; with `logging.strict: false` the run continues"),
    ("PreparationFailed", "check whether a volume belongs to root"),
    ("ViewUnusable", "put a view in one of the places that the message names"),
    ("BrokerFailed", "see its lines in the log, which `logging.quiet` hides"),
    ("LeadUnreachable", "find out why the lead did not start"),
    ("DeadlineExceeded", "raise `deadlineSeconds`"),
    ("StartDeadlineExceeded", "find in the message what was missing"),
    (
        "LeadLost",
        "see the Events of the Job and the node. To run it again, set `backoffLimit`, or delete and create the \
         MiniCluster",
    ),
    (
        "EndNotSeen",
        "run the command in the message, which shows remaining pods. To run it again, delete and create the \
         MiniCluster",
    ),
    (
        "OutOfcpu, OutOfmemory, NodeAffinity, UnexpectedAdmissionError",
        "do what the message says: change `resources`, `pod.nodeSelector`, or the node's devices",
    ),
    ("Stopped", "find who deleted it in the Events of pod and node"),
    ("ContainerFailed, StartError", "see its log: `kubectl logs POD -c CONTAINER`"),
    ("AgentConfig, AgentUsage", "install operator and agent of the same release"),
    ("AgentInternal, AgentFailed", "please report it"),
];

/// Remedies by reason and by a part of the message; they come before those by reason alone.
const BY_MESSAGE: &[(&str, &str, &str)] = &[
    (
        "Waiting",
        "persistentvolumeclaim, PersistentVolumeClaims",
        "create the claim and, if no storage class makes its volume, a PersistentVolume",
    ),
    (
        "Waiting",
        "scheduling gates",
        "change an annotation of the Job, so that Kueue checks it again",
    ),
    (
        "Waiting",
        "feasible placements, minCount",
        "add nodes, lower the requests or `size`, or correct the label",
    ),
    (
        "LeadReplaced, Running",
        "ran out of the memory",
        "raise `resources.limits.memory` of the container, and let the lead forget old jobs: `flux job purge`, \
         `job-manager.inactive-num-limit`",
    ),
    ("Waiting", "has no node", "lower the requests or `size`, add tolerations, or add nodes"),
    ("Waiting", "ErrImagePull, ImagePullBackOff", "correct the image's name, or add pull secrets"),
    (
        "Waiting",
        "FailedMount",
        "create the Secret, ConfigMap or claim. If it is `<name>-curve-...`, somebody deleted the Secret of the run: \
         delete the MiniCluster and create it again",
    ),
];

/// Remedies by a part of a log.
const BY_LOG: &[(&str, &str)] = &[
    ("refused", "wait; if the lead runs, check whether a NetworkPolicy closes port 8050"),
    ("listen at port 18049", "let the other program use another port"),
];

/// The remedy for a condition with this `reason` and `message`. `code` is the exit code of the run.
pub fn of_reason(reason: &str, message: &str, code: Option<i32>) -> Option<&'static str> {
    let has_reason = |reasons: &str| reasons.split(", ").any(|it| it == reason);
    let by_message = BY_MESSAGE.iter().find(|(reasons, parts, _)| {
        has_reason(reasons) && parts.split(", ").any(|part| message.contains(part))
    });
    let with_code = code.map(|code| format!("{reason}, {code}")).unwrap_or_default();
    let by_code = BY_REASON.iter().find(|(reasons, _)| *reasons == with_code);
    let by_reason = BY_REASON.iter().find(|(reasons, _)| has_reason(reasons));
    by_message.map(|row| row.2).or_else(|| by_code.or(by_reason).map(|row| row.1))
}

/// The remedy for the message of an agent, or for a line of its log.
pub fn of_log(text: &str) -> Option<&'static str> {
    BY_LOG.iter().find(|(part, _)| text.contains(part)).map(|(_, remedy)| *remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = include_str!("../../../docs/troubleshooting.md");

    /// The rows of `columns` cells in the tables of the page, without links.
    fn rows(columns: usize) -> impl Iterator<Item = Vec<String>> {
        let rows = PAGE.lines().filter_map(|line| line.strip_prefix('|')?.strip_suffix('|'));
        let rows = rows.map(|row| row.split('|').map(|cell| plain(cell.trim())).collect());
        rows.filter(move |cells: &Vec<String>| cells.len() == columns)
    }

    /// A text of the page with the texts of its links; a link in parentheses is left out.
    fn plain(text: &str) -> String {
        let link = text.split_once('[').and_then(|(before, rest)| {
            let (shown, rest) = rest.split_once("](")?;
            Some((before, shown, rest.split_once(')')?.1))
        });
        let Some((before, shown, after)) = link else { return text.to_owned() };
        match before.strip_suffix(" (").zip(after.strip_prefix(')')) {
            Some((before, after)) => format!("{before}{}", plain(after)),
            None => format!("{before}{shown}{}", plain(after)),
        }
    }

    #[test]
    fn the_page_has_the_same_remedies() {
        let pair = |key: &str, remedy: &str| (key.replace('`', ""), remedy.to_owned());
        let has_remedy = |row: &Vec<String>| row[1].starts_with('`') && !row[3].is_empty();
        let page: Vec<_> = rows(4).filter(has_remedy).map(|row| pair(&row[1], &row[3])).collect();
        let code = BY_REASON.iter().map(|(reasons, remedy)| pair(reasons, remedy));
        assert_eq!(page, code.collect::<Vec<_>>());
        let is_quoted =
            |row: &Vec<String>| row[0].starts_with("reason `") || row[0].starts_with("the log: `");
        let page: Vec<_> = rows(3).filter(is_quoted).map(|row| pair(&row[0], &row[2])).collect();
        let messages = BY_MESSAGE.iter();
        let messages = messages.map(|row| pair(&format!("reason {}: {}", row.0, row.1), row.2));
        let logs = BY_LOG.iter().map(|(part, remedy)| pair(&format!("the log: {part}"), remedy));
        assert_eq!(page, messages.chain(logs).collect::<Vec<_>>());
    }

    #[test]
    fn messages_and_exit_codes_come_before_reasons() {
        let of = |reason, message, code| of_reason(reason, message, code).unwrap();
        assert!(of("CommandFailed", "", Some(1)).contains("output"));
        assert!(of("CommandFailed", "", Some(127)).contains("the full path"));
        assert!(of("Waiting", "pod a has no node: 0/1 nodes", None).contains("add nodes"));
        assert!(of("Waiting", "ImagePullBackOff", None).contains("pull secrets"));
        let memory = "container hello ran out of the memory that its limits allow";
        for reason in ["LeadReplaced", "Running"] {
            assert!(of(reason, memory, None).starts_with("raise `resources.limits.memory`"));
        }
        assert!(of("LeadReplaced", "it was deleted", None).contains("keep its jobs"));
        assert!(of("Waiting", "something else", None).contains("what the message says"));
        assert!(of("LeadUnreachable", "", Some(68)).contains("why the lead did not start"));
        assert_eq!(of_reason("CommandSucceeded", "", Some(0)), None);
        assert!(of_log("10.0.0.1:8050: refused").unwrap().contains("NetworkPolicy"));
        assert_eq!(of_log("something else"), None);
    }
}
