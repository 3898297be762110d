//! Resource sets (R, RFC 20): from `[resource]`, from a file, or from the machine itself.

use std::collections::{BTreeMap, BTreeSet};

use flux_contract::Hostlist;
use serde_json::{Value, json};

use crate::config::unpack::{self, Kind};
use crate::text::idset;

/// What one broker has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Node {
    /// Host name.
    pub(crate) host: String,
    /// Core ids.
    pub(crate) cores: BTreeSet<u32>,
    /// GPU ids.
    pub(crate) gpus: BTreeSet<u32>,
    /// Property names.
    pub(crate) properties: BTreeSet<String>,
}

/// Nodes by rank.
pub(crate) type Nodes = BTreeMap<u32, Node>;

/// How differences between configured and real cores are judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verify {
    /// Not at all.
    Ignore,
    /// More than configured is fine.
    AllowExtra,
    /// Less than configured is fine.
    AllowMissing,
    /// Exactly as configured.
    Strict,
}

impl Verify {
    /// The mode of that name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        match name {
            "strict" => Some(Self::Strict),
            "allow-extra" => Some(Self::AllowExtra),
            "allow-missing" => Some(Self::AllowMissing),
            "ignore" => Some(Self::Ignore),
            _ => None,
        }
    }

    /// Why a broker drains itself, in Flux's words, if it does.
    pub(crate) fn complaint(
        self,
        rank: u32,
        host: &str,
        expected: &BTreeSet<u32>,
        real: &BTreeSet<u32>,
    ) -> Option<String> {
        let missing: Vec<u32> = expected.difference(real).copied().collect();
        let extra: Vec<u32> = real.difference(expected).copied().collect();
        let missing_matters = matches!(self, Self::Strict | Self::AllowExtra);
        let extra_matters = matches!(self, Self::Strict | Self::AllowMissing);
        let list = |ids: Vec<u32>| {
            let text = idset::encode(ids.iter().copied());
            if ids.len() > 1 { format!("core[{text}]") } else { format!("core{text}") }
        };
        if missing_matters && !missing.is_empty() {
            return Some(format!("rank {rank} ({host}) missing resources: {}", list(missing)));
        }
        (extra_matters && !extra.is_empty())
            .then(|| format!("rank {rank} ({host}) has extra resources: {}", list(extra)))
    }
}

/// Keys of one entry of `[[resource.config]]` (flux-config-resource(5)).
const ENTRY: &[(&str, Kind)] = &[
    ("hosts", Kind::Text),
    ("cores", Kind::Text),
    ("gpus", Kind::Text),
    ("properties", Kind::Any),
];

/// Builds nodes from `[[resource.config]]`, in order of first mention.
pub(crate) fn from_config(entries: &Value) -> Result<Vec<Node>, String> {
    let entries = entries.as_array().ok_or("resource.config must be an array")?;
    let mut nodes: Vec<Node> = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        unpack::object(entry)
            .and_then(|table| unpack::strict(table, ENTRY))
            .map_err(|error| format!("config[{index}]: {error}"))?;
        let text = |key: &str| entry.get(key).and_then(Value::as_str);
        let hosts = text("hosts")
            .ok_or_else(|| format!("config[{index}]: Object item not found: hosts"))?;
        let hosts = Hostlist::parse(hosts)
            .map_err(|_| format!("config[{index}]: invalid hostlist '{hosts}'"))?;
        let ids = |key: &str| -> Result<BTreeSet<u32>, String> {
            let text = text(key).unwrap_or_default();
            idset::decode(text)
                .ok_or_else(|| format!("config[{index}]: invalid idset {key}='{text}'"))
        };
        let (cores, gpus) = (ids("cores")?, ids("gpus")?);
        let properties = properties(entry, index)?;
        for host in hosts.hosts() {
            let at = nodes.iter().position(|node| node.host == host).unwrap_or_else(|| {
                nodes.push(Node { host: host.clone(), ..Node::default() });
                nodes.len() - 1
            });
            nodes[at].cores.extend(&cores);
            nodes[at].gpus.extend(&gpus);
            nodes[at].properties.extend(properties.iter().cloned());
        }
    }
    check_assigned(&nodes)?;
    Ok(nodes)
}

fn properties(entry: &Value, index: usize) -> Result<Vec<String>, String> {
    let Some(list) = entry.get("properties").and_then(Value::as_array) else {
        return Ok(Vec::new());
    };
    let valid = |name: &str| !name.contains(|c: char| "!&'\"^`|()".contains(c));
    list.iter()
        .map(|item| match item.as_str() {
            Some(name) if valid(name) => Ok(name.to_owned()),
            _ => Err(format!("config[{index}]: invalid property \"{item}\"")),
        })
        .collect()
}

fn check_assigned(nodes: &[Node]) -> Result<(), String> {
    if nodes.is_empty() {
        return Err("no hosts configured".to_owned());
    }
    let empty: Vec<&str> = nodes
        .iter()
        .filter(|node| node.cores.is_empty() && node.gpus.is_empty())
        .map(|node| node.host.as_str())
        .collect();
    if empty.is_empty() {
        return Ok(());
    }
    let hosts = compress(&empty);
    Err(format!("resource.config: {hosts} assigned no resources"))
}

/// Names as one hostlist.
pub(crate) fn compress<S: AsRef<str>>(hosts: &[S]) -> String {
    let names: Vec<&str> = hosts.iter().map(AsRef::as_ref).collect();
    let joined = names.join(",");
    Hostlist::parse(&joined).map_or(joined, |list| list.to_string())
}

/// Reads R version 1.
pub(crate) fn from_json(value: &Value) -> Result<Vec<Node>, String> {
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    if value.get("version").and_then(Value::as_u64) != Some(1) {
        return Err("invalid or missing version".to_owned());
    }
    let execution = value.get("execution").ok_or("Object item not found: execution")?;
    let list =
        execution.get("R_lite").and_then(Value::as_array).ok_or("Object item not found: R_lite")?;
    let mut nodes = Nodes::new();
    for entry in list {
        let ranks = text(entry, "rank").and_then(|ranks| idset::decode(&ranks));
        let children = entry.get("children").ok_or("Object item not found: children")?;
        let ids = |key: &str| idset::decode(&text(children, key).unwrap_or_default());
        let (cores, gpus) = ids("core").zip(ids("gpu")).ok_or("invalid idset in R_lite")?;
        for rank in ranks.ok_or("invalid rank idset in R_lite")? {
            let node = nodes.entry(rank).or_default();
            node.cores.extend(&cores);
            node.gpus.extend(&gpus);
        }
    }
    let hosts = execution.get("nodelist").and_then(Value::as_array).ok_or("no nodelist")?;
    let hosts: Vec<&str> = hosts.iter().filter_map(Value::as_str).collect();
    let hosts = Hostlist::parse(&hosts.join(",")).map_err(|error| error.to_string())?;
    if hosts.len() != nodes.len() {
        return Err("nodelist does not match the ranks of R_lite".to_owned());
    }
    for (node, host) in nodes.values_mut().zip(hosts.hosts()) {
        node.host = host;
    }
    Ok(nodes.into_values().collect())
}

/// Gives every node the rank its host has in `hosts`; both sets must be equal.
pub(crate) fn rerank(nodes: &[Node], hosts: &[String]) -> Result<Nodes, String> {
    let (wanted, found) = (hosts.len(), nodes.len());
    if wanted != found {
        let relation = if wanted > found { "greater" } else { "less" };
        return Err(format!("Number of hosts ({wanted}) is {relation} than node count ({found})"));
    }
    let mut ranked = Nodes::new();
    for (rank, host) in (0_u32..).zip(hosts) {
        let node = nodes
            .iter()
            .find(|node| node.host == *host)
            .ok_or_else(|| format!("Host {host} not found in resources"))?;
        ranked.insert(rank, node.clone());
    }
    Ok(ranked)
}

/// R version 1 of the nodes.
pub(crate) fn to_json(nodes: &Nodes) -> Value {
    let mut groups: Vec<(Vec<u32>, &Node)> = Vec::new();
    for (rank, node) in nodes {
        let same = groups
            .iter_mut()
            .find(|(_, other)| other.cores == node.cores && other.gpus == node.gpus);
        match same {
            Some((ranks, _)) => ranks.push(*rank),
            None => groups.push((vec![*rank], node)),
        }
    }
    let lite: Vec<Value> = groups.iter().map(|(ranks, node)| lite_entry(ranks, node)).collect();
    let hosts: Vec<&str> = nodes.values().map(|node| node.host.as_str()).collect();
    let mut execution = json!({
        "R_lite": lite, "starttime": 0.0, "expiration": 0.0, "nodelist": [compress(&hosts)],
    });
    let mut properties: BTreeMap<&String, Vec<u32>> = BTreeMap::new();
    for (rank, node) in nodes {
        for property in &node.properties {
            properties.entry(property).or_default().push(*rank);
        }
    }
    if !properties.is_empty() {
        let table: BTreeMap<_, _> =
            properties.into_iter().map(|(name, ranks)| (name, idset::encode(ranks))).collect();
        execution["properties"] = json!(table);
    }
    json!({ "version": 1, "execution": execution })
}

fn lite_entry(ranks: &[u32], node: &Node) -> Value {
    let mut children = json!({});
    if !node.cores.is_empty() {
        children["core"] = json!(idset::encode(node.cores.iter().copied()));
    }
    if !node.gpus.is_empty() {
        children["gpu"] = json!(idset::encode(node.gpus.iter().copied()));
    }
    json!({ "rank": idset::encode(ranks.iter().copied()), "children": children })
}

/// Core ids of this machine that this process may run on, numbered from 0 as Flux numbers them.
pub(crate) fn local_cores() -> BTreeSet<u32> {
    let allowed = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)).ok();
    let is_allowed = |cpu| allowed.is_none_or(|set| set.is_set(cpu).unwrap_or(false));
    let read = |cpu: usize, file: &str| {
        std::fs::read_to_string(format!("/sys/devices/system/cpu/cpu{cpu}/topology/{file}"))
            .unwrap_or_else(|_| cpu.to_string())
    };
    let cores: BTreeSet<(String, String)> = (0..nix::sched::CpuSet::count())
        .filter(|cpu| is_allowed(*cpu))
        .map(|cpu| (read(cpu, "physical_package_id"), read(cpu, "core_id")))
        .collect();
    (0..u32::try_from(cores.len()).unwrap_or(1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(text: &str) -> Vec<String> {
        Hostlist::parse(text).expect("valid").hosts().collect()
    }

    #[test]
    fn config_entries_add_up_and_are_ranked_by_the_bootstrap_order() {
        let entries = json!([
            {"hosts": "b,a[0-1]", "cores": "0-1"},
            {"hosts": "b", "gpus": "0", "properties": ["big"]},
        ]);
        let nodes =
            rerank(&from_config(&entries).expect("valid"), &hosts("a[0-1],b")).expect("same");
        let expected = json!({"version": 1, "execution": {
            "R_lite": [
                {"rank": "0-1", "children": {"core": "0-1"}},
                {"rank": "2", "children": {"core": "0-1", "gpu": "0"}},
            ],
            "starttime": 0.0, "expiration": 0.0, "nodelist": ["a[0-1],b"],
            "properties": {"big": "2"},
        }});
        assert_eq!(to_json(&nodes), expected);
        let again =
            rerank(&from_json(&expected).expect("valid"), &hosts("a[0-1],b")).expect("same");
        assert_eq!(again.keys().copied().collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn host_sets_must_be_equal() {
        let nodes = || from_config(&json!([{"hosts": "a[0-1]", "cores": "0"}])).expect("valid");
        let error = rerank(&nodes(), &hosts("a[0-3]")).expect_err("refused");
        assert_eq!(error, "Number of hosts (4) is greater than node count (2)");
        let error = rerank(&nodes(), &hosts("a0,b")).expect_err("refused");
        assert_eq!(error, "Host b not found in resources");
    }

    #[test]
    fn faults_have_the_text_of_real_flux() {
        let cases = [
            (json!([{"hosts": "a["}]), "config[0]: invalid hostlist 'a['"),
            (json!([{"hosts": "a", "cores": "x"}]), "config[0]: invalid idset cores='x'"),
            (json!([{"hosts": "a"}]), "resource.config: a assigned no resources"),
            (json!([]), "no hosts configured"),
        ];
        for (entries, expected) in cases {
            assert_eq!(from_config(&entries).expect_err("refused"), expected);
        }
    }

    #[test]
    fn missing_cores_drain_unless_allowed() {
        let (expected, real) = (BTreeSet::from([0, 1, 2, 3]), BTreeSet::from([0]));
        let text = Verify::AllowExtra.complaint(0, "a", &expected, &real);
        assert_eq!(text.as_deref(), Some("rank 0 (a) missing resources: core[1-3]"));
        assert_eq!(Verify::Ignore.complaint(0, "a", &expected, &real), None);
        assert_eq!(Verify::AllowMissing.complaint(0, "a", &expected, &real), None);
    }
}
