//! The exported functions of a component that can be tools: without those of toolchains and without standard interfaces
//! that other hosts call.

use wasmtime::component::types::{ComponentFunc, ComponentItem};
use wasmtime::component::{Component, ComponentExportIndex};

use super::names;
use crate::component::listing::Uncallable;
use crate::contract::offers;

/// Functions of a component, those of resources included.
const MAX_FUNCTIONS: usize = 10_000;

/// What a component exports that could be called.
pub(super) struct Exports {
    pub(super) functions: Vec<Exported>,
    /// Resources, whose methods are no tools.
    pub(super) resources: Vec<Uncallable>,
    /// Functions beyond [`MAX_FUNCTIONS`].
    pub(super) beyond: usize,
}

/// One function.
pub(super) struct Exported {
    /// The tool's name.
    pub(super) name: String,
    /// The interface, with package and version; none for a function of the world itself.
    pub(super) interface: Option<String>,
    /// The function's own name.
    pub(super) function: String,
    pub(super) ty: ComponentFunc,
}

/// Whether an export is no tool's: a standard interface that hosts of other kinds call, what a
/// toolchain needs for itself, or a method of a resource.
pub(super) fn is_hidden(name: &str) -> bool {
    ["wasi:", "cabi_", "_", "["].iter().any(|beginning| name.starts_with(beginning))
        || offers::is_interface(name)
}

/// The interface by which componentize-py starts its interpreter.
const PYTHON: &str = "exports";

/// Whether a function of the world itself is the one by which componentize-qjs starts its interpreter.
fn starts_interpreter(name: &str, ty: &ComponentFunc) -> bool {
    name == "init" && ty.params().map(|(name, _)| name).take(2).eq(["shim", "script"])
}

impl Exports {
    /// Looks through the exports of a component.
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
                        "is a resource of `{interface}`: its {} functions need one that outlives a call, and nothing in a plugin does",
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
        let names = names::unique_names(&functions);
        self.functions.iter_mut().zip(names).for_each(|(exported, name)| exported.name = name);
    }
}

impl Exported {
    /// Where the function is in a component.
    pub(super) fn index(&self, component: &Component) -> Option<ComponentExportIndex> {
        let interface = match &self.interface {
            Some(name) => Some(component.get_export_index(None, name)?),
            None => None,
        };
        component.get_export_index(interface.as_ref(), &self.function)
    }
}
