//! The exported functions of a component that can be tools: excludes functions of toolchains and standard
//! interfaces that other hosts call.

use std::collections::HashMap;

use wasmtime::component::types::{ComponentFunc, ComponentItem};
use wasmtime::component::{Component, ComponentExportIndex};

use crate::component::listing::Uncallable;
use crate::contract::offers;
use haft_core::tool::exposed_name;

/// Maximum number of functions of a component, including those of resources.
const MAX_FUNCTIONS: usize = 10_000;

pub(super) struct Exports {
    pub(super) functions: Vec<Exported>,
    /// Resources, whose methods are no tools.
    pub(super) resources: Vec<Uncallable>,
    /// Functions beyond [`MAX_FUNCTIONS`].
    pub(super) beyond: usize,
}

pub(super) struct Exported {
    pub(super) name: String,
    /// The interface, with package and version; none for a function of the world itself.
    pub(super) interface: Option<String>,
    pub(super) function: String,
    pub(super) ty: ComponentFunc,
}

/// Returns whether an export is not a tool's: a standard interface that other kinds of hosts call, a toolchain's
/// own function, or a method of a resource.
pub(super) fn is_hidden(name: &str) -> bool {
    ["wasi:", "cabi_", "_", "["].iter().any(|beginning| name.starts_with(beginning))
        || offers::is_interface(name)
}

/// The interface by which componentize-py starts its interpreter.
const PYTHON: &str = "exports";

/// Returns whether componentize-qjs starts its interpreter with this function of the world.
fn starts_interpreter(name: &str, ty: &ComponentFunc) -> bool {
    name == "init" && ty.params().map(|(name, _)| name).take(2).eq(["shim", "script"])
}

impl Exports {
    pub(super) fn from_component(engine: &wasmtime::Engine, component: &Component) -> Self {
        let mut found = Self { functions: Vec::new(), resources: Vec::new(), beyond: 0 };
        let exports = component.component_type();
        for (name, item) in exports.exports(engine).filter(|(name, _)| !is_hidden(name)) {
            match item.ty {
                ComponentItem::ComponentFunc(ty) if !starts_interpreter(name, &ty) => {
                    found.add_function(None, name, ty);
                }
                ComponentItem::ComponentInstance(instance) if name != PYTHON => {
                    let items = instance.exports(engine).map(|(own, item)| (own.to_owned(), item.ty));
                    found.add_interface(name, &items.collect::<Vec<_>>());
                }
                _ => {}
            }
        }
        found.assign_names();
        found
    }

    fn add_interface(&mut self, interface: &str, items: &[(String, ComponentItem)]) {
        let methods = |resource: &str| {
            let of = |name: &str| {
                let rest = name.strip_prefix('[')?.split_once(']')?.1;
                Some(rest.split('.').next() == Some(resource))
            };
            items.iter().filter(|(name, _)| of(name) == Some(true)).count()
        };
        for (name, item) in items {
            match item {
                ComponentItem::ComponentFunc(ty) if !is_hidden(name) => {
                    self.add_function(Some(interface), name, ty.clone());
                }
                ComponentItem::Resource(_) if methods(name) > 0 => self.resources.push(Uncallable {
                    name: name.clone(),
                    reason: format!(
                        "is a resource of `{interface}`: its {} functions need a resource that outlives a \
                         call, which plugins do not have",
                        methods(name)
                    ),
                }),
                _ => {}
            }
        }
    }

    fn add_function(&mut self, interface: Option<&str>, function: &str, ty: ComponentFunc) {
        if self.functions.len() >= MAX_FUNCTIONS {
            self.beyond += 1;
            return;
        }
        let interface = interface.map(str::to_owned);
        self.functions.push(Exported { name: String::new(), interface, function: function.to_owned(), ty });
    }

    fn assign_names(&mut self) {
        let functions: Vec<(Option<&str>, &str)> = self
            .functions
            .iter()
            .map(|exported| (exported.interface.as_deref(), exported.function.as_str()))
            .collect();
        let names = unique_names(&functions);
        self.functions.iter_mut().zip(names).for_each(|(exported, name)| exported.name = name);
    }
}

impl Exported {
    pub(super) fn index(&self, component: &Component) -> Option<ComponentExportIndex> {
        let interface = match &self.interface {
            Some(name) => Some(component.get_export_index(None, name)?),
            None => None,
        };
        component.get_export_index(interface.as_ref(), &self.function)
    }
}

// Tool names for the functions of a component: the WIT name, with the interface as prefix only if two names would
// be equal. The names of a component are deterministic.

/// Number of levels of a name's prefix, from none to complete.
const LEVELS: usize = 5;

/// Returns the names of functions, given as interface (with package and version; none for the world's own) and
/// function.
pub(super) fn unique_names(functions: &[(Option<&str>, &str)]) -> Vec<String> {
    let mut levels = vec![0; functions.len()];
    for _ in 1..LEVELS {
        let names = named(functions, &levels);
        let mut count: HashMap<&str, usize> = HashMap::new();
        for name in &names {
            *count.entry(name).or_default() += 1;
        }
        let mut is_unique = true;
        for ((name, level), (interface, _)) in names.iter().zip(&mut levels).zip(functions) {
            // The name of a function of the world itself has no further level.
            if interface.is_some() && count.get(name.as_str()).is_some_and(|count| *count > 1) {
                (*level, is_unique) = (*level + 1, false);
            }
        }
        if is_unique {
            break;
        }
    }
    named(functions, &levels)
}

fn named(functions: &[(Option<&str>, &str)], levels: &[usize]) -> Vec<String> {
    let name = |((interface, function), level): (&(Option<&str>, &str), &usize)| {
        let origin = interface.and_then(|interface| origin(interface, *level));
        match origin {
            Some(origin) => exposed_name(&[&origin, function]),
            None => exposed_name(&[function]),
        }
    };
    functions.iter().zip(levels).map(name).collect()
}

/// Returns the part of a name for an interface: `geometry`, `shapes-geometry`, `acme-shapes-geometry`, or the
/// complete name, which becomes a hash.
fn origin(interface: &str, level: usize) -> Option<String> {
    let (path, _version) = interface.split_once('@').unwrap_or((interface, ""));
    let (package, short) = path.rsplit_once('/').unwrap_or(("", path));
    let (namespace, package) = package.rsplit_once(':').unwrap_or(("", package));
    let join = |parts: &[&str]| {
        let parts: Vec<&str> = parts.iter().copied().filter(|part| !part.is_empty()).collect();
        parts.join("-")
    };
    match level {
        0 => None,
        1 => Some(short.to_owned()),
        2 => Some(join(&[package, short])),
        3 => Some(join(&[namespace, package, short])),
        _ => Some(interface.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interface_comes_between_only_where_two_would_collide() {
        let names = unique_names(&[
            (Some("acme:shapes/circle@1.0.0"), "area"),
            (Some("acme:shapes/square@1.0.0"), "area"),
            (Some("acme:shapes/square@1.0.0"), "corner-count"),
            (None, "area"),
            (None, "draw"),
        ]);
        assert_eq!(names, ["circle__area", "square__area", "corner-count", "area", "draw"]);
    }

    #[test]
    fn what_collides_all_the_same_says_more() {
        let names = unique_names(&[(Some("acme:shapes/circle"), "area"), (Some("acme:maps/circle"), "area")]);
        assert_eq!(names, ["shapes-circle__area", "maps-circle__area"]);
        let names =
            unique_names(&[(Some("acme:shapes/circle"), "area"), (Some("other:shapes/circle"), "area")]);
        assert_eq!(names, ["acme-shapes-circle__area", "other-shapes-circle__area"]);
        let names = unique_names(&[(Some("a:b/c@1.0.0"), "f"), (Some("a:b/c@2.0.0"), "f")]);
        assert_ne!(names[0], names[1]);
        assert!(names.iter().all(|name| exposed_name(&[name]) == *name), "{names:?}");
    }

    #[test]
    fn long_names_are_shortened_and_stay_apart() {
        let (one, two) = ("x".repeat(100) + "a", "x".repeat(100) + "b");
        let names = unique_names(&[(None, &one), (None, &two)]);
        assert!(names[0] != names[1] && names.iter().all(|name| name.len() <= 64));
    }
}
