//! Components that export plain functions: each function is a tool. Its types become the schema, its WIT
//! documentation the description, and the error of its `result` the tool's error.
//!
//! Types come from the component alone, so that the described function is the called one. JSON represents values
//! such that a model can write it and nothing is lost (`schema` describes it, `decode` reads it, `encode` writes
//! it):
//!
//! | WIT | JSON |
//! |---|---|
//! | `bool`, `string`, `char` | `true`, text, text of one character |
//! | `s8` … `u32` | a whole number |
//! | `s64`, `u64` | a whole number, or one as text; written as text beyond 2^53 |
//! | `f32`, `f64` | a number, or `"NaN"`, `"Infinity"`, `"-Infinity"` |
//! | `list<u8>` | text, or `{"base64": …}` for bytes that are no text |
//! | `list<T>`, `tuple<…>` | a list |
//! | `map<string, T>`, other maps | an object; a list of `{"key": …, "value": …}` |
//! | `record` | an object |
//! | `variant` | `{"tag": …}`, and `"val"` for a case that holds something |
//! | `enum`, `flags` | a name, a list of names |
//! | `option<T>` | absent or `null`; within another option `{"some": …}` |
//! | `result<T, E>` inside other types | `{"ok": …}` or `{"err": …}` |
//! | `stream<T>` as a parameter | as `list<T>` |
//! | `stream<T>` as a result | as `list<T>`, and one text for texts and characters |
//! | `future<T>` as either | as `T` |
//!
//! Functions may be `async`. A function with a resource in its types cannot be called, nor one with a stream or a
//! future within another type, except the results `tuple<stream<T>, future<result<_, string>>>` and `result`; the
//! error names the reason.

mod decode;
mod docs;
mod encode;
mod exports;
mod model;
mod paragraphs;
mod schema;
mod streams;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use serde_json::Value;
use wasmtime::Store;
use wasmtime::component::{Component, ComponentExportIndex, Func, Instance, Val};

use self::docs::{Docs, FunctionDocs};
use self::exports::{Exported, Exports};
use self::model::{Field, Returned, Signature, Type};
use crate::call::Call;
use crate::component::listing::{Listing, MAX_DESCRIPTION, MAX_TITLE, MAX_TOOLS, Uncallable};
use crate::component::sections::Sections;
use crate::contract::guest::{Answer, Guest, Kind, Linked, MakeGuest};
use crate::contract::{Contract, haft_world};
use crate::failure::LoadError;
use crate::instance::state::GuestState;
use haft_core::call::{Hints, ToolDef};
use haft_core::tool::{Schema, ToolError};

/// The interface of a hook; its version follows.
const HOOKS: &str = "haft:plugin/hooks@";

pub(crate) const KIND: Kind = Kind {
    contract: Contract::Typed,
    is_exported: |exports| Ok(!exports.iter().all(|name| exports::is_hidden(name))),
    link: |linked| Ok(link(linked)),
    listing: Some(listing),
    may_offer: true,
    // wasmtime makes a `Val` of every element of a list, bytes included.
    result_cost: size_of::<Val>(),
};

pub(crate) const HOOK: Kind = Kind {
    contract: Contract::Hook,
    is_exported: |exports| haft_world::has(exports, HOOKS),
    listing: Some(|component, sections, sibling_wit| {
        let listing = listing(component, sections, sibling_wit)?;
        Ok(Listing { contract: Contract::Hook, ..listing })
    }),
    ..KIND
};

fn link(Linked { pre, .. }: &Linked<'_>) -> MakeGuest {
    let component = pre.component().clone();
    let exports = Exports::from_component(component.engine(), &component);
    let named =
        |exported: Exported| (exported.name.clone(), Function { exported, resolved: OnceLock::new() });
    let functions: Arc<HashMap<String, Function>> =
        Arc::new(exports.functions.into_iter().map(named).collect());
    Arc::new(move |_, instance| {
        let (component, functions) = (component.clone(), functions.clone());
        Ok(Box::new(TypedGuest { component, instance, functions }))
    })
}

struct Function {
    exported: Exported,
    resolved: OnceLock<Option<ResolvedFunction>>,
}

struct ResolvedFunction {
    index: ComponentExportIndex,
    signature: Signature,
}

/// An instance, and its functions by the names of their tools.
struct TypedGuest {
    component: Component,
    instance: Instance,
    functions: Arc<HashMap<String, Function>>,
}

#[async_trait]
impl Guest for TypedGuest {
    async fn call(&self, store: &mut Store<GuestState>, call: &Call) -> Answer {
        let resolved = self.functions.get(&call.tool).and_then(|function| function.resolve(&self.component));
        let found = resolved
            .and_then(|resolved| Some((resolved, self.instance.get_func(&mut *store, resolved.index)?)));
        let Some((resolved, function)) = found else {
            return Err(wasmtime::Error::msg(format!("the function `{}` no longer exists", call.tool)));
        };
        match decode::arguments(&resolved.signature.params, &call.arguments.value()) {
            Ok(arguments) => call_resolved(store, resolved, function, (arguments, call.limits.result)).await,
            Err(wrong) => Ok(Err(ToolError::InvalidArguments(wrong.to_string()))),
        }
    }
}

async fn call_resolved(
    store: &mut Store<GuestState>,
    resolved: &ResolvedFunction,
    function: Func,
    (mut arguments, most): (Vec<Val>, u64),
) -> Answer {
    let has_result = resolved.signature.returned != Returned::Nothing;
    let mut results = vec![Val::Bool(false); usize::from(has_result)];
    streams::open(store, &resolved.signature.params, &mut arguments)?;
    function.call_async(&mut *store, &arguments, &mut results).await?;
    match (&resolved.signature.returned, results.pop()) {
        (Returned::Streamed(later, refusal), Some(value)) => {
            streams::receive(store, (later, refusal), value, most).await
        }
        (returned, value) => Ok(encode::from_returned(returned, value)?),
    }
}

impl Function {
    fn resolve(&self, component: &Component) -> Option<&ResolvedFunction> {
        let find = || {
            let signature = Signature::from_function(&self.exported.ty, None).ok()?;
            Some(ResolvedFunction { index: self.exported.index(component)?, signature })
        };
        self.resolved.get_or_init(find).as_ref()
    }
}

/// Maximum size of one schema in bytes. A type that is used ten times occurs ten times in the schema and in every
/// prompt.
const MAX_SCHEMA: usize = 64 << 10;

/// Maximum number of functions that are reported as uncallable.
const MAX_UNCALLABLE: usize = 100;

fn listing(
    component: &Component,
    sections: &Sections,
    sibling_wit: Option<&str>,
) -> Result<Listing, LoadError> {
    let exports = Exports::from_component(component.engine(), component);
    let docs = Docs::read(sections, sibling_wit);
    let (mut tools, mut uncallable) = (Vec::new(), exports.resources.clone());
    for exported in &exports.functions {
        let function_docs = docs.function(exported.interface.as_deref(), &exported.function);
        match tool(exported, function_docs.as_ref()) {
            Ok(tool) => tools.push(tool),
            Err(reason) => uncallable.push(Uncallable { name: exported.name.clone(), reason }),
        }
        if tools.len() > MAX_TOOLS {
            let count = exports.functions.len() + exports.beyond;
            let message = format!("{count} functions; the limit is {MAX_TOOLS} tools");
            return Err(LoadError::Tool(message));
        }
    }
    if tools.is_empty() && uncallable.is_empty() {
        return Err(LoadError::Nothing(String::new()));
    }
    let beyond = uncallable.len().saturating_sub(MAX_UNCALLABLE);
    uncallable.truncate(MAX_UNCALLABLE);
    if beyond > 0 {
        uncallable.push(Uncallable { name: "…".into(), reason: format!("represents {beyond} more") });
    }
    Ok(Listing { tools, uncallable, ..Listing::new(Contract::Typed) })
}

/// Returns the tool that a function is, or why nothing can call it.
fn tool(exported: &Exported, docs: Option<&FunctionDocs<'_>>) -> Result<ToolDef, String> {
    let signature = Signature::from_function(&exported.ty, docs)?;
    let parameters = match parameters(&signature.params) {
        Ok(parameters) => parameters,
        // A tool without documentation is better than none.
        Err(problem) if docs.is_some() => {
            let bare = Signature::from_function(&exported.ty, None)?;
            parameters(&bare.params).map_err(|_| problem)?
        }
        Err(problem) => return Err(problem),
    };
    let text = docs.map(FunctionDocs::text).filter(|text| !text.is_empty());
    let description = match text {
        Some(text) => text.chars().take(MAX_DESCRIPTION).collect(),
        None => default_description(exported),
    };
    let annotations = docs.map(FunctionDocs::annotations);
    let title = annotations.and_then(|said| said.title.as_deref());
    Ok(ToolDef {
        name: exported.name.clone(),
        title: title.map(|title| title.chars().take(MAX_TITLE).collect()),
        description,
        parameters,
        hints: annotations.map_or_else(Hints::default, |said| said.hints),
        output: output(&signature.returned),
    })
}

fn default_description(exported: &Exported) -> String {
    match &exported.interface {
        Some(interface) => format!("The function `{}` of `{interface}`.", exported.function),
        None => format!("The function `{}`.", exported.function),
    }
}

fn parameters(params: &[Field]) -> Result<Value, String> {
    let schema = schema::object_schema(params);
    let size = schema.to_string().len();
    if size > MAX_SCHEMA {
        return Err(format!(
            "has a parameter schema of {} KiB; the limit is {}",
            size >> 10,
            MAX_SCHEMA >> 10
        ));
    }
    Schema::compile(&schema).map_err(|error| error.to_string())?;
    Ok(schema)
}

/// Returns the schema of an answer that is an object; MCP has none for others.
fn output(returned: &Returned) -> Option<Value> {
    let (Returned::Value(ty) | Returned::Result(Some(ty), _)) = returned else { return None };
    if !matches!(ty, Type::Record(_)) {
        return None;
    }
    let schema = Value::Object(schema::type_schema(ty));
    let is_usable = schema.to_string().len() <= MAX_SCHEMA && Schema::compile(&schema).is_ok();
    is_usable.then_some(schema)
}

#[cfg(test)]
mod tests;
