//! Answers about jobs, and clients that wait for one.

use serde_json::{Value, json};

use super::job::{ClientId, Job, JobState};
use super::manager::{Effect, Manager};
use crate::protocol::{QueueAction, Reply};
use crate::text::{idset, jobid, signal};

/// Exit code of `flux job wait` for a job that cannot be waited for.
const NOT_WAITABLE: u8 = 2;

/// A job's end, for whoever watches.
pub(crate) fn result(job: &Job) -> Reply {
    let exception = job.exception.as_ref().map(|exception| {
        json!({ "type": exception.kind, "note": exception.note, "started": job.started.is_some() })
    });
    Reply::Done(json!({ "code": job.exit_code(), "exception": exception }))
}

impl Manager {
    /// A client wants to see a job.
    pub(crate) fn watch(&mut self, client: ClientId, id: u64, output: bool) -> Vec<Effect> {
        let Some(job) = self.jobs.get_mut(&id) else {
            return vec![Effect::Tell(client, Reply::failed("No such file or directory"))];
        };
        let mut replies: Vec<Reply> = job
            .events
            .iter()
            .map(|(at, text)| Reply::Event { at: *at, text: text.clone() })
            .collect();
        if output {
            replies.extend(job.output.iter().map(|(stream, task, text)| Reply::Output {
                stream: *stream,
                task: *task,
                text: text.clone(),
            }));
        }
        if job.state == JobState::Inactive {
            replies.push(result(job));
        } else {
            job.watchers.push((client, output));
        }
        replies.into_iter().map(|reply| Effect::Tell(client, reply)).collect()
    }

    /// A client waits for a result, which it takes.
    pub(crate) fn wait(
        &mut self,
        client: ClientId,
        id: Option<u64>,
        scope: Option<u64>,
    ) -> Vec<Effect> {
        let refuse = |reason: &str| {
            let reply = Reply::Failed {
                reason: reason.to_owned(),
                code: NOT_WAITABLE,
                errno: nix::libc::ECHILD,
            };
            vec![Effect::Tell(client, reply)]
        };
        match id {
            None if !self.jobs.values().any(|job| is_waitable(job, scope)) => {
                return refuse("there are no more waitable jobs");
            }
            None => {}
            Some(id) => match self.jobs.get(&id) {
                None => return refuse("invalid job id, or job may be inactive and not waitable"),
                Some(job) if !job.spec.waitable && job.state == JobState::Inactive => {
                    return refuse("invalid job id, or job may be inactive and not waitable");
                }
                Some(job) if !job.spec.waitable => {
                    return refuse("job was not submitted with FLUX_JOB_WAITABLE");
                }
                Some(job) if job.taken => {
                    return refuse("invalid job id, or job may be inactive and not waitable");
                }
                Some(_) => {}
            },
        }
        self.waiters.push((client, id, scope));
        self.settle()
    }

    /// A client waits for an idle queue.
    pub(crate) fn idle(
        &mut self,
        client: ClientId,
        drain: bool,
        scope: Option<u64>,
    ) -> Vec<Effect> {
        self.idlers.push((client, scope, drain));
        self.settle()
    }

    /// Answers the waiting clients whose wait is over.
    pub(crate) fn settle(&mut self) -> Vec<Effect> {
        let mut effects = Vec::new();
        for (client, id, scope) in std::mem::take(&mut self.waiters) {
            let over = |job: &&mut Job| {
                job.state == JobState::Inactive
                    && is_waitable(job, scope)
                    && id.is_none_or(|id| id == job.id)
            };
            let Some(job) = self.jobs.values_mut().find(over) else {
                self.waiters.push((client, id, scope));
                continue;
            };
            job.taken = true;
            let value = json!({ "id": job.id, "code": job.exit_code(), "text": wait_text(job) });
            effects.push(Effect::Tell(client, Reply::Done(value)));
        }
        for (client, scope, drain) in std::mem::take(&mut self.idlers) {
            let (running, pending) = self.counts(scope);
            if running > 0 || (drain && pending > 0) {
                self.idlers.push((client, scope, drain));
                continue;
            }
            effects.push(Effect::Tell(client, Reply::Done(json!({ "pending": pending }))));
        }
        effects
    }

    /// Forgets a client that has gone.
    pub(crate) fn forget(&mut self, client: ClientId) {
        self.idlers.retain(|(waiting, _, _)| *waiting != client);
        self.waiters.retain(|(waiting, _, _)| *waiting != client);
        for job in self.jobs.values_mut() {
            job.watchers.retain(|(watching, _)| *watching != client);
        }
    }

    /// Running and pending jobs in a scope.
    pub(crate) fn counts(&self, scope: Option<u64>) -> (usize, usize) {
        let count = |state| {
            let wanted = |job: &&Job| job.state == state && job.spec.scope == scope;
            self.jobs.values().filter(wanted).count()
        };
        (count(JobState::Running), count(JobState::Pending))
    }

    /// Reads or changes the queue.
    pub(crate) fn queue(&mut self, action: QueueAction) -> (Value, Vec<Effect>) {
        match action {
            QueueAction::Status => {}
            QueueAction::Enable => self.disabled = false,
            QueueAction::Disable => self.disabled = true,
            QueueAction::Start => self.stopped = false,
            QueueAction::Stop => self.stopped = true,
        }
        (json!({ "disabled": self.disabled, "stopped": self.stopped }), self.schedule())
    }

    /// The eventlogs of a job (RFC 21), by the names that `flux job eventlog` knows them by; none of
    /// a job that is unknown, none of its execution before it was started.
    pub(crate) fn eventlog(&self, id: u64) -> Value {
        let Some(job) = self.jobs.get(&id) else { return json!({}) };
        let exception = job.exception.as_ref().map(|exception| {
            let (kind, note) = (exception.kind, &exception.note);
            json!({ "type": kind, "severity": 0, "note": note, "userid": job.spec.user })
        });
        let at = |seconds: f64| job.submitted_at + seconds;
        let event = |(seconds, text): &(f64, String)| {
            let name = text.split(' ').next().unwrap_or_default();
            let mut event = json!({ "timestamp": at(*seconds), "name": name });
            if name == "exception" {
                event["context"] = json!(exception);
            }
            event
        };
        let mut events: Vec<Value> = job.events.iter().map(event).collect();
        if exception.is_some() && !events.iter().any(|event| event["name"] == "exception") {
            let end = events.iter().position(|event| event["name"] == "finish");
            let raised = json!({ "timestamp": at(0.0), "name": "exception", "context": exception });
            events.insert(end.unwrap_or(events.len()), raised);
        }
        let shells = ["init", "starting", "shell.init", "shell.start"];
        let execution = job.started.map(|_| {
            shells.map(|name| json!({ "timestamp": at(0.0), "name": name, "context": {} }))
        });
        json!({ "eventlog": events, "exec": execution })
    }

    /// The resources and their states.
    pub(crate) fn resources(&self) -> Value {
        let free = self.free(None);
        let nodes = self.nodes.iter().flatten().map(|(rank, node)| {
            let usable = free.get(rank);
            json!({
                "rank": rank, "host": node.host, "cores": node.cores.len(),
                "gpus": node.gpus.len(), "up": usable.is_some(),
                "free": usable.map_or(0, std::collections::BTreeSet::len),
                "drained": self.drained.get(rank),
                "excluded": self.excluded.contains(rank),
            })
        });
        json!(nodes.collect::<Vec<_>>())
    }
}

/// Ranks named by an id set or a hostlist.
pub(crate) fn targets(text: &str, hosts: &[String]) -> Result<Vec<u32>, String> {
    if let Some(ids) = idset::decode(text) {
        let unknown = ids.iter().any(|id| usize::try_from(*id).is_ok_and(|id| id >= hosts.len()));
        if unknown {
            return Err(format!("idset is out of range: {text}"));
        }
        return Ok(ids.into_iter().collect());
    }
    let names =
        flux_contract::Hostlist::parse(text).map_err(|_| format!("invalid targets: {text}"))?;
    let rank =
        |name: &String| (0_u32..).zip(hosts).find(|(_, host)| *host == name).map(|(rank, _)| rank);
    names
        .hosts()
        .map(|name| rank(&name).ok_or_else(|| format!("invalid targets: host {name} not found")))
        .collect()
}

fn is_waitable(job: &Job, scope: Option<u64>) -> bool {
    job.spec.waitable && !job.taken && job.spec.scope == scope
}

fn wait_text(job: &Job) -> String {
    let id = jobid::encode(job.id);
    match (&job.exception, job.code) {
        (Some(exception), _) => format!("{id}: Fatal exception type={}", exception.kind),
        (None, code) if code > 128 => format!("{id}: task(s) {}", signal::describe(code - 128)),
        (None, code) => format!("{id}: task(s) exited with exit code {code}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::job::Exception;
    use crate::jobs::schedule::tests::{nodes, spec};
    use crate::jobs::spec::JobSpec;
    use crate::jobs::task::{News, Report};

    const CLIENT: ClientId = (None, 1);

    fn manager() -> Manager {
        Manager {
            nodes: Some(nodes(&[1, 1])),
            online: [0, 1].into_iter().collect(),
            ..Manager::default()
        }
    }

    fn end(manager: &mut Manager, job: u64, task: u32, code: i32) -> Vec<Effect> {
        manager.report(Report { job, task, news: News::Ended(code) })
    }

    fn answer(effects: &[Effect]) -> Option<&Reply> {
        effects.iter().find_map(|effect| match effect {
            Effect::Tell(_, reply) => Some(reply).filter(|reply| reply.is_last()),
            Effect::Start(..)
            | Effect::Signal(..)
            | Effect::Write(..)
            | Effect::KillLater(_)
            | Effect::LimitLater(..) => None,
        })
    }

    #[test]
    fn the_highest_code_of_all_tasks_is_the_jobs() {
        let mut manager = manager();
        let (id, effects) = manager.submit(spec(2, Some(2))).expect("accepted");
        assert_eq!(effects.iter().filter(|e| matches!(e, Effect::Start(..))).count(), 2);
        assert!(answer(&manager.watch(CLIENT, id, true)).is_none());
        end(&mut manager, id, 0, 3);
        let effects = end(&mut manager, id, 1, 1);
        let Some(Reply::Done(value)) = answer(&effects) else { panic!("{effects:?}") };
        assert_eq!(value["code"], 3);
    }

    #[test]
    fn a_job_that_can_never_run_fails_and_one_that_cannot_run_yet_waits() {
        let mut manager = manager();
        let (id, _) = manager.submit(spec(3, None)).expect("accepted");
        assert_eq!(manager.jobs[&id].exit_code(), 1);
        manager.online.remove(&1);
        let (id, _) = manager.submit(spec(2, None)).expect("accepted");
        assert_eq!(manager.jobs[&id].state, JobState::Pending);
        manager.online.insert(1);
        assert!(!manager.schedule().is_empty());
        assert_eq!(manager.jobs[&id].state, JobState::Running);
    }

    #[test]
    fn results_can_be_taken_once_and_only_if_waitable() {
        let mut manager = manager();
        let refused = |effects: &[Effect]| {
            matches!(answer(effects), Some(Reply::Failed { code: NOT_WAITABLE, .. }))
        };
        assert!(refused(&manager.wait(CLIENT, None, None)));
        let (plain, _) = manager.submit(spec(1, None)).expect("accepted");
        assert!(refused(&manager.wait(CLIENT, Some(plain), None)));
        let waitable = JobSpec { waitable: true, ..spec(1, None) };
        let (id, _) = manager.submit(waitable).expect("accepted");
        assert!(answer(&manager.wait(CLIENT, Some(id), None)).is_none());
        assert!(matches!(answer(&end(&mut manager, id, 0, 0)), Some(Reply::Done(_))));
        assert!(refused(&manager.wait(CLIENT, Some(id), None)));
    }

    #[test]
    fn idle_waits_for_running_jobs_only() {
        let mut manager = manager();
        let (id, _) = manager.submit(spec(2, None)).expect("accepted");
        manager.submit(spec(1, None)).expect("accepted");
        assert!(answer(&manager.idle(CLIENT, false, None)).is_none());
        manager.stopped = true;
        end(&mut manager, id, 0, 0);
        let effects = end(&mut manager, id, 1, 0);
        let Some(Reply::Done(value)) = answer(&effects) else { panic!("{effects:?}") };
        assert_eq!(value["pending"], 1);
    }

    #[test]
    fn a_lost_node_fails_its_jobs() {
        let mut manager = manager();
        let (id, _) = manager.submit(spec(2, Some(2))).expect("accepted");
        manager.lost(1);
        let kind = manager.jobs[&id].exception.as_ref().map(|exception| exception.kind);
        assert_eq!(kind, Some("node-failure"));
        assert_eq!(manager.jobs[&id].running.len(), 1);
    }

    #[test]
    fn a_cancelled_job_is_signalled_and_ends_with_its_tasks() {
        let mut manager = manager();
        let (id, _) = manager.submit(spec(1, None)).expect("accepted");
        let exception = Exception { kind: "cancel", note: String::new() };
        let effects = manager.raise(id, exception);
        assert!(effects.iter().any(|effect| matches!(effect, Effect::Signal(0, _, 15))));
        end(&mut manager, id, 0, 143);
        assert_eq!(manager.jobs[&id].status(), ("CA", "CANCELED"));
    }
}
