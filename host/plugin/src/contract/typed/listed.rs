//! The tools of typed functions: names, descriptions and schemas, or the reason why a function cannot be a tool.

use serde_json::Value;
use wasmtime::component::Component;

use super::docs::{Docs, FunctionDocs};
use super::exports::{Exported, Exports};
use super::model::{Field, Returned, Signature, Type};
use super::schema;
use crate::component::listing::{Listing, MAX_DESCRIPTION, MAX_TITLE, MAX_TOOLS, Uncallable};
use crate::component::sections::Sections;
use crate::contract::Contract;
use crate::failure::LoadError;
use haft_core::call::{Hints, ToolDef};
use haft_core::tool::Schema;

/// Bytes of one schema. A type that is used ten times is in it ten times, and every one of them is
/// in the prompt.
const MAX_SCHEMA: usize = 64 << 10;

/// Functions that are named as none that can be called.
const MAX_UNCALLABLE: usize = 100;

/// The tools of a component's functions.
pub(super) fn listing(
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
            let message = format!("{count} functions, and at most {MAX_TOOLS} tools are allowed");
            return Err(LoadError::Tool(message));
        }
    }
    if tools.is_empty() && uncallable.is_empty() {
        return Err(LoadError::Nothing(String::new()));
    }
    let beyond = uncallable.len().saturating_sub(MAX_UNCALLABLE);
    uncallable.truncate(MAX_UNCALLABLE);
    if beyond > 0 {
        uncallable.push(Uncallable { name: "…".into(), reason: format!("stands for {beyond} more") });
    }
    Ok(Listing { tools, uncallable, ..Listing::new(Contract::Typed) })
}

/// The tool that a function is, or why nothing can call it.
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

/// The description of a function without documentation.
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
            "takes so much that its schema has {} KiB, more than {}",
            size >> 10,
            MAX_SCHEMA >> 10
        ));
    }
    Schema::compile(&schema).map_err(|error| error.to_string())?;
    Ok(schema)
}

/// The schema of an answer that is an object; MCP has none for others.
fn output(returned: &Returned) -> Option<Value> {
    let (Returned::Value(ty) | Returned::Result(Some(ty), _)) = returned else { return None };
    if !matches!(ty, Type::Record(_)) {
        return None;
    }
    let schema = Value::Object(schema::type_schema(ty));
    let is_usable = schema.to_string().len() <= MAX_SCHEMA && Schema::compile(&schema).is_ok();
    is_usable.then_some(schema)
}
