//! `haft acp` as an editor sees it: raw JSON-RPC on the standard streams, and the protocol's official client library.

#![expect(clippy::disallowed_methods, reason = "these tests start haft itself")]

mod agents;
mod bounds;
mod editor;
mod library;
mod permissions;
mod prompts;
mod tasks;
mod trust;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use self::editor::Editor;
use crate::backends::host_context::{processes, unusual};
use crate::cli::Home;
use crate::sessions::{Model, Says};

/// A folder whose program uses the scripted `model`, and the home directory of an editor.
struct Place {
    home: Home,
    model: Model,
}

impl Place {
    /// A place whose program asks for approval of every command.
    fn new(script: impl Fn(&[Value]) -> Says + Send + Sync + 'static) -> Self {
        let place = Self { home: Home::new(), model: Model::start(script) };
        place.program("", "shell_confirm = true");
        place
    }

    /// Writes a program.toml into a subfolder of the workspace and returns the folder.
    fn program(&self, folder: &str, builtins: &str) -> PathBuf {
        let folder = self.home.work().join(folder);
        fs::create_dir_all(&folder).unwrap();
        let program = format!(
            "[program]\nname = \"test\"\nversion = \"0.1.0\"\n[sandbox]\nworkspace = \".\"\n\
             [builtins]\nfetch = false\nsearch = false\ntime = false\n{builtins}\n\
             [provider]\nname = \"openai\"\nmodel = \"scripted\"\nbase_url = \"{}\"\n",
            self.model.base_url()
        );
        fs::write(folder.join("program.toml"), program).unwrap();
        folder
    }

    /// Starts haft in `/`, a directory other than the editor's workspace.
    fn editor(&self) -> Editor {
        let mut command = self.home.command(&["acp"]);
        command.current_dir("/");
        Editor::start(command)
    }

    fn folder(&self) -> PathBuf {
        self.home.work()
    }
}

/// Opens a session in `folder` and returns its id.
fn begin(editor: &mut Editor, folder: &Path) -> String {
    let opened = editor.ask("session/new", json!({ "cwd": folder, "mcpServers": [] }));
    opened["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{opened}")).to_owned()
}

fn prompt(session: &str, text: &str) -> Value {
    json!({ "sessionId": session, "prompt": [{ "type": "text", "text": text }] })
}

/// A command that prints that it has begun and then sleeps, and the words of its process, which are unique to this
/// test.
fn sleeping() -> (String, String) {
    let words = format!("sleep {}", unusual());
    (format!("echo begun; {words}"), words)
}

fn lives(words: &str) -> bool {
    !processes(words).is_empty()
}
