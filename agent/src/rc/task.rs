//! A task of rc1 or rc3: a module that is loaded or removed, or a step of Flux's own rc files.

use flux_protocol::idset::ids_of;
use serde::Deserialize;

/// Of tasks that provide the same service the one with the highest priority does (flux-modprobe(1)).
const DEFAULT_PRIORITY: i64 = 100;

/// What `rc1.py` and `rc3.py` do themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RcStep {
    /// The backing store is emptied before a dump is restored: an argument of its module says so.
    CheckRestore,
    Restore,
    PostStartEvent,
    CheckCleanShutdown,
    Fsck,
    CronLoad,
    PushCleanup,
    /// The scripts of `rc1.d` or `rc3.d`.
    Scripts,
    PostFinishEvent,
    ContentFlush,
    ContentDump,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Action {
    #[default]
    Load,
    Remove,
    Step(RcStep),
}

/// An entry of `modprobe.toml`, or a step in the same form. A key that is not here is refused: it would be ignored.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Task {
    pub(crate) name: String,
    /// What is loaded, where that has another name.
    pub(crate) module: Option<String>,
    #[serde(default)]
    pub(crate) args: Vec<String>,
    /// Run it as a process of its own.
    #[serde(default)]
    pub(crate) exec: bool,
    #[serde(default)]
    pub(crate) ranks: Ranks,
    /// Services that others ask for, as `sched`.
    #[serde(default)]
    pub(crate) provides: Vec<String>,
    /// Run with this one.
    #[serde(default)]
    pub(crate) requires: Vec<String>,
    /// Without these this one does not run.
    #[serde(default)]
    pub(crate) needs: Vec<String>,
    #[serde(default)]
    pub(crate) before: Vec<String>,
    #[serde(default)]
    pub(crate) after: Vec<String>,
    /// Keys of the broker's configuration, dotted, without which it does not run.
    #[serde(default)]
    pub(crate) needs_config: Vec<String>,
    #[serde(default = "default_priority")]
    pub(crate) priority: i64,
    /// An attribute of the broker without which it does not run.
    #[serde(skip)]
    pub(crate) needs_attribute: Option<&'static str>,
    #[serde(skip)]
    pub(crate) action: Action,
}

const fn default_priority() -> i64 {
    DEFAULT_PRIORITY
}

impl Task {
    pub(crate) fn step(name: &str, step: RcStep) -> Self {
        Self {
            name: name.to_owned(),
            module: None,
            args: Vec::new(),
            exec: false,
            ranks: Ranks::Set(vec![0]),
            provides: Vec::new(),
            requires: Vec::new(),
            needs: Vec::new(),
            before: Vec::new(),
            after: Vec::new(),
            needs_config: Vec::new(),
            priority: DEFAULT_PRIORITY,
            needs_attribute: None,
            action: Action::Step(step),
        }
    }

    /// Whether it provides `service`; its own name is one.
    pub(crate) fn is(&self, service: &str) -> bool {
        self.name == service || self.provides.iter().any(|provided| provided == service)
    }

    /// What `module.load` is asked, with `more` arguments.
    pub(crate) fn load_request(&self, more: &[String]) -> serde_json::Value {
        let path = self.module.as_ref().unwrap_or(&self.name);
        let args = [&self.args[..], more].concat();
        let mut request = serde_json::json!({ "path": path, "args": args, "exec": self.exec });
        if *path != self.name {
            request["name"] = self.name.as_str().into();
        }
        request
    }

    /// Makes the removal of the module from its load, in the opposite order.
    pub(crate) fn set_remove(&mut self) {
        std::mem::swap(&mut self.before, &mut self.after);
        self.needs.clear();
        self.requires.clear();
        self.action = Action::Remove;
    }
}

/// Ranks on which a task runs: `all`, `>0`, `<2`, or an idset (RFC 22).
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
