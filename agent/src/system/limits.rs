//! Resource limits (getrlimit(2)) and the mask of modes (umask(2)), which a process passes on to its children.

use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit, umask};
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

/// The limits, by the names of Flux's shell (flux-core, `shell/rlimit.c`), and `locks`, which it does not know.
const RESOURCES: [(&str, Resource); 16] = [
    ("as", Resource::As),
    ("core", Resource::Core),
    ("cpu", Resource::Cpu),
    ("data", Resource::Data),
    ("fsize", Resource::Fsize),
    ("locks", Resource::Locks),
    ("memlock", Resource::Memlock),
    ("msgqueue", Resource::Msgqueue),
    ("nice", Resource::Nice),
    ("nofile", Resource::Nofile),
    ("nproc", Resource::Nproc),
    ("rss", Resource::Rss),
    ("rtprio", Resource::Rtprio),
    ("rttime", Resource::Rttime),
    ("sigpending", Resource::Sigpending),
    ("stack", Resource::Stack),
];
const UMASK: &str = "umask";
const UNLIMITED: &str = "unlimited";

/// The values `soft:hard` of limits and the octal mask, by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Limits(BTreeMap<String, String>);

impl Limits {
    pub(crate) fn of_this_process() -> Self {
        // The mask can only be read by setting it.
        let mask = umask(Mode::empty());
        umask(mask);
        let limits = RESOURCES.into_iter().map(|(name, resource)| {
            let Rlimit { current, maximum } = getrlimit(resource);
            (name.to_owned(), format!("{}:{}", shown(current), shown(maximum)))
        });
        let mask = (UMASK.to_owned(), format!("{:04o}", mask.bits()));
        Self(limits.chain([mask]).collect())
    }

    /// The limits that are missing or different in `other`.
    pub(crate) fn other_than(&self, other: &Self) -> Self {
        let differs = |(name, value): &(&String, &String)| other.0.get(*name) != Some(*value);
        let own = self.0.iter().filter(differs);
        Self(own.map(|(name, value)| (name.clone(), value.clone())).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn set(&self) -> Result<(), String> {
        self.0.iter().try_for_each(|(name, value)| {
            set(name, value).map_err(|why| format!("set {name} to {value}: {why}"))
        })
    }
}

fn set(name: &str, value: &str) -> Result<(), String> {
    if name == UMASK {
        let mask = u32::from_str_radix(value, 8).map_err(|error| error.to_string())?;
        umask(Mode::from_raw_mode(mask));
        return Ok(());
    }
    let resource = resource(name).ok_or("there is no such limit")?;
    let (soft, hard) = value.split_once(':').ok_or("it is not SOFT:HARD")?;
    let limit = Rlimit { current: parsed(soft)?, maximum: parsed(hard)? };
    setrlimit(resource, limit).map_err(|error| error.to_string())
}

fn resource(name: &str) -> Option<Resource> {
    RESOURCES.into_iter().find(|(known, _)| *known == name).map(|(_, resource)| resource)
}

/// The soft limit `name` of this process, if there is one.
pub(crate) fn soft(name: &str) -> Option<u64> {
    resource(name).and_then(|resource| getrlimit(resource).current)
}

fn shown(limit: Option<u64>) -> String {
    limit.map_or_else(|| UNLIMITED.to_owned(), |limit| limit.to_string())
}

fn parsed(text: &str) -> Result<Option<u64>, String> {
    let number = || text.parse().map(Some).map_err(|error| format!("{text:?}: {error}"));
    if text == UNLIMITED { Ok(None) } else { number() }
}

impl Display for Limits {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let all: Vec<_> = self.0.iter().map(|(name, value)| format!("{name}={value}")).collect();
        out.write_str(&all.join(","))
    }
}

impl FromStr for Limits {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let pair = |pair: &str| {
            let (name, value) =
                pair.split_once('=').ok_or_else(|| format!("{pair:?} is not NAME=VALUE"))?;
            Ok((name.to_owned(), value.to_owned()))
        };
        let pairs = text.split(',').filter(|part| !part.is_empty()).map(pair);
        pairs.collect::<Result<_, _>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_limits_read_back_and_invalid_ones_are_refused() {
        let limits = |text: &str| text.parse::<Limits>().unwrap();
        let before = limits("core=0:unlimited,nofile=1024:4096,umask=0022");
        let after = limits("core=0:unlimited,nofile=2048:4096,umask=0027");
        assert_eq!(after.other_than(&before).to_string(), "nofile=2048:4096,umask=0027");
        let own = Limits::of_this_process();
        assert_eq!((own.0.len(), limits(&own.to_string())), (RESOURCES.len() + 1, own));
        for wrong in ["pages=1:1", "core=1", "core=1:x", "umask=9"] {
            assert!(limits(wrong).set().unwrap_err().starts_with("set "), "{wrong}");
        }
    }
}
