//! The journal: tool calls with their approvals and results, as JSON lines in a directory that is closed to tools.
//! A journal that cannot be written delays no call: the failure is reported once and calls continue.
//!
//! - **Two lines for each call:** one before the tool runs, with all known fields and the outcome `started`, and
//!   one at the end with the same `id` and all fields, which replaces the first. A call during which haft crashes
//!   is therefore recorded too.
//! - **Written at once:** the first line of a call that may have effects is in the file before the call runs. In
//!   servers with many calls ([`Journal::gather`]) all other lines wait for 5 ms and are written together; a call
//!   that ends within this time has only its last line (`merged`). After [`write_through`] or the drop of the
//!   journal every line is in the file. A kill of haft loses at most the last 5 ms of ends and of calls without
//!   effects. Lines are not synced to disk: a crash of the machine may lose the last seconds.
//! - **Several processes** write concurrently: each group is one `write` of whole lines to the end of the file.
//! - **Bounded:** a file of `[journal] size` is rotated, and removed once `[journal] keep` newer files exist.

mod file;
mod reader;
mod writer;

use std::path::Path;

pub use self::reader::{Bookmark, Calls, Followed, Found, Last, NewLine, Outline, View, read};
use self::writer::Writer;
pub use self::writer::write_through;
pub use haft_core::journal::{Granted, Journal, Outcome, Program, Record};
use haft_core::limit::KeptJournal;

/// Opens the journal in `directory`, of the calls of `program`, with the retention `kept`. Nothing is created or
/// opened before the first call.
pub fn open(directory: &Path, program: Program, kept: KeptJournal) -> Journal {
    Journal::of(program, Writer::new(directory, kept))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use haft_core::call::{ToolCall, ToolDef, ToolResult};
    use haft_core::grant::Grant;
    use haft_core::limit::{KeptJournal, Limits};
    use haft_core::tool::{Context, Session, Tool, ToolError, Toolbox};
    use serde_json::json;

    /// Checks, while it runs, whether its call is in the journal.
    struct Noted {
        def: ToolDef,
        file: std::path::PathBuf,
        may_have_effects: bool,
    }

    #[async_trait::async_trait]
    impl Tool for Noted {
        fn def(&self) -> &ToolDef {
            &self.def
        }

        fn may_have_effects(&self, _: &Grant) -> bool {
            self.may_have_effects
        }

        async fn call(&self, call: &ToolCall, _: &Context<'_>) -> Result<ToolResult, ToolError> {
            let journal = std::fs::read_to_string(&self.file).unwrap();
            let is_noted = journal.contains(&format!("\"call\":\"{}\"", call.id));
            Ok(ToolResult::success(is_noted.to_string()))
        }
    }

    /// With and without gathering: a call with possible effects is in the file before it runs.
    #[tokio::test]
    async fn no_call_that_may_have_effects_runs_that_was_not_noted() {
        let place = tempfile::tempdir().unwrap();
        let journal = super::open(place.path(), super::Program::default(), KeptJournal::default());
        journal.gather();
        let mut toolbox = Toolbox::default();
        for (name, may_have_effects) in [("changes", true), ("reads", false)] {
            let def =
                ToolDef { name: name.into(), parameters: json!({ "type": "object" }), ..ToolDef::default() };
            let tool = Noted { def, file: place.path().join("journal.jsonl"), may_have_effects };
            toolbox.insert(Arc::new(tool), Grant::none(), Limits::default(), "the test").unwrap();
        }
        let session = Session { journal, ..Session::default() };
        let noted = async |tool: &str, id: usize| {
            let call = ToolCall { id: id.to_string(), tool: tool.into(), arguments: json!({}) };
            let content = toolbox.dispatch(call, &session).await.content;
            assert!(["true", "false"].contains(&content.as_str()), "{content}");
            content == "true"
        };
        let (mut changes, mut reads) = (0, 0);
        for id in 0..200 {
            reads += usize::from(noted("reads", 2 * id).await);
            changes += usize::from(noted("changes", 2 * id + 1).await);
        }
        assert_eq!(changes, 200);
        assert!(reads < 200, "none of them waited: nothing is shown by this");
    }
}
