//! Files of a crate do not import each other in a circle, and the core of the agent does not import its command line.

use crate::repository;
use flux_testkit::repository::files;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use syn::visit::{self, Visit};
use syn::{Item, UseTree, Visibility};

/// Files that hand the command line to the subcommands, which may use the definition of the command line.
const DISPATCH: [&str; 1] = ["cli"];

/// The path of a module, or of a name in a module, from the root of the crate.
type ModulePath = Vec<String>;

#[derive(Default)]
struct File {
    module: ModulePath,
    /// Absolute or relative paths, as they are written.
    imported: Vec<ModulePath>,
    /// Paths by the name under which this file exports them.
    exported: BTreeMap<String, ModulePath>,
}

impl File {
    fn add_use(&mut self, tree: &UseTree, mut path: ModulePath, is_exported: bool) {
        let (original, name) = match tree {
            UseTree::Path(inner) => {
                path.push(inner.ident.to_string());
                return self.add_use(&inner.tree, path, is_exported);
            }
            UseTree::Group(group) => {
                let items = &group.items;
                return items.iter().for_each(|item| self.add_use(item, path.clone(), is_exported));
            }
            UseTree::Glob(_) => return self.imported.push(path),
            UseTree::Name(name) => (&name.ident, &name.ident),
            UseTree::Rename(name) => (&name.ident, &name.rename),
        };
        if original != "self" {
            path.push(original.to_string());
        }
        if is_exported {
            self.exported.insert(name.to_string(), path);
        } else {
            self.imported.push(path);
        }
    }
}

impl<'ast> Visit<'ast> for File {
    fn visit_item(&mut self, item: &'ast Item) {
        if let Item::Use(item) = item {
            let is_exported = !matches!(item.vis, Visibility::Inherited);
            self.add_use(&item.tree, Vec::new(), is_exported);
        } else if !matches!(item, Item::Mod(_)) {
            // Tests are inline modules, and may use what they test with.
            visit::visit_item(self, item);
        }
    }

    /// `pub(super)` names a module, but imports nothing.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.imported.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, path);
    }
}

struct Crate(BTreeMap<ModulePath, File>);

impl Crate {
    fn read(source: &Path) -> Self {
        let read = |path: std::path::PathBuf| {
            let below = path.strip_prefix(source).unwrap().with_extension("");
            let mut module: ModulePath =
                below.iter().map(|part| part.to_str().unwrap().to_owned()).collect();
            if ["lib", "main", "mod"].contains(&module.last().unwrap().as_str()) {
                module.pop();
            }
            let mut file = File { module: module.clone(), ..File::default() };
            file.visit_file(&syn::parse_file(&std::fs::read_to_string(&path).unwrap()).unwrap());
            (module, file)
        };
        Self(files(source, "rs").into_iter().map(read).collect())
    }

    /// The file that defines what `path` names in `file`; `None` outside the crate.
    fn definition(&self, file: &File, path: &[String], depth: usize) -> Option<&ModulePath> {
        let (first, rest) = path.split_first()?;
        let mut absolute = match first.as_str() {
            "crate" => rest.to_vec(),
            "self" => [&file.module, rest].concat(),
            "super" => {
                let supers = path.iter().take_while(|part| *part == "super").count();
                let above = file.module.len().checked_sub(supers)?;
                [&file.module[..above], &path[supers..]].concat()
            }
            _ => {
                let exported = file.exported.get(first);
                if let Some(exported) = exported.filter(|exported| *exported != path) {
                    let path = [exported, rest].concat();
                    return (depth > 0).then(|| self.definition(file, &path, depth - 1)).flatten();
                }
                let child = [&file.module[..], &path[..1]].concat();
                self.0.contains_key(&child).then(|| [&file.module, path].concat())?
            }
        };
        let mut below = Vec::new();
        while !self.0.contains_key(&absolute) {
            below.insert(0, absolute.pop()?);
        }
        let (module, found) = self.0.get_key_value(&absolute)?;
        match below.first().and_then(|name| found.exported.get(name)) {
            Some(exported) if depth > 0 => {
                let path = [&exported[..], &below[1..]].concat();
                self.definition(found, &path, depth - 1).or(Some(module))
            }
            Some(_) | None => Some(module),
        }
    }

    fn imports(&self, file: &File) -> BTreeSet<&ModulePath> {
        let is_dispatch = file.module.last().is_some_and(|name| DISPATCH.contains(&name.as_str()));
        let imported = file.imported.iter().filter(|_| !is_dispatch);
        let found = imported.filter_map(|path| self.definition(file, path, 8));
        found.filter(|module| **module != file.module).collect()
    }

    /// The files of circles and between circles, with what they import of one another.
    fn circles(&self) -> BTreeMap<&ModulePath, BTreeSet<&ModulePath>> {
        let imports = |(module, file)| (module, self.imports(file));
        let mut left: BTreeMap<_, _> = self.0.iter().map(imports).collect();
        loop {
            let before: BTreeSet<_> = left.keys().copied().collect();
            left.retain(|_, imports| {
                imports.retain(|module| before.contains(module));
                !imports.is_empty()
            });
            if left.len() == before.len() {
                return left;
            }
        }
    }
}

#[test]
fn files_do_not_import_each_other_in_circles() {
    let root = repository();
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let members = manifest.lines().find(|line| line.starts_with("members")).unwrap();
    for member in members.split('"').skip(1).step_by(2) {
        let files = Crate::read(&root.join(member).join("src"));
        assert_eq!(files.circles(), BTreeMap::new(), "{member}");
    }
}

#[test]
fn the_core_of_the_agent_imports_no_subcommand() {
    let agent = Crate::read(&repository().join("agent/src"));
    let core = ["execute", "flux", "lead", "pid1", "plan", "process", "rc", "system"].map(Some);
    let first = |module: &ModulePath| module.first().cloned();
    let in_core = |module: &ModulePath| core.contains(&first(module).as_deref());
    let core: Vec<_> = agent.0.iter().filter(|(module, _)| in_core(module)).collect();
    assert!(core.len() > 50, "only {} files", core.len());
    for (module, file) in core {
        let imports = agent.imports(file);
        let wrong = imports.into_iter().find(|it| first(it).as_deref() == Some("commands"));
        assert_eq!(wrong, None, "imported by {module:?}");
    }
}
