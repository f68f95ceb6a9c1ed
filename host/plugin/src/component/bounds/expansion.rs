//! The size of a component after the instantiation of everything in it. A component that instantiates another
//! one twice, which also instantiates another one twice, … has a million instances of the last one in some
//! hundred bytes, and the compiler visits all of them.

use wasmparser::{
    CanonicalFunction, ComponentAlias, ComponentExternalKind, ComponentInstance, ComponentOuterAliasKind,
    ComponentTypeRef, Encoding, Instance, Payload,
};

/// The expanded size of an instance of a component.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Whole {
    pub(super) instances: u64,
    pub(super) canonical: u64,
    /// Bytes of types, for each function that is lowered.
    pub(super) passed: u64,
}

impl Whole {
    fn add(&mut self, other: Self) {
        self.instances = self.instances.saturating_add(other.instances);
        self.canonical = self.canonical.saturating_add(other.canonical);
        self.passed = self.passed.saturating_add(other.passed);
    }
}

/// A component during the reading, or its module.
#[derive(Default)]
struct Frame {
    is_module: bool,
    /// The components that this component can instantiate, by index.
    components: Vec<Whole>,
    whole: Whole,
    lowered: u64,
    /// Size in bytes of the component's own types, and of the surrounding ones that it uses.
    types: u64,
    outer: u64,
}

/// The components that are read, the outermost first.
#[derive(Default)]
pub(super) struct Expansion {
    frames: Vec<Frame>,
    root: Whole,
}

impl Expansion {
    /// Returns the expanded size of the outermost component, after everything was read.
    pub(super) fn whole(&self) -> Whole {
        self.root
    }

    /// Reads the next part of the file.
    ///
    /// # Errors
    /// The component passes components as values, so that their number is unknown.
    pub(super) fn read(&mut self, payload: &Payload<'_>) -> Result<(), wasmtime::Error> {
        match payload {
            Payload::Version { encoding, .. } => {
                self.frames.push(Frame { is_module: *encoding == Encoding::Module, ..Frame::default() });
            }
            Payload::End(_) => self.end(),
            Payload::ComponentImportSection(imports) => {
                let is_component = |import: wasmparser::ComponentImport<'_>| {
                    matches!(import.ty, ComponentTypeRef::Component(_))
                };
                let found = imports.clone().into_iter().map_while(Result::ok).any(is_component);
                wasmtime::ensure!(!found, "it imports a component, which is not supported");
            }
            Payload::ComponentAliasSection(aliases) => {
                for alias in aliases.clone().into_iter().map_while(Result::ok) {
                    self.alias(&alias)?;
                }
            }
            payload => self.own(payload),
        }
        Ok(())
    }

    fn end(&mut self) {
        let Some(Frame { mut whole, lowered, types, outer, is_module, .. }) = self.frames.pop() else {
            return;
        };
        whole.passed = whole.passed.saturating_add(lowered.saturating_mul(types.saturating_add(outer)));
        match self.frames.last_mut() {
            Some(_) if is_module => {}
            Some(parent) => parent.components.push(whole),
            None => self.root = whole,
        }
    }

    fn alias(&mut self, alias: &ComponentAlias<'_>) -> Result<(), wasmtime::Error> {
        let above = |count: u32| self.frames.iter().nth_back(count as usize);
        match *alias {
            ComponentAlias::InstanceExport { kind: ComponentExternalKind::Component, .. } => {
                wasmtime::bail!("it takes a component out of an instance, which is not supported")
            }
            ComponentAlias::Outer { kind: ComponentOuterAliasKind::Component, count, index } => {
                let found = above(count).and_then(|frame| frame.components.get(index as usize)).copied();
                if let Some(frame) = self.frames.last_mut() {
                    frame.components.push(found.unwrap_or_default());
                }
            }
            ComponentAlias::Outer { kind: ComponentOuterAliasKind::Type, count, .. } if count > 0 => {
                let types = above(count).map_or(0, |frame| frame.types.saturating_add(frame.outer));
                if let Some(frame) = self.frames.last_mut() {
                    frame.outer = frame.outer.max(types);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Adds the parts of the innermost component alone.
    fn own(&mut self, payload: &Payload<'_>) {
        let Some(frame) = self.frames.last_mut() else { return };
        match payload {
            Payload::ComponentTypeSection(types) => {
                frame.types += types.range().end - types.range().start;
            }
            Payload::InstanceSection(instances) => {
                let all = instances.clone().into_iter().map_while(Result::ok);
                let made = all.filter(|instance| matches!(instance, Instance::Instantiate { .. }));
                frame.whole.instances += made.count() as u64;
            }
            Payload::ComponentInstanceSection(instances) => {
                for instance in instances.clone().into_iter().map_while(Result::ok) {
                    frame.instantiate(&instance);
                }
            }
            Payload::ComponentCanonicalSection(functions) => {
                for function in functions.clone().into_iter().map_while(Result::ok) {
                    frame.whole.canonical += 1;
                    frame.lowered += u64::from(matches!(function, CanonicalFunction::Lower { .. }));
                }
            }
            Payload::ComponentExportSection(exports) => {
                let all = exports.clone().into_iter().map_while(Result::ok);
                for export in all.filter(|export| export.kind == ComponentExternalKind::Component) {
                    let again = frame.components.get(export.index as usize).copied();
                    frame.components.push(again.unwrap_or_default());
                }
            }
            _ => {}
        }
    }
}

impl Frame {
    fn instantiate(&mut self, instance: &ComponentInstance<'_>) {
        let ComponentInstance::Instantiate { component_index, .. } = instance else { return };
        let whole = self.components.get(*component_index as usize).copied().unwrap_or_default();
        self.whole.add(whole);
        self.whole.instances += 1;
    }
}
