//! `haft init`: creates a program.toml and the schema that the file names for editors. Never overwrites an existing
//! file.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;

use super::Exit;
use super::terminal::Terminal;
use haft::program::{Agreement, FILE_NAME};
use haft_manifest::Name;

/// What the first line of the program.toml names.
const SCHEMA: &str = "program.schema.json";

/// The tool of a folder that is in a repository of git: its name, description and command.
const IN_GIT: [&str; 3] = ["log", "Show the latest commits", "git log --oneline -n 20"];

/// The tool of any other folder, where that one would fail.
const ELSEWHERE: [&str; 3] = ["recent", "List the files of the folder, newest first", "ls -lt"];

#[derive(Debug, Args)]
pub(super) struct Init {
    /// The folder to write it to
    #[arg(default_value = ".")]
    folder: PathBuf,
}

impl Init {
    pub(super) async fn execute(self, terminal: Terminal) -> anyhow::Result<Exit> {
        let path = self.folder.join(FILE_NAME);
        let shown = path.display();
        std::fs::create_dir_all(&self.folder)
            .with_context(|| format!("cannot create folder `{}`", self.folder.display()))?;
        let name = Name::of_folder(&self.folder);
        match File::create_new(&path) {
            Ok(mut file) => {
                let [tool, about, command] = if is_in_git(&self.folder) { IN_GIT } else { ELSEWHERE };
                let text = include_str!("init/program.toml").replace("NAME", name.as_str());
                let text = text.replace("TOOL", tool).replace("ABOUT", about).replace("COMMAND", command);
                file.write_all(text.as_bytes()).with_context(|| format!("cannot write `{shown}`"))?;
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                anyhow::bail!("`{shown}` exists already; `haft check` checks it")
            }
            Err(error) => return Err(error).with_context(|| format!("cannot create `{shown}`")),
        }
        let schema = self.folder.join(SCHEMA);
        // An existing schema may be of another haft, and is sufficient.
        if !schema.exists() {
            let text = serde_json::to_string_pretty(&haft_manifest::json_schema())? + "\n";
            std::fs::write(&schema, text).with_context(|| format!("cannot write `{}`", schema.display()))?;
        }
        // A program.toml that haft wrote needs no other consent.
        Agreement::of(Some(&path)).await?.agree_since(&Agreement::default())?;
        terminal
            .message(format_args!("wrote `{shown}`; `haft check` checks it, `haft tools` lists its tools"));
        Ok(Exit::Success)
    }
}

/// Whether the folder or one above it is a repository of git.
fn is_in_git(folder: &Path) -> bool {
    folder.canonicalize().is_ok_and(|folder| folder.ancestors().any(|above| above.join(".git").exists()))
}
