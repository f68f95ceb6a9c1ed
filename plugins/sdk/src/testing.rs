//! Tests of tools with plain `cargo test`, without a component and without a sandbox: the description for a model,
//! and a call with JSON as a model writes it. Not for use inside a tool.

use serde_json::Value;

use crate::{Context, Error, Hints, Output, Tool, export, schema};

/// What a model is told about a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    /// Its name.
    pub name: &'static str,
    /// Its doc comment.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub parameters: Value,
    /// How it behaves.
    pub hints: Hints,
}

/// What a model is told about the tool `T`.
pub fn definition<T: Tool>() -> Definition {
    let (description, parameters) = schema::of_arguments::<T>();
    Definition { name: T::NAME, description, parameters, hints: T::HINTS }
}

/// Calls the tool `T` with `arguments`, a JSON object. [`Context::for_tests`] makes a context.
pub fn call<T: Tool>(arguments: &Value, context: &Context) -> Result<Output, Error> {
    export::decode::<T>(&arguments.to_string())?.call(context)
}
