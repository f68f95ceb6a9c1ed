//! The files of a crate do not depend on each other in a circle. A module and the files in its folder count as one
//! node: a file's use of its parent module is not a circle.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::platforms::SYSTEMS;
use super::{code, sources};

/// Limit on the depth of re-exports that the check follows.
const MAX_DEPTH: usize = 8;

/// A module as the names of its enclosing modules, outermost first.
type Module = Vec<String>;

/// The paths in one file.
#[derive(Default)]
struct Names {
    /// Paths in its code.
    used: Vec<Vec<String>>,
    /// Paths that it re-exports under its own name.
    reexported: Vec<Vec<String>>,
}

/// The modules of one crate.
type Crate = BTreeMap<Module, Names>;

#[test]
fn files_use_each_other_in_no_circle() {
    let mut wrong = Vec::new();
    for (name, modules) in crates() {
        let uses = modules.keys().map(|module| (module, uses(&modules, module))).collect::<BTreeMap<_, _>>();
        for circle in circles(&uses) {
            let names: Vec<_> = circle.iter().map(|module| module.join("::")).collect();
            wrong.push(format!("{name}: {} use each other", names.join(", ")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// If the target of a re-export counts as a module's use, also for the files inside the module, a circle stays in one
/// folder of its crate.
#[test]
fn modules_with_what_they_hand_on_use_each_other_in_no_circle_of_several_folders() {
    let mut wrong = Vec::new();
    for (name, modules) in crates() {
        let uses = modules.keys().map(|module| (module, handed_on(&modules, module))).collect();
        for circle in circles(&uses) {
            if circle.iter().any(|one| one.first() != circle[0].first()) {
                let names: Vec<_> = circle.iter().map(|module| module.join("::")).collect();
                wrong.push(format!("{name}: {} use each other", names.join(", ")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn circles_are_found() {
    let texts = [
        ("lib", "mod a; mod b; mod c;"),
        ("a", "mod x; use crate::b::Two;\npub use self::x::{One, Other as Third};"),
        ("a/x", "use super::super::c;"),
        ("b", "use crate::a::{\n    self,\n    One,\n};"),
        ("c", "fn f() -> crate::b::Two { crate::a::Third }"),
    ];
    let modules = texts.into_iter().map(|(path, text)| (module(Path::new(path)), names(text))).collect();
    let of = |name: &str| uses(&modules, &vec![name.to_owned()]).into_iter().map(|one| one.join("::"));
    assert_eq!(of("a").collect::<Vec<_>>(), ["a::x", "b"]);
    assert_eq!(of("b").collect::<Vec<_>>(), ["a", "a::x"]);
    assert_eq!(of("c").collect::<Vec<_>>(), ["a::x", "b"]);
    let uses = modules.keys().map(|module| (module, uses(&modules, module))).collect();
    let found = circles(&uses).into_iter().map(|circle| circle.len()).collect::<Vec<_>>();
    assert_eq!(found, [4]);
}

fn crates() -> BTreeMap<String, Crate> {
    let mut crates = BTreeMap::<_, Crate>::new();
    for (file, text) in sources() {
        let mut parts = file.components();
        let name = parts.next().unwrap().as_os_str().to_str().unwrap().to_owned();
        let file = module(parts.as_path().strip_prefix("src").unwrap());
        if file.last().is_none_or(|last| last != "tests") {
            let Names { used, reexported } = names(&text);
            let known = crates.entry(name).or_default().entry(file).or_default();
            known.used.extend(used);
            known.reexported.extend(reexported);
        }
    }
    crates
}

/// The module of a file, by its path in `src`. The crate's own module is empty, and the files of all systems belong
/// to one module.
fn module(file: &Path) -> Module {
    let mut parts: Module =
        file.with_extension("").iter().map(|part| part.to_str().unwrap().to_owned()).collect();
    parts.pop_if(|last| SYSTEMS.contains(&last.as_str()));
    if parts == ["lib"] { Vec::new() } else { parts }
}

/// The paths in the code of a file, without its tests.
fn names(text: &str) -> Names {
    let lines: Vec<_> = code(text).map(|(_, line)| line).collect();
    let lines = lines.split(|line| line.starts_with("#[cfg(test)]")).next().unwrap_or_default();
    let mut names = Names::default();
    for statement in lines.join("\n").split_inclusive(';') {
        let Some(at) = statement.find("use ").filter(|at| is_use(&statement[..*at])) else {
            names.used.extend(plain_paths(statement));
            continue;
        };
        let (before, tree) = statement.split_at(at);
        let paths = expand(tree.trim_start_matches("use ").trim_end_matches(';'));
        if before.lines().last().unwrap_or_default().starts_with("pub") {
            names.reexported.extend(paths.iter().cloned());
        } else {
            names.used.extend(paths);
        }
        names.used.extend(plain_paths(before));
    }
    names
}

/// True if `use` after this text begins an import.
fn is_use(before: &str) -> bool {
    let line = before.lines().last().unwrap_or_default().trim();
    before.ends_with('\n') && line.is_empty()
        || before.is_empty()
        || line.is_empty()
        || line.starts_with("pub")
}

/// The paths in code outside of imports: `a::b`, at least two names. A visibility is not a use.
fn plain_paths(text: &str) -> Vec<Vec<String>> {
    let text: String = text
        .split("(in ")
        .enumerate()
        .map(|(at, part)| part.split_once(')').filter(|_| at > 0).map_or(part, |(_, rest)| rest))
        .collect();
    let words = text.split(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | ':'));
    let paths = words.map(|word| word.split("::").map(str::to_owned).collect::<Vec<_>>());
    paths.filter(|path| path.len() > 1 && !path[0].is_empty()).collect()
}

/// The paths of an import: `a::{self, b as c}` to `a` and `a::b as c`.
fn expand(tree: &str) -> Vec<Vec<String>> {
    let tree = tree.trim();
    let Some((before, list)) = tree.split_once('{') else {
        let path = tree.split("::").map(|name| name.trim().to_owned()).filter(|name| name != "self");
        let first = tree.starts_with("self::").then(|| "self".to_owned());
        return vec![first.into_iter().chain(path).collect()];
    };
    let mut depth = 0;
    let parts = list.trim_end().trim_end_matches('}').split(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    });
    let parts = parts.filter(|part| !part.trim().is_empty());
    parts.flat_map(|part| expand(&format!("{before}{}", part.trim()))).collect()
}

/// The files that a file uses, except its enclosing modules.
fn uses(modules: &Crate, module: &Module) -> BTreeSet<Module> {
    let found = modules[module].used.iter().chain(&modules[module].reexported);
    let found = found.filter_map(|path| target(modules, module, path, 0));
    found.filter(|other| !module.starts_with(other)).collect()
}

/// The files that a file names, except the crate itself; a re-export counts as its target.
fn handed_on(modules: &Crate, module: &Module) -> BTreeSet<Module> {
    let found = modules[module].used.iter().chain(&modules[module].reexported);
    let found = found.filter_map(|path| target(modules, module, path, MAX_DEPTH));
    found.filter(|other| other != module && !other.is_empty()).collect()
}

/// The file that contains the item that `module` calls `path`.
fn target(modules: &Crate, module: &Module, path: &[String], depth: usize) -> Option<Module> {
    let (mut place, mut rest) = start(modules, module, path)?;
    while let Some((first, others)) = rest.split_first() {
        let mut inner = place.clone();
        inner.push(first.clone());
        if modules.contains_key(&inner) {
            (place, rest) = (inner, others);
            continue;
        }
        let is_it = |path: &&Vec<String>| path.last().is_some_and(|last| own_name(last) == *first);
        let handed_on = modules.get(&place)?.reexported.iter().filter(is_it).find(|_| depth < MAX_DEPTH);
        let origin = handed_on.and_then(|path| target(modules, &place, path, depth + 1));
        return Some(origin.unwrap_or(place));
    }
    Some(place)
}

/// The start of a path and its remaining names; `None` for a path into another crate.
fn start<'a>(modules: &Crate, module: &Module, path: &'a [String]) -> Option<(Module, &'a [String])> {
    let (first, rest) = path.split_first()?;
    match first.as_str() {
        "crate" => Some((Vec::new(), rest)),
        "self" => Some((module.clone(), rest)),
        "super" => {
            let up = path.iter().take_while(|name| *name == "super").count();
            Some((module[..module.len().checked_sub(up)?].to_vec(), &path[up..]))
        }
        child => {
            let mut inner = module.clone();
            inner.push(child.to_owned());
            modules.contains_key(&inner).then_some((inner, rest))
        }
    }
}

/// The name that an import gives: `b` of `b`, `c` of `b as c`.
fn own_name(name: &str) -> &str {
    name.rsplit(" as ").next().unwrap_or(name)
}

/// Groups of modules that reach each other.
fn circles<'a>(uses: &BTreeMap<&'a Module, BTreeSet<Module>>) -> BTreeSet<Vec<&'a Module>> {
    let reached = |from: &'a Module| {
        let (mut open, mut reached) = (vec![from], BTreeSet::new());
        while let Some(next) = open.pop() {
            for other in &uses[next] {
                let (&other, _) = uses.get_key_value(other).expect("every target is a module");
                if reached.insert(other) {
                    open.push(other);
                }
            }
        }
        reached
    };
    let all: BTreeMap<_, _> = uses.keys().map(|module| (*module, reached(module))).collect();
    let circle =
        |module: &Module| all[module].iter().copied().filter(|other| all[other].contains(module)).collect();
    all.keys().map(|module| circle(module)).filter(|circle: &Vec<_>| !circle.is_empty()).collect()
}
