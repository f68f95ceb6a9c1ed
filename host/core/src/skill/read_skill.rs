//! The tool `read_skill`: returns the text of a skill, and of the files in its folder, to a model. Reads no other
//! files. Models get it only if there are skills.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use super::{FILE, MAX_FILE, Shelf, Shelved, head};
use crate::call::{Hints, ToolCall, ToolDef, ToolResult};
use crate::report::{nearest, plain};
use crate::tool::{Context, Tool, ToolError};

/// The maximum number of files listed in an answer.
const MAX_NAMED: usize = 100;

/// The tool that reads skills.
#[derive(Debug)]
pub struct ReadSkill {
    def: ToolDef,
    shelf: Arc<Shelf>,
    /// Whether commands run on a machine where the files have equal paths.
    is_here: bool,
}

impl ReadSkill {
    /// The name of the tool.
    pub const NAME: &'static str = "read_skill";

    /// Creates the tool for the skills of `shelf`. `is_here`: commands run on this machine, so that paths are
    /// useful to the model.
    pub fn new(shelf: Arc<Shelf>, is_here: bool) -> Self {
        let description =
            "Returns the instructions of a skill, or the text of another file in its folder.".into();
        let parameters = json!({
            "type": "object",
            "properties": {
                "name": { "type": "string", "description": "Name of the skill" },
                "file": {
                    "type": "string",
                    "description": "Path of a file in the folder of the skill; its instructions unless given",
                },
            },
            "required": ["name"],
            "additionalProperties": false,
        });
        let hints = Hints { read_only: true, idempotent: true, ..Hints::default() };
        let def = ToolDef { name: Self::NAME.into(), description, parameters, hints, ..ToolDef::default() };
        Self { def, shelf, is_here }
    }

    fn skill(&self, name: &str) -> Result<&Shelved, ToolError> {
        self.shelf.find(name).ok_or_else(|| {
            let names: Vec<&str> =
                self.shelf.skills().iter().map(|known| known.skill.name.as_str()).collect();
            let near = nearest(name, names.iter().copied()).map(|near| format!("; did you mean `{near}`?"));
            let (name, near) = (plain(name), near.unwrap_or_else(|| ".".into()));
            let names = names.join("`, `");
            ToolError::InvalidArguments(format!("there is no skill `{name}`{near} The skills are: `{names}`"))
        })
    }
}

#[async_trait]
impl Tool for ReadSkill {
    fn def(&self) -> &ToolDef {
        &self.def
    }

    async fn call(&self, call: &ToolCall, context: &Context<'_>) -> Result<ToolResult, ToolError> {
        let text = |key: &str| call.arguments.get(key).and_then(Value::as_str).map(str::to_owned);
        let skill = self.skill(&text("name").unwrap_or_default())?.clone();
        // Reading such a skill may start its server, with all rights of the server.
        if skill.files.folder().is_none() && context.grant.is_planning() {
            let why = "skills of MCP servers cannot be read in plan mode";
            return Err(ToolError::ExecutionFailed(why.to_owned()));
        }
        let file = text("file").filter(|file| !file.trim().is_empty());
        let is_here = self.is_here;
        let work = move || read(&skill, file.as_deref().unwrap_or(FILE), is_here);
        // Files are read on a thread that may block.
        let read = tokio::task::spawn_blocking(work).await;
        read.unwrap_or_else(|error| Err(ToolError::Host(error.to_string()))).map(ToolResult::success)
    }
}

/// Returns the text of a file; for the instructions, without the head and with a list of the other files.
fn read(skill: &Shelved, file: &str, is_here: bool) -> Result<String, ToolError> {
    let file = file.trim_start_matches("./");
    let failed = |why: String| {
        let folder = skill.files.folder().filter(|_| is_here && skill.scripts.is_none());
        let folder =
            folder.map(|folder| format!("; the folder is `{}`", folder.display())).unwrap_or_default();
        let (name, file) = (&skill.skill.name, plain(file));
        ToolError::ExecutionFailed(format!("cannot read `{file}` of the skill `{name}`: {why}{folder}"))
    };
    let bytes = skill.files.read(file, MAX_FILE).map_err(|error| failed(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| failed("it is not UTF-8 text".into()))?;
    if file != FILE {
        return Ok(text);
    }
    let mut text = head::split(&text).1.trim().to_owned();
    text.push_str(&beside(skill, is_here));
    let tools = skill.tools.iter().map(|prefix| format!("\n\n[The tools `{prefix}…` belong to this skill.]"));
    text.extend(tools);
    Ok(text)
}

/// Returns the list of files beside the instructions.
fn beside(skill: &Shelved, is_here: bool) -> String {
    // One more than the maximum, and the SKILL.md.
    let files = skill.files.list(MAX_NAMED + 2).unwrap_or_default();
    let others: Vec<String> = files.iter().filter(|file| *file != FILE).map(|file| plain(file)).collect();
    if others.is_empty() {
        return String::new();
    }
    let more = if others.len() > MAX_NAMED { ", and more" } else { "" };
    let names = others.iter().take(MAX_NAMED).map(|file| format!("`{file}`")).collect::<Vec<_>>().join(", ");
    let folder = match (&skill.scripts, skill.files.folder()) {
        (Some(tool), _) => format!(" Run its scripts with the tool `{tool}`."),
        (None, Some(folder)) if is_here => format!(" They are in `{}`.", folder.display()),
        _ => String::new(),
    };
    format!(
        "\n\n[Other files of this skill, which `{}` gives as `file`: {names}{more}.{folder}]",
        ReadSkill::NAME
    )
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::super::{Skill, SkillFolder};
    use super::*;
    use crate::grant::{Grant, Root};
    use crate::limit::Limits;
    use crate::tool::{Session, Toolbox};

    struct Place {
        _directory: tempfile::TempDir,
        folder: String,
        toolbox: Toolbox,
    }

    fn place(is_here: bool) -> Place {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("scripts")).unwrap();
        fs::write(directory.path().join("SKILL.md"), "---\nname: pdf\n---\n\n# Forms\nRun it.\n").unwrap();
        fs::write(directory.path().join("scripts/fill.py"), "print()\n").unwrap();
        fs::write(directory.path().join("logo.png"), b"\x89PNG\xff").unwrap();
        let root = Root::resolve(directory.path(), Path::new(".")).unwrap();
        let folder = root.real().display().to_string();
        let mut shelf = Shelf::default();
        let skill = Skill { name: "pdf".into(), description: "Forms".into() };
        let files = Arc::new(SkillFolder::new(root, Path::new("")));
        shelf.put(Shelved { skill, origin: "the test".into(), files, scripts: None, tools: vec![] });
        let mut toolbox = Toolbox::default();
        let tool = Arc::new(ReadSkill::new(Arc::new(shelf), is_here));
        toolbox.insert(tool, Grant::none(), Limits::default(), "the test").unwrap();
        Place { _directory: directory, folder, toolbox }
    }

    async fn call(place: &Place, arguments: Value) -> (bool, String) {
        let call = ToolCall { id: "a".into(), tool: "read_skill".into(), arguments };
        let result = place.toolbox.dispatch(call, &Session::default()).await;
        (result.is_error, result.content)
    }

    #[tokio::test]
    async fn instructions_and_the_files_beside_them_are_given() {
        let here = place(true);
        let folder = &here.folder;
        let expected = format!(
            "# Forms\nRun it.\n\n[Other files of this skill, which `read_skill` gives as `file`: `logo.png`, \
             `scripts/fill.py`. They are in `{folder}`.]"
        );
        assert_eq!(call(&here, json!({ "name": "PDF" })).await, (false, expected.clone()));
        assert_eq!(call(&here, json!({ "name": "pdf", "file": "./SKILL.md" })).await, (false, expected));
        let script = json!({ "name": "pdf", "file": "scripts/fill.py" });
        assert_eq!(call(&here, script).await, (false, "print()\n".into()));
        let away = place(false);
        assert!(!call(&away, json!({ "name": "pdf" })).await.1.contains(&away.folder));
    }

    #[tokio::test]
    async fn what_cannot_be_given_says_why() {
        let place = place(true);
        for (arguments, expected) in [
            (json!({ "name": "pfd" }), "there is no skill `pfd`; did you mean `pdf`? The skills are: `pdf`"),
            (json!({ "name": "pdf", "file": "logo.png" }), "it is not UTF-8 text; the folder is `"),
            (
                json!({ "name": "pdf", "file": "../x" }),
                "cannot read `../x` of the skill `pdf`: it points outside",
            ),
            (json!({ "name": "pdf", "file": "/etc/passwd" }), "it points outside the folder"),
            (json!({ "name": "pdf", "file": "none" }), "No such file"),
        ] {
            let (is_error, content) = call(&place, arguments.clone()).await;
            assert!(is_error && content.contains(expected), "{arguments}: {content}");
        }
    }
}
