//! The list of tools.

use super::bindings::act::core::types::LocalizedString;
use super::bindings::exports::act::tools::tool_provider::ToolDefinition;

/// `true` in CBOR.
const TRUE: [u8; 1] = [0xf5];

/// Every tool, all with the same parameters.
pub(crate) fn tools() -> Vec<ToolDefinition> {
    let names = [
        "say",
        "arguments",
        "mixed",
        "nothing",
        "count",
        "flood",
        "fail",
        "fail-late",
        "remember",
        "read",
        "trap",
    ];
    names.map(tool).into()
}

fn tool(name: &str) -> ToolDefinition {
    let english = ("en".to_owned(), format!("Does {name}."));
    let german = ("de".to_owned(), format!("Tut {name}."));
    let read_only = ["say", "read"].contains(&name);
    ToolDefinition {
        name: name.to_owned(),
        description: LocalizedString::Localized(vec![german, english]),
        parameters_schema: r#"{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object"}"#
            .to_owned(),
        metadata: if read_only { vec![("std:read-only".to_owned(), TRUE.to_vec())] } else { Vec::new() },
    }
}
