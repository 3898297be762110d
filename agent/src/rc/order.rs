//! The tasks that run on a broker, and their order (flux-core, `bindings/python/flux/modprobe.py`).

use crate::rc::steps::{BACKING_MODULE, SCRIPTS, Steps};
use crate::rc::task::Task;
use flux_protocol::client::modules::SCHEDULER;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The facts of a broker on which the order of its tasks depends.
#[derive(Debug, Clone, Default)]
pub(crate) struct BrokerFacts {
    pub(crate) rank: u32,
    /// The configuration, which all brokers of the instance share.
    pub(crate) config: Value,
    /// The attributes that steps read, as far as they are set.
    pub(crate) attributes: BTreeMap<&'static str, String>,
}

/// The names of the tasks, each with the names of the tasks that it waits for.
pub(crate) type Order = BTreeMap<String, BTreeSet<String>>;

#[derive(Debug)]
pub(crate) struct Tasks {
    all: Vec<Task>,
    broker: BrokerFacts,
}

impl Tasks {
    /// The `modules` of `modprobe.toml`, with the alternatives that the broker's configuration selects. Of modules with the
    /// same priority the later one wins.
    pub(crate) fn new(modules: Vec<Task>, broker: BrokerFacts) -> Result<Self, String> {
        let alternatives = broker.config.pointer("/modules/alternatives").cloned();
        let mut tasks = Self { all: modules, broker };
        for (service, name) in alternatives.iter().filter_map(Value::as_object).flatten() {
            let name = name.as_str().unwrap_or_default();
            tasks.set_alternative(service, name)?;
        }
        Ok(tasks)
    }

    pub(crate) fn broker(&self) -> &BrokerFacts {
        &self.broker
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Task> {
        self.all.iter().find(|task| task.name == name)
    }

    /// Makes `name` the task that provides `service`.
    fn set_alternative(&mut self, service: &str, name: &str) -> Result<(), String> {
        let priorities =
            self.all.iter().filter(|task| task.provides(service)).map(|task| task.priority);
        let priority = priorities.max().map_or(0, |highest| highest + 1);
        let others = self.all.iter().filter(|task| task.provides(service)).count() > 1;
        let task = self.all.iter_mut().find(|task| task.name == name && task.provides(service));
        let task = task.ok_or_else(|| format!("no module {name} provides {service}"))?;
        if others {
            task.priority = priority;
        }
        Ok(())
    }

    fn enabled(&self, task: &Task) -> bool {
        let BrokerFacts { rank, config, attributes } = &self.broker;
        let is_set =
            |key: &String| config.pointer(&format!("/{}", key.replace('.', "/"))).is_some();
        task.ranks.contain(*rank)
            && task.needs_config.iter().all(is_set)
            && task.needs_attribute.is_none_or(|name| attributes.contains_key(name))
    }

    /// Whether everything that `task` needs can run. `seen` prevents endless loops.
    fn has_its_needs<'run>(&'run self, task: &'run Task, seen: &mut BTreeSet<&'run str>) -> bool {
        seen.insert(&task.name)
            && task.needs.iter().all(|need| {
                let providers =
                    self.all.iter().filter(|task| task.provides(need) && self.enabled(task));
                providers.into_iter().any(|provider| self.has_its_needs(provider, seen))
            })
    }

    /// The task with the highest priority for `service`, whether it can run or not.
    fn first(&self, service: &str) -> Result<&Task, String> {
        let providers = self.all.iter().filter(|task| task.provides(service));
        let first = providers.max_by_key(|task| task.priority);
        first.ok_or_else(|| format!("no module or task is or provides {service}"))
    }

    /// The task that provides `service` on this broker: the one with the highest priority among those that can run, if any
    /// can.
    fn provider(&self, service: &str) -> Result<&Task, String> {
        let can_run =
            |task: &&Task| self.enabled(task) && self.has_its_needs(task, &mut BTreeSet::new());
        let providers = self.all.iter().filter(|task| task.provides(service)).filter(can_run);
        providers.max_by_key(|task| task.priority).map_or_else(|| self.first(service), Ok)
    }

    /// The `services` that run on this broker: they are enabled, and the services that they need are among them.
    fn active(&self, services: Vec<String>) -> Result<Vec<String>, String> {
        let mut active = Vec::new();
        for service in services {
            if self.enabled(self.first(&service)?) {
                active.push(service);
            }
        }
        loop {
            let tasks: Vec<&Task> =
                active.iter().map(|service| self.first(service)).collect::<Result<_, _>>()?;
            let provided = |need: &String| tasks.iter().any(|task| task.provides(need));
            let mut kept = Vec::new();
            for service in &active {
                if self.provider(service)?.needs.iter().all(provided) {
                    kept.push(service.clone());
                }
            }
            if kept.len() == active.len() {
                return Ok(active);
            }
            active = kept;
        }
    }

    /// Adds to `found` the enabled tasks that provide `service`, and the tasks that those require.
    fn require<'run>(
        &'run self,
        service: &'run str,
        visited: &mut BTreeSet<&'run str>,
        found: &mut BTreeSet<&'run str>,
    ) -> Result<(), String> {
        if visited.contains(service) {
            return Ok(());
        }
        let task = self.provider(service)?;
        if self.enabled(task) {
            found.insert(&task.name);
        }
        visited.insert(&task.name);
        task.requires.iter().try_for_each(|required| self.require(required, visited, found))
    }

    /// The tasks of rc1, on a broker without modules.
    pub(crate) fn start(&mut self) -> Result<Order, String> {
        if let Some(module) = self.broker.attributes.get(BACKING_MODULE).cloned() {
            self.set_alternative("content-backing", &module)?;
        }
        let steps = Steps::read()?;
        let mut services = Vec::new();
        for service in steps.modules {
            let required = self.first(&service)?.requires.iter().cloned();
            services.extend(std::iter::once(service).chain(required));
        }
        self.add_steps(steps.rc1, &mut services);
        let active = self.active(services)?;
        let (mut visited, mut found) = (BTreeSet::new(), BTreeSet::new());
        for service in &active {
            self.require(service, &mut visited, &mut found)?;
        }
        self.order(&found)
    }

    /// The tasks of rc3, on a broker with the modules `loaded`.
    pub(crate) fn end(&mut self, loaded: &[String]) -> Result<Order, String> {
        let mut services: Vec<String> =
            loaded.iter().filter(|name| self.get(name).is_some()).cloned().collect();
        for name in &services {
            let provided = self.get(name).map(|task| task.provides.clone()).unwrap_or_default();
            for service in provided {
                self.set_alternative(&service, name)?;
            }
        }
        let removed = self.all.iter_mut().filter(|task| services.contains(&task.name));
        removed.for_each(Task::set_remove);
        self.add_steps(Steps::read()?.rc3, &mut services);
        let active = self.active(services)?;
        self.order(&active.iter().map(String::as_str).collect())
    }

    /// The scheduler, if no task of `order` except the scripts waits for it.
    pub(crate) fn scheduler(&self, order: &Order) -> Option<String> {
        let name = &self.provider(SCHEDULER).ok()?.name;
        let waits = |(task, before): (&String, &BTreeSet<String>)| {
            before.contains(name) && !SCRIPTS.contains(&task.as_str())
        };
        (order.contains_key(name) && !order.iter().any(waits)).then(|| name.clone())
    }

    fn add_steps(&mut self, steps: Vec<Task>, services: &mut Vec<String>) {
        services.extend(steps.iter().map(|step| step.name.clone()));
        self.all.extend(steps);
    }

    fn order(&self, services: &BTreeSet<&str>) -> Result<Order, String> {
        let mut tasks: BTreeMap<&str, &Task> = BTreeMap::new();
        for service in services {
            let task = self.provider(service)?;
            tasks.insert(&task.name, task);
            for provided in &task.provides {
                let task = self.provider(provided)?;
                tasks.insert(&task.name, task);
            }
        }
        let mut order: Order =
            tasks.keys().map(|name| ((*name).to_owned(), BTreeSet::new())).collect();
        for (name, task) in &tasks {
            let earlier = self.named(&task.after, |task| &task.after, &tasks)?;
            order.entry((*name).to_owned()).or_default().extend(earlier);
            for later in self.named(&task.before, |task| &task.before, &tasks)? {
                order.entry(later).or_default().insert((*name).to_owned());
            }
        }
        Ok(order)
    }

    /// The `tasks` that provide the services `names`. `*` names all tasks except those whose own `list` has a `*`.
    fn named(
        &self,
        names: &[String],
        list: fn(&Task) -> &Vec<String>,
        tasks: &BTreeMap<&str, &Task>,
    ) -> Result<Vec<String>, String> {
        let is_all = |names: &[String]| names.iter().any(|name| name == "*");
        if is_all(names) {
            let others = tasks.values().filter(|task| !is_all(list(task)));
            return Ok(others.map(|task| task.name.clone()).collect());
        }
        let mut found = Vec::new();
        for name in names {
            let name = &self.provider(name)?.name;
            found.extend(tasks.contains_key(&**name).then(|| name.clone()));
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn modules() -> Vec<Task> {
        let file: toml::Table =
            toml::from_str(include_str!("../../tests/it/pod/modprobe.toml")).unwrap();
        file["modules"].clone().try_into().unwrap()
    }

    fn tasks(rank: u32, config: Value) -> Tasks {
        let broker = BrokerFacts { rank, config, ..BrokerFacts::default() };
        Tasks::new(modules(), broker).unwrap()
    }

    /// The names of the tasks that `name` waits for.
    fn before<'order>(order: &'order Order, name: &str) -> Vec<&'order str> {
        order[name].iter().map(String::as_str).collect()
    }

    #[test]
    fn a_lead_loads_one_module_for_each_service_in_order() {
        let order = tasks(0, json!({})).start().unwrap();
        assert_eq!(before(&order, "sqlite"), ["content"]);
        assert_eq!(before(&order, "kvs"), ["content", "fsck", "sqlite"]);
        assert_eq!(before(&order, "queues"), ["graph"]);
        assert_eq!(before(&order, "post-start-event"), ["kvs", "sqlite"]);
        let absent = ["files", "simple", "sdbus", "sdmon", "restore", "cron-load"];
        assert!(absent.iter().all(|name| !order.contains_key(*name)), "{order:?}");
        // The scripts wait for everything else.
        assert_eq!(order["run-all-rc1"].len(), order.len() - 1);
    }

    #[test]
    fn the_start_waits_for_the_scheduler_if_a_module_does() {
        let scheduler = |config| {
            let mut tasks = tasks(0, config);
            let order = tasks.start().unwrap();
            tasks.scheduler(&order)
        };
        assert_eq!(scheduler(json!({})).as_deref(), Some("queues"));
        let mut after = tasks(0, json!({}));
        let list = after.all.iter_mut().find(|task| task.name == "job-info").unwrap();
        list.after.push("sched".to_owned());
        let order = after.start().unwrap();
        assert_eq!(after.scheduler(&order), None);
        let mut worker = tasks(1, json!({}));
        let order = worker.start().unwrap();
        assert_eq!(worker.scheduler(&order), None);
    }

    #[test]
    fn a_worker_loads_only_the_modules_for_its_rank() {
        let order = tasks(1, json!({})).start().unwrap();
        let names: Vec<_> = order.keys().map(String::as_str).collect();
        let expected = "content heartbeat job-info job-ingest kvs kvs-watch resource run-all-rc1";
        assert_eq!(names.join(" "), expected);
        assert_eq!(before(&order, "kvs"), ["content"]);
        assert!(before(&order, "job-ingest").is_empty());
    }

    #[test]
    fn the_configuration_enables_modules_and_selects_alternatives() {
        let alternatives = json!({ "sched": "simple", "feasibility": "simple" });
        let config =
            json!({ "systemd": { "enable": false }, "modules": { "alternatives": alternatives } });
        let order = tasks(0, config).start().unwrap();
        assert!(["simple", "sdbus-sys", "sdmon"].iter().all(|name| order.contains_key(*name)));
        assert!(["queues", "feasible", "graph"].iter().all(|name| !order.contains_key(*name)));
        let unknown = json!({ "modules": { "alternatives": { "sched": "kvs" } } });
        let broker = BrokerFacts { config: unknown, ..BrokerFacts::default() };
        assert_eq!(Tasks::new(modules(), broker).unwrap_err(), "no module kvs provides sched");
    }

    #[test]
    fn modules_are_removed_in_the_opposite_order() {
        let loaded = ["content", "files", "kvs", "resource", "connector-local", "simple"];
        let mut tasks = tasks(0, json!({}));
        tasks.broker.attributes.insert(crate::rc::steps::DUMP, "/archive".to_owned());
        let order = tasks.end(&loaded.map(str::to_owned)).unwrap();
        assert!(!order.contains_key("connector-local") && !order.contains_key("sqlite"));
        assert_eq!(before(&order, "kvs"), ["post-finish-event", "run-all-rc3"]);
        let last = ["content-dump", "content-flush", "kvs", "run-all-rc3"];
        assert_eq!(before(&order, "files"), last);
        assert_eq!(before(&order, "content"), ["files", "kvs", "run-all-rc3"]);
        assert_eq!(before(&order, "content-dump"), ["content-flush", "run-all-rc3"]);
    }
}
