//! Components that export plain functions: each function is a tool. Its types make the schema, its WIT documentation
//! the description, and the error of its `result` is the tool's error.
//!
//! Types come from the component alone, so that what is shown is what is called. JSON stands for
//! them so that a model can write it and nothing is lost on the way (`schema` shows it, `decode`
//! reads it, `encode` writes it):
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
//! Functions may be `async`. One with a resource in its types cannot be called, and says so, nor one with a stream or a
//! future within another type, but for `tuple<stream<T>, future<result<_, string>>>` and a `result`, which may be returned.

mod annotations;
mod answer;
mod decode;
mod docs;
mod encode;
mod exports;
mod listed;
mod model;
mod names;
mod nesting;
mod paragraphs;
mod schema;
mod streams;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use wasmtime::Store;
use wasmtime::component::{Component, ComponentExportIndex, Func, Instance, Val};

use self::exports::{Exported, Exports};
use self::model::{Returned, Signature};
use crate::call::Call;
use crate::component::listing::Listing;
use crate::contract::guest::{Answer, Guest, Kind, Linked, MakeGuest};
use crate::contract::{Contract, haft_world};
use crate::instance::state::GuestState;
use haft_core::tool::ToolError;

/// The interface of a hook; its version follows.
const HOOKS: &str = "haft:plugin/hooks@";

/// The contract of functions that are tools.
pub(crate) const KIND: Kind = Kind {
    contract: Contract::Typed,
    is_exported: |exports| Ok(!exports.iter().all(|name| exports::is_hidden(name))),
    link: |linked| Ok(link(linked)),
    listing: Some(listed::listing),
    may_offer: true,
    // wasmtime makes a `Val` of every element of a list, bytes included.
    result_cost: size_of::<Val>(),
};

/// The contract of the two functions of a hook.
pub(crate) const HOOK: Kind = Kind {
    contract: Contract::Hook,
    is_exported: |exports| haft_world::has(exports, HOOKS),
    listing: Some(|component, sections, sibling_wit| {
        let listing = listed::listing(component, sections, sibling_wit)?;
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

/// A function; its index and types are resolved at the first call.
struct Function {
    exported: Exported,
    resolved: OnceLock<Option<ResolvedFunction>>,
}

struct ResolvedFunction {
    index: ComponentExportIndex,
    signature: Signature,
}

/// One instance, and its functions by the names of their tools.
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
            return Err(wasmtime::Error::msg(format!("no function `{}` any more", call.tool)));
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
        (Returned::Streamed(streamed), Some(value)) => streams::receive(store, streamed, value, most).await,
        (returned, value) => Ok(answer::from_returned(returned, value)?),
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

#[cfg(test)]
mod tests;
