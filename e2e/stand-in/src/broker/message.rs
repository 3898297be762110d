//! Flux messages as they go over the local socket: the few requests that are understood, with the payloads
//! that the agent sends. What an answer looks like was recorded from flux-core 0.88.

use crate::protocol::{Reply, Request};
use crate::release::{Feature, has};
use flux_protocol::message::{self, HEAD, Message, REQUEST, RESPONSE};
use serde_json::{Value, json};

/// No request that is understood is longer.
const LONGEST: u32 = 64 * 1024;

/// The broker fills in who asks.
const WHO_CONNECTS: u32 = u32::MAX;
const ANY_NODE: u32 = u32::MAX;
/// Roles of an answer: owner, and local (RFC 12).
const ROLES: u32 = 5;
/// The rank of the broker that has the services of the instance.
const LEAD: u32 = 0;
/// Of Linux: `ENOENT`, `EINVAL`, `ENOSYS`, `EPROTO` and `EHOSTUNREACH`.
const NO_ENTRY: u32 = 2;
const INVALID: u32 = 22;
const NO_SERVICE: u32 = 38;
const NO_PROTOCOL: u32 = 71;
const NO_SUCH_NODE: u32 = 113;

/// The cleanup that the agent registers.
const CLEANUP: [&str; 3] = [
    "flux queue idle --quiet",
    "flux cancel --user=all --quiet --states RUN",
    "flux queue stop --quiet --all --nocheckpoint",
];

/// Of jobs (flux-core, `modules/job-list/job-list.c`).
const ATTRIBUTES: &str =
    "userid name state result ntasks nnodes ncores priority ranks t_submit t_run t_inactive";

pub(super) struct Question {
    message: Message,
    payload: Value,
}

/// Why there is no answer: an errno, and its text.
type Refusal = (u32, String);

/// The length of the frames behind a head; `None` if it is not the head of a request.
pub(super) fn length(head: [u8; HEAD]) -> Option<usize> {
    message::length(head).filter(|length| *length <= LONGEST)?.try_into().ok()
}

impl Question {
    /// Reads the frames of a request; anything else is `None`.
    pub(super) fn parse(body: &[u8]) -> Option<Self> {
        let message = Message::decode(body).ok()?;
        // Real Flux lets the owner send requests of other users.
        if message.kind != REQUEST || message.user != WHO_CONNECTS || message.topic.is_empty() {
            return None;
        }
        let payload = message.payload.as_deref().and_then(|text| serde_json::from_str(text).ok());
        Some(Self { message, payload: payload.unwrap_or_default() })
    }

    pub(super) fn request(&self, rank: u32) -> Result<Request, Refusal> {
        let unreachable = (NO_SUCH_NODE, String::new());
        match (self.message.topic.as_str(), self.message.node) {
            ("state-machine.get", node) if node == ANY_NODE || node == rank => Ok(Request::State),
            ("state-machine.get", LEAD) => Ok(Request::LeadState),
            ("resource.status", LEAD) => Ok(Request::Drained),
            ("resource.sched-status", LEAD) if has(Feature::SchedStatus) => Ok(Request::Allocated),
            ("job-manager.stats-get", LEAD) if has(Feature::Stats) => Ok(Request::ActiveJobs),
            ("job-manager.kill", LEAD) => {
                let signal = self.payload["signum"].as_i64().and_then(|it| it.try_into().ok());
                let asked = self.payload["id"].as_u64().zip(signal);
                let asked = asked.map(|(id, signal)| Request::Kill(id, signal));
                asked.ok_or((NO_PROTOCOL, String::new()))
            }
            ("job-manager.history.get", LEAD) => {
                let slice = self.payload["slice"].as_str().and_then(|it| it.strip_prefix("[:"));
                let most = slice.and_then(|it| it.strip_suffix(']')?.parse().ok());
                most.map(Request::Newest).ok_or((NO_PROTOCOL, String::new()))
            }
            ("job-info.lookup", LEAD) => {
                let id = self.payload["id"].as_u64();
                id.map(Request::Eventlog).ok_or((NO_PROTOCOL, String::new()))
            }
            ("runat.push", ANY_NODE)
                if self.payload == json!({ "name": "cleanup", "commands": CLEANUP }) =>
            {
                Ok(Request::Cleanup)
            }
            ("resource.drain" | "resource.undrain" | "job-list.list", LEAD) => {
                self.of_instance().ok_or((NO_PROTOCOL, String::new()))
            }
            ("state-machine.get", _) => Err(unreachable),
            (topic, _) => Err((NO_SERVICE, format!("No service matching {topic} is registered"))),
        }
    }

    /// What is asked of the instance about one rank. A payload has to be what would be made of what is read of it.
    fn of_instance(&self) -> Option<Request> {
        let is_list = self.message.topic == "job-list.list";
        if is_list && !has(Feature::Constraints) {
            let needed = ["userid", "states", "results"];
            let has_all = needed.iter().all(|name| self.payload[*name].is_u64());
            return has_all.then_some(Request::List(false));
        }
        let states = &self.payload["constraint"]["states"];
        if let Some(states) = states.as_array().filter(|_| is_list) {
            let attributes = self.payload["attrs"].as_array()?;
            let known = |it: &Value| ATTRIBUTES.split(' ').any(|known| it == known);
            return attributes.iter().all(known).then_some(Request::List(states.len() > 2));
        }
        let text = |pointer: &str| self.payload.pointer(pointer).and_then(Value::as_str);
        let ids = text("/targets").or_else(|| text("/constraint/and/1/ranks/0"))?;
        let rank = ids.parse().ok()?;
        let (understood, request) = match self.message.topic.as_str() {
            "resource.drain" => {
                let reason = text("/reason")?;
                let understood = json!({ "targets": ids, "reason": reason });
                (understood, Request::Drain(rank, Some(reason.to_owned())))
            }
            "resource.undrain" => (json!({ "targets": ids }), Request::Drain(rank, None)),
            _ if !has(Feature::RanksConstraint) => return None,
            _ => {
                let most = self.payload["max_entries"].as_u64()?;
                let running = json!({ "and": [{ "states": ["running"] }, { "ranks": [ids] }] });
                let understood = json!({ "max_entries": most, "attrs": [], "constraint": running });
                (understood, Request::RunningOn(rank, usize::try_from(most).ok()?))
            }
        };
        (self.payload == understood).then_some(request)
    }

    /// The answer with the requested one of the eventlogs of a job, if the job has it.
    fn eventlog(&self, events: &Value) -> Option<String> {
        let key = self.payload["keys"][0].as_str()?;
        let log = events[key].as_array()?;
        let lines: Vec<String> = log.iter().map(Value::to_string).collect();
        Some(json!({ key: lines.join("\n") }).to_string())
    }

    /// The whole answer of a broker that belongs to `owner`.
    pub(super) fn answer(&self, owner: u32, reply: Result<Reply, Refusal>) -> Vec<u8> {
        let (errno, payload) = match reply {
            Ok(Reply::Done(events)) if self.message.topic == "job-info.lookup" => {
                self.eventlog(&events).map_or((NO_ENTRY, String::new()), |answer| (0, answer))
            }
            Ok(Reply::Done(Value::Null)) => (0, String::new()),
            Ok(Reply::Done(value)) => (0, value.to_string()),
            // One of the way to the lead has the exit code of a command.
            Ok(Reply::Failed(text, 1)) => (NO_SUCH_NODE, text),
            Ok(Reply::Failed(text, errno)) => (errno.into(), text),
            Ok(Reply::Output(..)) => (INVALID, String::new()),
            Err(refusal) => refusal,
        };
        let answer = Message {
            kind: RESPONSE,
            payload: Some(payload).filter(|payload| !payload.is_empty()),
            user: owner,
            roles: ROLES,
            node: errno,
            ..self.message.clone()
        };
        answer.encode()
    }
}
