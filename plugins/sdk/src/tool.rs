//! The trait of a tool, independent of the transport.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::{Context, Error, Output};

/// A tool: the struct of its arguments.
///
/// Derive [`serde::Deserialize`] and [`JsonSchema`] for it. The doc comment of the struct becomes
/// the tool's description and the doc comments of its fields describe the arguments. A field that
/// is an [`Option`] or has `#[serde(default)]` need not be given. Arguments that it does not have
/// are refused.
pub trait Tool: DeserializeOwned + JsonSchema {
    /// The tool's name, unique in the plugin: letters, digits, `_` and `-`, at most 64. Anything
    /// else does not compile.
    const NAME: &'static str;

    /// How the tool behaves. haft shows it to people and clients, and takes the right to write
    /// from a tool that calls itself [read-only](Hints::read_only).
    const HINTS: Hints = Hints::NONE;

    /// The JSON Schema of the data of [`Output::structured`], from [`schema_of`](crate::schema_of).
    fn output_schema() -> Option<String> {
        None
    }

    /// Does what the tool is for.
    fn call(self, context: &Context) -> Result<Output, Error>;
}

/// How a tool behaves; the meaning is that of MCP's tool annotations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "four independent yes/no hints, as MCP defines them")]
pub struct Hints {
    /// Changes nothing outside itself.
    pub read_only: bool,
    /// May overwrite or delete what was there.
    pub destructive: bool,
    /// A second call with the same arguments changes nothing more.
    pub idempotent: bool,
    /// Reaches beyond this machine.
    pub open_world: bool,
}

impl Hints {
    /// Nothing is known.
    pub const NONE: Self =
        Self { read_only: false, destructive: false, idempotent: false, open_world: false };
    /// Only looks: the same call changes nothing, however often it is made.
    pub const READ_ONLY: Self = Self { read_only: true, idempotent: true, ..Self::NONE };
}
