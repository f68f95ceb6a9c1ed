//! Bounds of a component, checked before compilation. wasmtime reads types by unbounded recursion, so that a file
//! of some hundred kilobytes would crash the process; some files of one kilobyte need gigabytes. The cost of
//! compilation is therefore estimated from the file, and an excessive cost is refused.

use std::collections::BTreeMap;

use wasmparser::{
    CanonicalFunction, ComponentAlias, ComponentExternalKind, ComponentInstance, ComponentOuterAliasKind,
    ComponentTypeRef, Encoding, FunctionBody, Instance, Operator, Parser, Payload,
};

/// Maximum number of functions of all modules: half a gigabyte while they are compiled.
const MAX_FUNCTIONS: u64 = 80_000;
/// Maximum estimate of the compiler's memory in bytes: a third more than for the official TypeScript SDK with its
/// engine, the largest tested component.
const MAX_ESTIMATE: u64 = 3 << 29;

/// A part of a component, and the memory for compiling it, in bytes. Measured with the most expensive parts of
/// their kind, in components that have nothing else; twice that for kinds that are rare in real programs.
#[derive(Clone, Copy)]
struct Part(&'static str, u64);

/// The file, which is read, stripped, compiled and stored.
const FILE: Part = Part("bytes", 4);
const FUNCTION: Part = Part("functions", 6 << 10);
const CODE: Part = Part("bytes of code", 26);
/// An unused local variable takes time but no memory.
const LOCAL: Part = Part("local variables", 4);
const CALL: Part = Part("calls", 170);
/// A call through a table, or an instruction for a table or memory that becomes such a call.
const INDIRECT: Part = Part("indirect calls", 1 << 10);
/// The memory in bytes of the largest functions beyond the usual. It is released after each compilation, so only as
/// many count as are compiled concurrently.
const WORK: &str = "largest functions";
/// Number of concurrently compiled functions, on a machine with as many processors.
const AT_ONCE: usize = 4;
/// Each becomes a page, twice.
const SEGMENT: Part = Part("data segments", 18 << 10);
const MODULE: Part = Part("modules", 14 << 10);
const INSTANCE: Part = Part("instances, with those in what is instantiated more than once", 10 << 10);
/// A byte of a type, once for each lowered function that may need code to pass values of it.
const PASSED: Part = Part("types of functions between components", 60);

/// The cost of compiling a component.
#[derive(Default)]
struct Estimate {
    parts: BTreeMap<&'static str, u64>,
    largest: [u64; AT_ONCE],
}

impl Estimate {
    fn add(&mut self, Part(name, each): Part, count: u64) {
        let bytes = self.parts.entry(name).or_default();
        *bytes = bytes.saturating_add(count.saturating_mul(each));
    }

    fn at_once(&mut self, bytes: u64) {
        let mut bytes = bytes;
        for largest in &mut self.largest {
            if bytes > *largest {
                std::mem::swap(largest, &mut bytes);
            }
        }
        let sum = self.largest.iter().fold(0_u64, |sum, bytes| sum.saturating_add(*bytes));
        self.parts.insert(WORK, sum);
    }

    /// Checks the estimate.
    /// Errors: The estimate is too large; the error names its largest part.
    fn check(&self) -> Result<(), wasmtime::Error> {
        let sum = self.parts.values().fold(0_u64, |sum, bytes| sum.saturating_add(*bytes));
        let most = self.parts.iter().max_by_key(|(_, bytes)| **bytes).map_or("", |(name, _)| *name);
        wasmtime::ensure!(
            sum <= MAX_ESTIMATE,
            "compiling it would take more than {} MiB of memory, most of it for its {most}",
            MAX_ESTIMATE >> 20
        );
        Ok(())
    }
}

/// Reads every type of `bytes` with a parser that has a bound of 100 levels, and estimates the cost of the
/// compilation.
/// Errors: A type cannot be read, or the cost is excessive. wasmtime reports other errors in the file, with better
/// messages.
pub(crate) fn check(bytes: &[u8]) -> Result<(), wasmtime::Error> {
    let (mut estimate, mut expansion, mut functions) = (Estimate::default(), Expansion::default(), 0_u64);
    estimate.add(FILE, bytes.len() as u64);
    for payload in Parser::new(0).parse_all(bytes).map_while(Result::ok) {
        expansion.read(&payload)?;
        match payload {
            Payload::ComponentTypeSection(types) => types.into_iter().try_for_each(|read| read.map(drop))?,
            Payload::CoreTypeSection(types) => types.into_iter().try_for_each(|read| read.map(drop))?,
            Payload::FunctionSection(own) => functions += u64::from(own.count()),
            Payload::ModuleSection { .. } => estimate.add(MODULE, 1),
            Payload::DataSection(data) => estimate.add(SEGMENT, data.count().into()),
            Payload::CodeSectionEntry(body) => add(&mut estimate, &body),
            _ => {}
        }
        estimate.check()?;
    }
    let whole = expansion.whole();
    functions = functions.saturating_add(whole.canonical);
    wasmtime::ensure!(functions <= MAX_FUNCTIONS, "it has more than {MAX_FUNCTIONS} functions");
    estimate.add(FUNCTION, functions);
    estimate.add(INSTANCE, whole.instances);
    estimate.add(PASSED, whole.passed);
    estimate.check()
}

/// Memory in bytes that the compilation of a function uses without being counted: few are compiled concurrently,
/// and their memory is released.
const USUAL: u64 = 16 << 20;

#[derive(Default)]
struct Counts {
    calls: u64,
    indirect: u64,
    edges: u64,
    writes: u64,
}

/// Adds the cost of compiling `body`. An unreadable body ends the estimate, because it is not a part of a
/// component.
fn add(estimate: &mut Estimate, body: &FunctionBody<'_>) {
    let range = body.range();
    let bytes = range.end - range.start;
    let locals = locals(body);
    let counts = counts(body);
    estimate.add(CODE, bytes);
    estimate.add(LOCAL, locals);
    estimate.add(CALL, counts.calls);
    estimate.add(INDIRECT, counts.indirect);
    // At each join of the control flow every written variable may need a new value.
    let joins = locals.min(counts.writes).saturating_mul(counts.edges);
    let work = 150 * bytes + 750 * counts.calls + 7000 * counts.indirect + 500 * counts.edges;
    estimate.at_once(work.saturating_add(joins.saturating_mul(300)).saturating_sub(USUAL));
}

fn locals(body: &FunctionBody<'_>) -> u64 {
    let groups = body.get_locals_reader().into_iter().flatten().map_while(Result::ok);
    groups.map(|(count, _)| u64::from(count)).sum()
}

fn counts(body: &FunctionBody<'_>) -> Counts {
    let mut counts = Counts::default();
    let operators = body.get_operators_reader().into_iter().flatten();
    operators.map_while(Result::ok).for_each(|operator| counts.count(&operator));
    counts
}

impl Counts {
    fn count(&mut self, operator: &Operator<'_>) {
        match operator {
            Operator::Block { .. }
            | Operator::Loop { .. }
            | Operator::If { .. }
            | Operator::Else
            | Operator::Br { .. }
            | Operator::BrIf { .. } => self.edges += 1,
            Operator::BrTable { targets } => self.edges += u64::from(targets.len()) + 1,
            Operator::LocalSet { .. } | Operator::LocalTee { .. } => self.writes += 1,
            Operator::Call { .. } | Operator::ReturnCall { .. } => self.calls += 1,
            Operator::CallIndirect { .. }
            | Operator::ReturnCallIndirect { .. }
            | Operator::MemoryCopy { .. }
            | Operator::MemoryFill { .. }
            | Operator::MemoryInit { .. }
            | Operator::MemoryGrow { .. }
            | Operator::TableGet { .. }
            | Operator::TableSet { .. }
            | Operator::TableGrow { .. }
            | Operator::TableFill { .. }
            | Operator::TableCopy { .. }
            | Operator::TableInit { .. } => self.indirect += 1,
            _ => {}
        }
    }
}

// The size of a component after the instantiation of everything in it. A component that instantiates another one twice,
// which also instantiates another one twice, … has a million instances of the last one in some hundred bytes, and the
// compiler visits all of them.

/// The expanded size of an instance of a component.
#[derive(Clone, Copy, Debug, Default)]
struct Whole {
    instances: u64,
    canonical: u64,
    /// Bytes of types, for each function that is lowered.
    passed: u64,
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
struct Expansion {
    frames: Vec<Frame>,
    root: Whole,
}

impl Expansion {
    /// Returns the expanded size of the outermost component, after everything was read.
    fn whole(&self) -> Whole {
        self.root
    }

    /// Reads the next part of the file.
    /// Errors: The component passes components as values, so that their number is unknown.
    fn read(&mut self, payload: &Payload<'_>) -> Result<(), wasmtime::Error> {
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

#[cfg(test)]
pub(crate) mod tests {
    use super::check;

    /// Returns component types nested `depth` levels deep.
    pub(crate) fn nested(depth: usize) -> Vec<u8> {
        let mut types = b"\x41\x01\x01".repeat(depth);
        types.extend(b"\x41\x00");
        [b"\0asm\x0d\0\x01\0".to_vec(), section(7, 1, &types)].concat()
    }

    fn number(mut number: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        while number > 127 {
            bytes.push(u8::try_from(number & 127).unwrap() | 128);
            number >>= 7;
        }
        bytes.push(u8::try_from(number).unwrap());
        bytes
    }

    /// Returns a section with `count` of something.
    fn section(id: u8, count: usize, all: &[u8]) -> Vec<u8> {
        let content = [&number(count), all].concat();
        [&[id], &*number(content.len()), &content].concat()
    }

    /// Returns a module with `count` functions of 50,000 variables each.
    fn locals(count: usize) -> Vec<u8> {
        let body = [&[1], &*number(50_000), b"\x7f\x0b"].concat();
        let body = [number(body.len()), body].concat();
        let types = section(1, 1, b"\x60\0\0");
        let functions = section(3, count, &vec![0; count]);
        [b"\0asm\x01\0\0\0".to_vec(), types, functions, section(10, count, &body.repeat(count))].concat()
    }

    /// WA04: types nest to a limit; a component beyond it is refused, on a small stack.
    #[test]
    fn types_nest_so_deep_and_no_deeper() {
        let read = || {
            check(&nested(50)).unwrap();
            assert!(check(&nested(200_000)).unwrap_err().to_string().contains("nest"));
        };
        std::thread::Builder::new().stack_size(2 << 20).spawn(read).unwrap().join().unwrap();
    }

    /// Returns the text of a component with a number of elements.
    type Shape<'a> = &'a dyn Fn(usize) -> String;

    fn refusal(text: &str) -> Option<String> {
        check(&wat::parse_str(text).unwrap()).err().map(|error| error.to_string())
    }

    /// X12: a component that takes gigabytes to compile is refused, regardless of the excessive part.
    #[test]
    fn what_compiling_takes_is_bounded() {
        let module = |fields: &str| format!("(component (core module {fields}))");
        let function =
            |code: &str| module(&format!("(memory 1) (table 1 funcref) (func (local i32) {code})"));
        let doubled = |count: usize| {
            let inner = "(component $a0 (core module $m) (core instance (instantiate $m)))".to_owned();
            let levels = (0..count).map(|n| {
                let twice = "(instance (instantiate $a))".repeat(2);
                format!("(component $a{} (alias outer 1 $a{n} (component $a)) {twice})", n + 1)
            });
            let all: String = std::iter::once(inner).chain(levels).collect();
            format!("(component {all} (instance (instantiate $a{count})))")
        };
        let joins = |count: usize| {
            let writes: String = (0..count).map(|n| format!("(local.set {n} (i32.const 1))")).collect();
            let blocks = "block ".repeat(count) + &"end ".repeat(count);
            module(&format!("(func (local {}) {writes} {blocks})", "i32 ".repeat(count)))
        };
        let segments = |count: usize| {
            let all: String = (0..count).map(|n| format!("(data (i32.const {}) \"a\")", n * 4096)).collect();
            module(&format!("(memory 9999) {all}"))
        };
        let shapes: [(&str, Shape<'_>, usize, usize); 5] = [
            ("data segments", &segments, 20_000, 95_000),
            ("instances", &doubled, 8, 30),
            ("largest functions", &joins, 300, 2500),
            ("largest functions", &|n| function(&"(call_indirect (i32.const 0))".repeat(n)), 20_000, 200_000),
            ("functions", &|n| module(&"(func)".repeat(n)), 1000, 81_000),
        ];
        for (what, shape, few, many) in shapes {
            assert_eq!(refusal(&shape(few)), None, "{what}");
            let refused = refusal(&shape(many)).unwrap_or_else(|| panic!("{what} are let through"));
            assert!(refused.contains(what), "{what}: {refused}");
        }
        check(&locals(100)).unwrap();
        assert!(check(&locals(9000)).unwrap_err().to_string().contains("local variables"));
        let passed = "(component (import \"c\" (component)))";
        assert!(refusal(passed).unwrap().contains("imports a component"));
    }
}
