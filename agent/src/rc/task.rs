//! A task of rc1 or rc3: a module to load or remove, or a step of Flux's own rc files.

use flux_protocol::idset::ids_of;
use serde::Deserialize;

/// The priority of a task that names none. The task with the highest priority provides a service (flux-modprobe(1)).
const DEFAULT_PRIORITY: i64 = 100;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Action {
    #[default]
    Load,
    Remove,
    /// A step of `rc1.py` or `rc3.py`, by its name.
    Step,
}

/// An entry of `modprobe.toml`, or a step in the same form. Unknown keys are refused, as ignoring one could break the
/// instance.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Task {
    pub(crate) name: String,
    /// The module to load, if its name is not the name of the task.
    pub(crate) module: Option<String>,
    #[serde(default)]
    pub(crate) args: Vec<String>,
    /// The module runs as a process of its own.
    #[serde(default)]
    pub(crate) exec: bool,
    #[serde(default)]
    pub(crate) ranks: Ranks,
    /// Services that other tasks name, as `sched`.
    #[serde(default)]
    pub(crate) provides: Vec<String>,
    /// Services that run together with this task.
    #[serde(default)]
    pub(crate) requires: Vec<String>,
    /// Services without which this task does not run.
    #[serde(default)]
    pub(crate) needs: Vec<String>,
    #[serde(default)]
    pub(crate) before: Vec<String>,
    #[serde(default)]
    pub(crate) after: Vec<String>,
    /// Keys of the broker's configuration, with dots, without which this task does not run.
    #[serde(default)]
    pub(crate) needs_config: Vec<String>,
    #[serde(default = "default_priority")]
    pub(crate) priority: i64,
    /// An attribute of the broker without which this task does not run.
    #[serde(skip)]
    pub(crate) needs_attribute: Option<&'static str>,
    #[serde(skip)]
    pub(crate) action: Action,
}

const fn default_priority() -> i64 {
    DEFAULT_PRIORITY
}

impl Task {
    /// Whether the task provides `service`; its own name is one.
    pub(crate) fn provides(&self, service: &str) -> bool {
        self.name == service || self.provides.iter().any(|provided| provided == service)
    }

    /// The payload of a `module.load` request, with `extra` arguments of the module.
    pub(crate) fn load_request(&self, extra: &[String]) -> serde_json::Value {
        let path = self.module.as_ref().unwrap_or(&self.name);
        let args = [&self.args[..], extra].concat();
        let mut request = serde_json::json!({ "path": path, "args": args, "exec": self.exec });
        if *path != self.name {
            request["name"] = self.name.as_str().into();
        }
        request
    }

    /// Turns the task that loads a module into the one that removes it, in the opposite order.
    pub(crate) fn set_remove(&mut self) {
        std::mem::swap(&mut self.before, &mut self.after);
        self.needs.clear();
        self.requires.clear();
        self.action = Action::Remove;
    }
}

/// The ranks on which a task runs: `all`, `>0`, `<2`, or an idset (RFC 22).
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) enum Ranks {
    #[default]
    All,
    Above(u32),
    Below(u32),
    Set(Vec<u32>),
}

impl Ranks {
    pub(crate) fn contain(&self, rank: u32) -> bool {
        match self {
            Self::All => true,
            Self::Above(bound) => rank > *bound,
            Self::Below(bound) => rank < *bound,
            Self::Set(ranks) => ranks.contains(&rank),
        }
    }
}

impl TryFrom<String> for Ranks {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let bound = |sign| text.strip_prefix(sign).and_then(|bound| bound.parse().ok());
        if text == "all" {
            return Ok(Self::All);
        }
        let bounded = bound('>').map(Self::Above).or_else(|| bound('<').map(Self::Below));
        let ranks = bounded.or_else(|| ids_of(&text).map(Self::Set));
        ranks.ok_or_else(|| format!("ranks {text:?} is no set of ranks"))
    }
}
