//! Connects the component's exports to the tools: the expansion of [`export!`](crate::export!). Holds no state,
//! since an instance lives for one call.

use crate::Error;

/// Makes a component of tools: `export!(Read, Write)`. Once in a crate whose type is `cdylib`.
///
/// The order is that in which a model sees them. Two tools of one name, or a name that models
/// cannot write, do not compile.
#[macro_export]
macro_rules! export {
    ($($tool:ty),+ $(,)?) => {
        const _: () = {
            const NAMES: &[&str] = &[$(<$tool as $crate::Tool>::NAME),+];
            $crate::export::check_names(NAMES);
        };
        #[cfg(target_family = "wasm")]
        const _: () = {
            struct Plugin;
            impl $crate::bindings::exports::haft::plugin::tools::Guest for Plugin {
                fn list_tools() -> ::std::vec::Vec<$crate::bindings::exports::haft::plugin::tools::ToolDef> {
                    ::std::vec![$($crate::export::definition::<$tool>()),+]
                }

                fn call_tool(
                    call: $crate::bindings::exports::haft::plugin::tools::ToolCall,
                ) -> ::std::result::Result<
                    $crate::bindings::exports::haft::plugin::tools::ToolOutput,
                    $crate::bindings::exports::haft::plugin::tools::ToolError,
                > {
                    $(if call.tool == <$tool as $crate::Tool>::NAME {
                        return $crate::export::call::<$tool>(call);
                    })+
                    $crate::export::unknown(&call.tool)
                }
            }
            $crate::bindings::export!(Plugin with_types_in $crate::bindings);
        };
    };
}

/// Fails to compile where a name is none, or is there twice.
#[expect(clippy::indexing_slicing, reason = "runs while compiling, where there are no iterators")]
pub const fn check_names(names: &[&str]) {
    let mut index = 0;
    while index < names.len() {
        assert!(is_name(names[index].as_bytes()), "a tool's name is 1 to 64 letters, digits, `_` or `-`");
        let mut other = 0;
        while other < index {
            assert!(!same(names[index].as_bytes(), names[other].as_bytes()), "two tools have the same name");
            other += 1;
        }
        index += 1;
    }
}

#[expect(clippy::indexing_slicing, reason = "runs while compiling, where there are no iterators")]
const fn is_name(name: &[u8]) -> bool {
    let mut index = 0;
    while index < name.len() {
        if !(name[index].is_ascii_alphanumeric() || name[index] == b'_' || name[index] == b'-') {
            return false;
        }
        index += 1;
    }
    matches!(name.len(), 1..=64)
}

#[expect(clippy::indexing_slicing, reason = "runs while compiling, where there are no iterators")]
const fn same(one: &[u8], other: &[u8]) -> bool {
    let mut index = 0;
    while index < one.len() && index < other.len() && one[index] == other[index] {
        index += 1;
    }
    index == one.len() && index == other.len()
}

/// The arguments of a tool, or which of them is wrong.
pub(crate) fn decode<T: serde::de::DeserializeOwned>(arguments: &str) -> Result<T, Error> {
    let mut json = serde_json::Deserializer::from_str(arguments);
    let decoded = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let field = error.path().to_string();
        let message = without_position(&error.into_inner());
        Error::invalid(if field == "." { message } else { format!("`{field}`: {message}") })
    })?;
    json.end().map_err(|error| Error::invalid(without_position(&error)))?;
    Ok(decoded)
}

/// The error without " at line 1 column 7": a model wrote an object, not a file.
fn without_position(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    message.strip_suffix(&position).unwrap_or(&message).to_owned()
}

#[cfg(target_family = "wasm")]
pub use self::component::{call, definition, unknown};

#[cfg(target_family = "wasm")]
mod component {
    use super::decode;
    use crate::bindings::exports::haft::plugin::tools::{
        Blob, Content as WitContent, Hints as WitHints, ToolCall, ToolDef, ToolError, ToolOutput,
    };
    use crate::{Content, Context, Error, Hints, Output, Tool, schema};

    /// What a model is told about a tool.
    pub fn definition<T: Tool>() -> ToolDef {
        let (description, parameters) = schema::of_arguments::<T>();
        ToolDef {
            name: T::NAME.into(),
            description,
            parameters: parameters.to_string(),
            output_schema: T::output_schema(),
            hints: T::HINTS.into(),
            annotations: Vec::new(),
        }
    }

    /// Runs one tool.
    pub fn call<T: Tool>(call: ToolCall) -> Result<ToolOutput, ToolError> {
        let tool: T = decode(&call.arguments)?;
        // Large arguments would otherwise be there twice while the tool works.
        drop(call.arguments);
        let context = Context::of_call(call.id);
        context.enter_workspace()?;
        Ok(tool.call(&context)?.into())
    }

    /// The answer to a call of a tool that was never listed.
    pub fn unknown(tool: &str) -> Result<ToolOutput, ToolError> {
        Err(ToolError::ExecutionFailed(format!("this plugin has no tool `{tool}`")))
    }

    impl From<Hints> for WitHints {
        fn from(hints: Hints) -> Self {
            let Hints { read_only, destructive, idempotent, open_world } = hints;
            Self { read_only, destructive, idempotent, open_world }
        }
    }

    impl From<Output> for ToolOutput {
        fn from(output: Output) -> Self {
            let content = output.content.into_iter().map(Into::into).collect();
            Self { content, structured: output.structured }
        }
    }

    impl From<Content> for WitContent {
        fn from(content: Content) -> Self {
            match content {
                Content::Text(text) => Self::Text(text),
                Content::Binary { media_type, data } => Self::Binary(Blob { media_type, data }),
            }
        }
    }

    impl From<Error> for ToolError {
        fn from(error: Error) -> Self {
            match error {
                Error::InvalidArguments(message) => Self::InvalidArguments(message),
                Error::ExecutionFailed(message) => Self::ExecutionFailed(message),
            }
        }
    }
}
