//! The display of a tool call: its kind, title, locations and differences, derived from the tool's name and the
//! arguments. Decides nothing: unknown tools are shown without interpretation.

use std::path::{Path, PathBuf};

use agent_client_protocol_schema::v1::{
    ContentBlock, Diff, ImageContent, ToolCall, ToolCallContent, ToolCallId, ToolCallLocation,
    ToolCallStatus, ToolCallUpdateFields, ToolKind,
};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use haft_core::call::{self, Attachment, ToolResult};
use haft_core::report::{plain, shortened};
use haft_core::tool::{Keep, clip, in_a_line};

/// The kinds of haft's built-in tools, by the names that models see.
const KINDS: &[(&str, ToolKind)] = &[
    ("bash", ToolKind::Execute),
    ("run_shell", ToolKind::Execute),
    ("send-keys", ToolKind::Execute),
    ("capture-pane", ToolKind::Read),
    ("read", ToolKind::Read),
    ("read_file", ToolKind::Read),
    ("write", ToolKind::Edit),
    ("write_file", ToolKind::Edit),
    ("edit", ToolKind::Edit),
    ("fetch_url", ToolKind::Fetch),
    ("web_search", ToolKind::Search),
    ("find_tools", ToolKind::Search),
];

/// The prefix of commands that a program declares.
const COMMAND: &str = "program__";

/// The maximum number of characters of a title.
const MAX_TITLE: usize = 120;

/// The maximum size, in bytes, of arguments shown raw: the content of a written file may have megabytes, and is
/// shown in the difference.
const MAX_RAW: usize = 64 << 10;

/// The maximum number of characters of each side of a difference.
const MAX_DIFF: usize = 200_000;

/// The maximum number of characters shown of an answer.
const MAX_ANSWER: usize = 30_000;

/// The maximum number of pictures shown of an answer, and the maximum size of each in bytes.
const MAX_PICTURES: usize = 8;
pub(crate) const MAX_PICTURE: usize = 4 << 20;

/// Returns the first display of a call.
pub(crate) fn shown(id: ToolCallId, call: &call::ToolCall, workspace: Option<&Path>) -> ToolCall {
    let raw = Some(call.arguments.clone()).filter(|raw| raw.to_string().len() <= MAX_RAW);
    let shown = ToolCall::new(id, title(call)).name(call.tool.clone()).kind(kind(&call.tool)).raw_input(raw);
    let difference = difference(call, workspace).into_iter().collect();
    shown.content(difference).locations(locations(place(call, workspace), &call.arguments))
}

pub(crate) fn answered(
    call: &call::ToolCall,
    result: &ToolResult,
    workspace: Option<&Path>,
) -> ToolCallUpdateFields {
    let status = if result.is_error { ToolCallStatus::Failed } else { ToolCallStatus::Completed };
    let mut content: Vec<ToolCallContent> = difference(call, workspace).into_iter().collect();
    // For a successful edit, the difference is the answer.
    if content.is_empty() || result.is_error {
        content.push(text(&result.content).into());
    }
    content.extend(result.attachments.iter().filter_map(picture).take(MAX_PICTURES).map(Into::into));
    ToolCallUpdateFields::new().status(status).content(content)
}

/// Returns the display of a file, if it is a picture that is not too large.
pub(crate) fn picture(file: &Attachment) -> Option<ContentBlock> {
    let is_shown = file.essence().starts_with("image/") && file.data.len() <= MAX_PICTURE;
    let image = || ImageContent::new(BASE64_STANDARD.encode(&file.data), file.essence());
    is_shown.then(|| ContentBlock::Image(image()))
}

/// Returns the text of a tool, to be shown literally.
pub(crate) fn text(text: &str) -> ContentBlock {
    fenced(&clip(text.trim_end(), MAX_ANSWER, Keep::Ends)).into()
}

fn kind(tool: &str) -> ToolKind {
    let known = KINDS.iter().find(|(name, _)| *name == tool).map(|(_, kind)| *kind);
    let command = || tool.starts_with(COMMAND).then_some(ToolKind::Execute);
    known.or_else(command).unwrap_or_default()
}

fn title(call: &call::ToolCall) -> String {
    shortened(&plain(&format!("{} {}", call.tool, in_a_line(&call.arguments, MAX_TITLE))), MAX_TITLE)
}

/// Returns the absolute path of the file that a built-in tool is called for.
fn place(call: &call::ToolCall, workspace: Option<&Path>) -> Option<PathBuf> {
    if !matches!(call.tool.as_str(), "read" | "write" | "edit") {
        return None;
    }
    let path = Path::new(call.arguments.get("file_path")?.as_str()?);
    let whole = workspace.map_or_else(|| path.to_owned(), |workspace| workspace.join(path));
    whole.is_absolute().then_some(whole)
}

fn locations(place: Option<PathBuf>, arguments: &Value) -> Vec<ToolCallLocation> {
    let line = arguments.get("offset").and_then(Value::as_u64).and_then(|line| u32::try_from(line).ok());
    place.into_iter().map(|path| ToolCallLocation::new(path).line(line)).collect()
}

/// Returns the difference that a call makes to a file, if the arguments show it.
pub(crate) fn difference(call: &call::ToolCall, workspace: Option<&Path>) -> Option<ToolCallContent> {
    let argument = |name: &str| {
        let text = call.arguments.get(name)?.as_str()?;
        Some(clip(text, MAX_DIFF, Keep::Ends))
    };
    let (old, new) = match call.tool.as_str() {
        "edit" => (Some(argument("old_string")?), argument("new_string")?),
        "write" => (None, argument("content")?),
        _ => return None,
    };
    Some(ToolCallContent::Diff(Diff::new(place(call, workspace)?, new).old_text(old)))
}

pub(crate) fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}\n{text}\n{fence}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn value(tool: &str, arguments: Value) -> Value {
        let call = call::ToolCall { id: "1".into(), tool: tool.into(), arguments };
        serde_json::to_value(shown(ToolCallId::new("c"), &call, Some(Path::new("/w")))).unwrap()
    }

    #[test]
    fn a_call_is_shown_by_what_it_is_about() {
        let bash = value("bash", json!({ "command": "ls\u{1b}[2J\nrm x" }));
        assert_eq!(
            (&bash["kind"], &bash["title"]),
            (&json!("execute"), &json!("bash ls\u{fffd}[2J … (+1 line)"))
        );
        let read = value("read", json!({ "file_path": "a.rs", "offset": 7 }));
        assert_eq!(read["locations"], json!([{ "path": "/w/a.rs", "line": 7 }]));
        let edit = value("edit", json!({ "file_path": "/x/a", "old_string": "1", "new_string": "2" }));
        let diff = json!([{ "type": "diff", "path": "/x/a", "oldText": "1", "newText": "2" }]);
        assert_eq!((&edit["content"], &edit["kind"]), (&diff, &json!("edit")));
        let other = value("mcp__s__t", json!({ "x": "y".repeat(1000) }));
        assert!(other["title"].as_str().unwrap().starts_with("mcp__s__t x=yyy"), "{other}");
        let long = value("bash", json!({ "command": "y".repeat(1000) }));
        assert_eq!(long["title"].as_str().unwrap().chars().count(), MAX_TITLE + 1);
        assert_eq!((&other["kind"], &other["locations"]), (&Value::Null, &Value::Null));
    }

    #[test]
    fn large_arguments_are_not_shown_raw() {
        let write = value("write", json!({ "file_path": "a", "content": "x".repeat(MAX_DIFF + 1) }));
        assert_eq!(write["rawInput"], Value::Null);
        assert!(write["content"][0]["newText"].as_str().unwrap().chars().count() <= MAX_DIFF);
    }

    #[test]
    fn what_would_run_cannot_end_its_fence() {
        assert_eq!(fenced("a\n```\nb"), "````\na\n```\nb\n````");
    }
}
