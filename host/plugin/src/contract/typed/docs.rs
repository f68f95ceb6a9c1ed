//! The documentation of a component's functions and types, from its WIT: the section `haft:wit`, or the file `NAME.wit`
//! beside the component. Types are never taken from there.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;

use wit_parser::decoding::DecodedWasm;
use wit_parser::{
    Function, InterfaceId, Resolve, Type, TypeDef, TypeDefKind, TypeId, UnresolvedPackage,
    UnresolvedPackageGroup, World, WorldItem, WorldKey,
};

use super::paragraphs::{Annotations, Paragraphs};
use crate::component::sections::{Sections, WIT_SECTION};
use haft_core::net::one_line;

/// Type aliases that are followed before the search for documentation ends.
const MAX_ALIASES: usize = 8;

/// Maximum number of characters of the documentation of one type, field, case or parameter.
const MAX_TEXT: usize = 2000;

/// Maximum number of functions whose documentation is kept.
const MAX_FUNCTIONS: usize = 10_000;

/// The documentation of a component's functions.
#[derive(Default)]
pub(super) struct Docs {
    sources: Vec<WitPackage>,
    /// The place of each function's documentation: by the name and version of the interface (`None` for a function of
    /// the world), and by the name of the function.
    functions: BTreeMap<(Option<String>, String), (usize, Function)>,
}

enum WitPackage {
    /// The complete WIT from a section.
    Decoded(Box<Resolve>),
    /// From a text: what other packages define does not exist.
    Parsed(Box<UnresolvedPackage>),
}

pub(super) struct FunctionDocs<'a> {
    source: &'a WitPackage,
    function: &'a Function,
    annotations: Annotations,
    paragraphs: Paragraphs,
}

/// The documentation of a type at one place of use; often empty.
#[derive(Clone, Copy, Default)]
pub(super) struct TypeDocs<'a> {
    source: Option<&'a WitPackage>,
    ty: Option<Type>,
    /// The documentation of the use itself, as of a field.
    own: Option<&'a str>,
}

impl Docs {
    /// Reads the documentation of a component: from its own sections, otherwise from the WIT file beside it. A
    /// problem is logged, and the functions are listed without documentation.
    pub(super) fn read(sections: &Sections, sibling_wit: Option<&str>) -> Self {
        let (docs, problems) = Self::decode(&sections.wit);
        let problems = problems.iter().map(|problem| format!("its section `{WIT_SECTION}`: {problem}"));
        for problem in sections.problems.iter().cloned().chain(problems) {
            tracing::warn!("the documentation of a plugin cannot be used: {problem}");
        }
        match sibling_wit.filter(|_| docs.is_empty()) {
            Some(sibling_wit) => Self::parse(sibling_wit).unwrap_or_else(|problem| {
                tracing::warn!("the documentation beside a plugin cannot be used: {problem}");
                Self::default()
            }),
            None => docs,
        }
    }

    /// Decodes WIT packages in binary form; of several that document a function the first counts. The second value
    /// lists what could not be decoded.
    fn decode(packages: &[Vec<u8>]) -> (Self, Vec<String>) {
        let (mut docs, mut problems) = (Self::default(), Vec::new());
        for package in packages {
            match decode(package) {
                Ok(resolve) => docs.add(WitPackage::Decoded(Box::new(resolve))),
                Err(problem) => problems.push(problem),
            }
        }
        (docs, problems)
    }

    /// Reads a WIT package as people write it. Packages it refers to need not be there.
    fn parse(text: &str) -> Result<Self, String> {
        if is_too_deep(text) {
            return Err("it nests too deep".into());
        }
        let parsed = catch_panic(|| UnresolvedPackageGroup::parse("the WIT", text));
        let group =
            parsed.ok_or("its parser failed")?.map_err(|(map, error)| one_line(&error.render(&map)))?;
        let mut docs = Self::default();
        for package in std::iter::once(group.main).chain(group.nested) {
            docs.add(WitPackage::Parsed(Box::new(package)));
        }
        Ok(docs)
    }

    fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// Returns the documentation of a function of `interface`, or of the world itself.
    pub(super) fn function(&self, interface: Option<&str>, function: &str) -> Option<FunctionDocs<'_>> {
        let key = |interface: Option<&str>| (interface.map(str::to_owned), function.to_owned());
        let unversioned = interface.map(|name| name.split('@').next().unwrap_or(name));
        let found = self.functions.get(&key(interface)).or_else(|| self.functions.get(&key(unversioned)));
        let (source, function) = found?;
        let names: Vec<&str> = function.params.iter().map(|param| param.name.as_str()).collect();
        let text = function.docs.contents.as_deref().unwrap_or_default();
        let (annotations, text) = Annotations::take(text);
        let paragraphs = Paragraphs::parse(&text, &names);
        Some(FunctionDocs { source: self.sources.get(*source)?, function, annotations, paragraphs })
    }

    fn add(&mut self, source: WitPackage) {
        let index = self.sources.len();
        for (interface, function) in source.functions() {
            if self.functions.len() >= MAX_FUNCTIONS {
                break;
            }
            let name = function.name.clone();
            // A component may have been built from another version of a package than is written about.
            if let Some((unversioned, _)) = interface.as_deref().and_then(|name| name.split_once('@')) {
                let key = (Some(unversioned.to_owned()), name.clone());
                self.functions.entry(key).or_insert_with(|| (index, function.clone()));
            }
            self.functions.entry((interface, name)).or_insert((index, function));
        }
        self.sources.push(source);
    }
}

fn decode(package: &[u8]) -> Result<Resolve, String> {
    let decoded = catch_panic(|| wit_parser::decoding::decode(package)).ok_or("its decoder failed")?;
    match decoded.map_err(|error| one_line(&format!("{error:#}")))? {
        DecodedWasm::WitPackage(resolve, _) => Ok(resolve),
        DecodedWasm::Component(..) => Err("it is a component, not a WIT package".into()),
    }
}

/// Runs a parser on untrusted input; `None` if it panics.
fn catch_panic<T>(read: impl FnOnce() -> T) -> Option<T> {
    std::panic::catch_unwind(AssertUnwindSafe(read)).ok()
}

impl WitPackage {
    /// Returns every function, with the name of its interface.
    fn functions(&self) -> Vec<(Option<String>, Function)> {
        match self {
            Self::Decoded(resolve) => {
                let named = resolve.interfaces.iter().filter_map(|(id, _)| Some((id, resolve.id_of(id)?)));
                self.all(named.collect(), resolve.worlds.iter().map(|(_, world)| world))
            }
            Self::Parsed(package) => {
                let id = |name: &String| package.name.interface_id(name);
                let named = package.interfaces.iter();
                let named =
                    named.filter_map(|(own, interface)| Some((own, interface.name.as_ref().map(id)?)));
                self.all(named.collect(), package.worlds.iter().map(|(_, world)| world))
            }
        }
    }

    fn all<'a>(
        &self,
        named: Vec<(InterfaceId, String)>,
        worlds: impl Iterator<Item = &'a World>,
    ) -> Vec<(Option<String>, Function)> {
        let mut functions = Vec::new();
        for (id, name) in named {
            self.functions_of(id, &name, &mut functions);
        }
        for (key, item) in worlds.flat_map(|world| &world.exports) {
            match (key, item) {
                (_, WorldItem::Function(function)) => functions.push((None, function.clone())),
                (WorldKey::Name(name), WorldItem::Interface { id, .. }) => {
                    self.functions_of(*id, name, &mut functions);
                }
                _ => {}
            }
        }
        functions
    }

    fn functions_of(&self, id: InterfaceId, name: &str, into: &mut Vec<(Option<String>, Function)>) {
        let interface = match self {
            Self::Decoded(resolve) => resolve.interfaces.get(id),
            Self::Parsed(package) => package.interfaces.get(id),
        };
        let functions = interface.into_iter().flat_map(|interface| interface.functions.values());
        into.extend(functions.take(MAX_FUNCTIONS).map(|function| (Some(name.to_owned()), function.clone())));
    }

    fn type_def(&self, id: TypeId) -> Option<&TypeDef> {
        match self {
            Self::Decoded(resolve) => resolve.types.get(id),
            Self::Parsed(package) => package.types.get(id),
        }
    }

    /// Returns the definitions of a type: its own, and those that its other names lead to.
    fn definitions(&self, ty: Type) -> impl Iterator<Item = &TypeDef> {
        let of = |ty: Type| if let Type::Id(id) = ty { self.type_def(id) } else { None };
        let next =
            move |def: &&TypeDef| if let TypeDefKind::Type(other) = def.kind { of(other) } else { None };
        std::iter::successors(of(ty), next).take(MAX_ALIASES)
    }

    /// Returns the definition behind a type and its other names.
    fn definition(&self, ty: Type) -> Option<&TypeDef> {
        self.definitions(ty).find(|def| !matches!(def.kind, TypeDefKind::Type(_)))
    }

    /// Returns the documentation at the definition of a type or of its alias.
    fn type_text(&self, ty: Type) -> Option<&str> {
        self.definitions(ty).find_map(|def| def.docs.contents.as_deref())
    }
}

impl FunctionDocs<'_> {
    pub(super) fn annotations(&self) -> &Annotations {
        &self.annotations
    }

    /// Returns the documentation of the function, without its annotations and the lines about its parameters.
    pub(super) fn text(&self) -> &str {
        &self.paragraphs.text
    }

    /// Returns the documentation of a parameter, which WIT keeps in the function's text only.
    pub(super) fn parameter(&self, name: &str) -> TypeDocs<'_> {
        let ty = self.function.params.iter().find(|param| param.name == name).map(|param| param.ty);
        TypeDocs { source: Some(self.source), ty, own: self.paragraphs.params.get(name).map(String::as_str) }
    }

    pub(super) fn returned(&self) -> TypeDocs<'_> {
        TypeDocs { source: Some(self.source), ty: self.function.result, own: None }
    }
}

impl<'a> TypeDocs<'a> {
    pub(super) fn none() -> Self {
        Self::default()
    }

    /// Returns the documentation of the use, or else of the type.
    pub(super) fn text(self) -> Option<String> {
        let of_type = || self.source?.type_text(self.ty?);
        self.own.or_else(of_type).and_then(bounded_text)
    }

    pub(super) fn own_text(self) -> Option<String> {
        self.own.and_then(bounded_text)
    }

    fn kind(self) -> Option<&'a TypeDefKind> {
        self.source?.definition(self.ty?).map(|def| &def.kind)
    }

    fn with(self, ty: Option<Type>, own: Option<&'a str>) -> Self {
        Self { source: self.source, ty, own }
    }

    pub(super) fn part(self, name: &str) -> Self {
        let found = match self.kind() {
            Some(TypeDefKind::Record(record)) => {
                let field = record.fields.iter().find(|field| field.name == name);
                field.map(|field| (Some(field.ty), &field.docs))
            }
            Some(TypeDefKind::Variant(variant)) => {
                variant.cases.iter().find(|case| case.name == name).map(|case| (case.ty, &case.docs))
            }
            Some(TypeDefKind::Enum(choice)) => {
                choice.cases.iter().find(|case| case.name == name).map(|case| (None, &case.docs))
            }
            Some(TypeDefKind::Flags(flags)) => {
                flags.flags.iter().find(|flag| flag.name == name).map(|flag| (None, &flag.docs))
            }
            _ => None,
        };
        found.map_or(Self::none(), |(ty, docs)| self.with(ty, docs.contents.as_deref()))
    }

    /// Returns the documentation of a list's elements, a map's values, or an option's value.
    pub(super) fn element(self) -> Self {
        match self.kind() {
            Some(
                TypeDefKind::List(ty)
                | TypeDefKind::Option(ty)
                | TypeDefKind::Map(_, ty)
                | TypeDefKind::FixedLengthList(ty, _),
            ) => self.with(Some(*ty), None),
            _ => Self::none(),
        }
    }

    pub(super) fn nth(self, index: usize) -> Self {
        match self.kind() {
            Some(TypeDefKind::Tuple(tuple)) => self.with(tuple.types.get(index).copied(), None),
            _ => Self::none(),
        }
    }

    pub(super) fn ok(self) -> Self {
        match self.kind() {
            Some(TypeDefKind::Result(result)) => self.with(result.ok, None),
            _ => Self::none(),
        }
    }

    pub(super) fn error(self) -> Self {
        match self.kind() {
            Some(TypeDefKind::Result(result)) => self.with(result.err, None),
            _ => Self::none(),
        }
    }
}

/// Returns a text for a schema: as short as possible, and never empty.
fn bounded_text(text: &str) -> Option<String> {
    let text: String = text.trim().chars().take(MAX_TEXT).collect();
    (!text.is_empty()).then_some(text)
}

// Bounds how deep a WIT text nests, without recursion: its parser recurses once per level and would overflow the
// stack.

/// Brackets within brackets; types need a few, packages and interfaces three.
const MAX_NESTING: usize = 100;

/// Returns whether a text nests deeper than any hand-written text. Comments are ignored.
pub(super) fn is_too_deep(text: &str) -> bool {
    let (mut depth, mut comments) = (0_usize, 0_usize);
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let mut length = first.len_utf8();
        if rest.starts_with("/*") {
            (comments, length) = (comments + 1, 2);
        } else if comments > 0 {
            if rest.starts_with("*/") {
                (comments, length) = (comments - 1, 2);
            }
        } else if rest.starts_with("//") {
            length = rest.find('\n').unwrap_or(rest.len());
        } else {
            match first {
                '<' | '{' | '(' => depth += 1,
                // `->` closes nothing that was opened; nor does it matter.
                '>' | '}' | ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        if depth > MAX_NESTING || comments > MAX_NESTING {
            return true;
        }
        rest = rest.get(length..).unwrap_or_default();
    }
    false
}

#[cfg(test)]
mod tests;
