use std::sync::Arc;

use haft_core::call::{ToolCall, ToolDef, ToolResult};
use haft_core::grant::Grant;
use haft_core::limit::{KeptJournal, Limits};
use haft_core::tool::{Context, Session, Tool, ToolError, Toolbox};
use serde_json::json;

/// Looks, while it runs, whether its call is in the journal.
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

/// However lines are gathered: what may have effects is on file before it runs.
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
