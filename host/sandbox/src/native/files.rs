//! `read_file` and `write_file`: files on the backend's target, byte for byte and without the pane. They refuse
//! special files.

use std::sync::Arc;

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::run_shell::failed;
use crate::Backend;
use haft_core::call::{Hints, ToolCall, ToolDef, ToolResult};
use haft_core::limit::Limits;
use haft_core::tool::{Context, Subject, SubjectArgument, Tool, ToolError};

/// The subject of calls of both tools.
const SUBJECT: SubjectArgument = SubjectArgument::Path("path");

/// The name of the read tool.
pub const READ: &str = "read_file";
/// The name of the write tool.
pub const WRITE: &str = "write_file";

/// Limit on the characters of one result.
const MAX_CHARACTERS: usize = 8000;
/// Bytes of the longest character.
const CHARACTER: usize = 4;
/// The number of bytes whose base64 has [`MAX_CHARACTERS`].
const MAX_BINARY: usize = MAX_CHARACTERS / 4 * 3;
/// The suffix of a truncated result.
const TRUNCATED: &str = "...[truncated]";
/// Limit on the bytes of one write: many times the length of a model's output.
const MAX_CONTENT: usize = 16 << 20;

/// Returns the limits of one call; the backend has its own time limit.
pub fn limits() -> Limits {
    Limits { time: std::time::Duration::from_secs(90), ..Limits::default() }
}

/// The `read_file` or the `write_file` tool.
#[derive(Debug)]
pub struct FileTool {
    def: ToolDef,
    backend: Arc<dyn Backend>,
    writes: bool,
}

impl FileTool {
    /// Creates the read tool for the files of `backend`.
    pub fn reading(backend: Arc<dyn Backend>) -> Self {
        let description = format!(
            "Read a file on the target ({}). At most 8000 characters are returned; use `offset` to read \
             more.",
            backend.summary()
        );
        let parameters = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "The file"},
                "offset": {"type": "integer", "minimum": 0, "description": "Bytes to skip at the start; \
                    default 0"},
                "encoding": ENCODING.clone(),
            },
            "required": ["path"],
            "additionalProperties": false,
        });
        let hints = Hints { read_only: true, ..Hints::default() };
        let def = ToolDef { name: READ.into(), description, parameters, hints, ..ToolDef::default() };
        Self { def, backend, writes: false }
    }

    /// Creates the write tool for the files of `backend`.
    pub fn writing(backend: Arc<dyn Backend>) -> Self {
        let description = format!(
            "Write a file on the target ({}); creates the file and its directories, or replaces the content.",
            backend.summary()
        );
        let parameters = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "The file"},
                "content": {"type": "string", "description": "The whole content of the file"},
                "encoding": ENCODING.clone(),
            },
            "required": ["path", "content"],
            "additionalProperties": false,
        });
        let hints = Hints { destructive: true, idempotent: true, ..Hints::default() };
        let def = ToolDef { name: WRITE.into(), description, parameters, hints, ..ToolDef::default() };
        Self { def, backend, writes: true }
    }

    async fn read(&self, arguments: &Value, context: &Context<'_>) -> Result<ToolResult, ToolError> {
        let path = text(arguments, "path");
        let offset = arguments.get("offset").and_then(Value::as_u64).unwrap_or_default();
        let is_binary = is_binary(arguments);
        let limit = if is_binary { MAX_BINARY } else { MAX_CHARACTERS * CHARACTER };
        let piece = self.backend.read(path, offset, limit, context).await.map_err(|error| failed(&error))?;
        let rest = piece.total.saturating_sub(offset);
        Ok(ToolResult::success(if is_binary {
            let has_more = rest > piece.bytes.len() as u64;
            format!("{}{}", STANDARD.encode(&piece.bytes), if has_more { TRUNCATED } else { "" })
        } else {
            shown(&piece.bytes, rest)
        }))
    }

    async fn write(&self, arguments: &Value, context: &Context<'_>) -> Result<ToolResult, ToolError> {
        let (path, whole) = (text(arguments, "path"), text(arguments, "content"));
        let bytes = if is_binary(arguments) {
            let wrong = |error| ToolError::InvalidArguments(format!("`content` is not base64: {error}"));
            STANDARD.decode(whole).map_err(wrong)?
        } else {
            whole.as_bytes().to_vec()
        };
        let length = bytes.len();
        if length > MAX_CONTENT {
            let message = format!("`content` has {length} bytes; the limit of one write is {MAX_CONTENT}");
            return Err(ToolError::InvalidArguments(message));
        }
        self.backend.write(path, bytes, context).await.map_err(|error| failed(&error))?;
        Ok(ToolResult::success(format!("Wrote {length} bytes to {path}")))
    }
}

static ENCODING: std::sync::LazyLock<Value> = std::sync::LazyLock::new(|| {
    json!({
        "type": "string",
        "enum": ["utf-8", "base64"],
        "description": "`base64` for binary data; default `utf-8`",
    })
});

fn text<'a>(arguments: &'a Value, name: &str) -> &'a str {
    arguments.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn is_binary(arguments: &Value) -> bool {
    text(arguments, "encoding") == "base64"
}

#[async_trait]
impl Tool for FileTool {
    fn def(&self) -> &ToolDef {
        &self.def
    }

    fn subject(&self, arguments: &Value) -> Subject {
        SUBJECT.subject(arguments)
    }

    fn has_fixed_rights(&self) -> bool {
        true
    }

    async fn call(&self, call: &ToolCall, context: &Context<'_>) -> Result<ToolResult, ToolError> {
        if self.writes {
            self.write(&call.arguments, context).await
        } else {
            self.read(&call.arguments, context).await
        }
    }
}

/// Returns the text of a file with `rest` bytes left from the start of the read.
fn shown(bytes: &[u8], rest: u64) -> String {
    let decoded = match std::str::from_utf8(bytes) {
        Ok(text) => std::borrow::Cow::Borrowed(text),
        // An incomplete character at the end of the read is not an error in the file.
        Err(error) if error.error_len().is_none() && rest > bytes.len() as u64 => {
            String::from_utf8_lossy(bytes.get(..error.valid_up_to()).unwrap_or_default())
        }
        Err(_) => String::from_utf8_lossy(bytes),
    };
    match decoded.char_indices().nth(MAX_CHARACTERS) {
        Some((end, _)) => format!("{}{TRUNCATED}", decoded.get(..end).unwrap_or_default()),
        None if rest > bytes.len() as u64 => format!("{decoded}{TRUNCATED}"),
        None => decoded.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FL01: at most 8,000 whole characters, and a suffix if there are more.
    #[test]
    fn a_long_file_is_cut_between_characters() {
        let text = "ж".repeat(9000);
        let read = &text.as_bytes()[..=MAX_CHARACTERS * CHARACTER / 2];
        let answer = shown(read, text.len() as u64);
        assert_eq!(answer, format!("{}...[truncated]", "ж".repeat(8000)));
        assert_eq!(shown(&text.as_bytes()[..1001], 18_000), format!("{}...[truncated]", "ж".repeat(500)));
        assert_eq!(shown(b"a\tb", 3), "a\tb");
        assert_eq!(shown(&[0xff, b'a'], 2), "\u{fffd}a");
        assert_eq!(shown("x".repeat(8000).as_bytes(), 8000), "x".repeat(8000));
        assert!(shown("x".repeat(8001).as_bytes(), 8001).ends_with("xx...[truncated]"));
    }
}
