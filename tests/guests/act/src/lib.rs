//! A component of the `act:tools` world: tools that answer at once or in pieces, with text, data and pictures, and
//! that fail in every way.

#![allow(clippy::panic, reason = "one of the ways to fail")]

#[allow(clippy::pedantic, unsafe_code, reason = "generated")]
mod bindings {
    use super::Acts;

    wit_bindgen::generate!({ path: "src/act.wit", generate_all });
    export!(Acts with_types_in self);
}
mod listed;
mod parts;

use bindings::exports::act::tools::tool_provider::{
    Cbor, Error, Guest, ListToolsResponse, Metadata, ToolResult,
};

/// What the component says of itself: `{"std": {"name": "acts", "version": "1.2.3", "description":
/// "Acts", "capabilities": {"wasi:filesystem": {"allow": [{"path": "**", "mode": "rw"}]}}}}` in CBOR.
#[cfg(target_family = "wasm")]
#[expect(unsafe_code, reason = "a section can be named in no other way")]
#[unsafe(link_section = "act:component")]
#[used]
static ABOUT: [u8; 102] = *b"\xa1cstd\xa4dnamedactsgversione1.2.3kdescriptiondActslcapabilities\xa1owasi:filesystem\xa1eallow\x81\xa2dpathb**dmodebrw";

/// The component.
struct Acts;

impl Guest for Acts {
    async fn list_tools(_: Metadata) -> Result<ListToolsResponse, Error> {
        Ok(ListToolsResponse { metadata: Vec::new(), tools: listed::tools() })
    }

    async fn call_tool(name: String, arguments: Cbor, _: Metadata) -> ToolResult {
        match name.as_str() {
            "say" => ToolResult::Immediate(vec![parts::text("said")]),
            "arguments" => ToolResult::Immediate(vec![parts::text(&hexadecimal(&arguments))]),
            "mixed" => ToolResult::Immediate(parts::mixed()),
            "nothing" => ToolResult::Immediate(Vec::new()),
            "count" => parts::streamed(parts::numbers(20)),
            "flood" => parts::flood(),
            "fail" => {
                ToolResult::Immediate(vec![parts::text("half"), parts::error("acme:broken", "it broke")])
            }
            "fail-late" => {
                parts::streamed(vec![parts::text("one"), parts::error("std:invalid-args", "no such thing")])
            }
            "remember" => {
                ToolResult::Immediate(vec![parts::error("std:session-not-found", "open a session first")])
            }
            "read" => ToolResult::Immediate(vec![read(&arguments)]),
            "trap" => panic!("as told"),
            other => ToolResult::Immediate(vec![parts::error("std:not-found", other)]),
        }
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The file that the arguments `{"path": …}` name; a text of up to 255 bytes.
fn read(arguments: &[u8]) -> bindings::exports::act::tools::tool_provider::ToolEvent {
    let rest = arguments.strip_prefix(b"\xa1dpath").unwrap_or_default();
    let ([0x78, _, text @ ..] | [0x60..=0x77, text @ ..]) = rest else {
        return parts::error("std:invalid-args", "no path");
    };
    match std::fs::read_to_string(String::from_utf8_lossy(text).as_ref()) {
        Ok(text) => parts::text(&text),
        Err(error) => parts::error("std:internal", &error.to_string()),
    }
}
