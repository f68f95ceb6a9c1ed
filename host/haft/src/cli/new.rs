//! `haft plugin new`: creates a plugin project, completely or not at all.

use std::path::PathBuf;

use clap::Args;

use super::Exit;
use super::terminal::Terminal;
use haft_author::language;
use haft_author::template::{self, ProjectName};
use haft_author::{Language, Style};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  haft plugin new --lang rust my-tool
  haft plugin new --lang python tools/my-tool")]
pub(super) struct New {
    /// The language to write it in: `rust`, `python`, `js`, `go` or `c`
    #[arg(short, long, value_name = "LANGUAGE", value_parser = known)]
    lang: &'static dyn Language,
    /// Use haft's SDK for the language (Rust only)
    #[arg(long)]
    sdk: bool,
    /// The folder to create; its last part is the plugin's name
    #[arg(value_name = "NAME")]
    folder: PathBuf,
}

impl New {
    pub(super) fn execute(self, terminal: Terminal) -> anyhow::Result<Exit> {
        let name = self.folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let name = ProjectName::new(&name)?;
        let style = if self.sdk { Style::Sdk } else { Style::Typed };
        let paths = template::create(self.lang, style, &name, &self.folder)?;
        let shown = self.folder.display();
        if terminal.json {
            terminal.json(&serde_json::json!({ "folder": self.folder, "files": paths }))?;
            return Ok(Exit::Success);
        }
        let (begin, title) = (self.lang.begin(style), self.lang.facts().title);
        terminal.message(format_args!("created `{shown}`, a plugin in {title}: start with {begin}"));
        terminal.message(format_args!(
            "next: `cd {shown} && haft plugin build`, or `haft plugin dev` there to build on every change"
        ));
        Ok(Exit::Success)
    }
}

fn known(name: &str) -> Result<&'static dyn Language, String> {
    language::find(name).ok_or_else(|| language::unknown(name))
}
