//! Sessions as a user sees them: the saved data of a run, its continuation after any end, and `haft chat` at a real
//! terminal.

#![expect(clippy::disallowed_methods, reason = "these tests start haft itself, and a terminal for it")]

mod asking;
mod attached;
mod chat;
mod endures;
mod kept;
mod kill;
mod long;
mod model;
mod plan;
mod prompts;
mod room;
mod shown;
mod steering;
pub(crate) mod terminal;
mod undo;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

pub(crate) use self::model::{Model, Says, answers, asked};
use crate::cli::{Answer, Home};

/// A workspace whose program uses `model`.
struct Place {
    home: Home,
    model: Model,
}

impl Place {
    fn new(model: Model, more: &str) -> Self {
        let home = Home::new();
        let program = format!(
            "[program]\nname = \"test\"\nversion = \"0.1.0\"\n[sandbox]\nworkspace = \".\"\n\
             [builtins]\nfetch = false\nsearch = false\ntime = false\n{more}\n\
             [provider]\nname = \"openai\"\nmodel = \"scripted\"\nbase_url = \"{}\"\n",
            model.base_url()
        );
        home.write("program.toml", &program);
        Self { home, model }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.home.command(arguments);
        command
            .env("XDG_STATE_HOME", self.state())
            .env("XDG_CONFIG_HOME", self.home.work().join("../config"));
        command
    }

    fn haft(&self, arguments: &[&str]) -> Answer {
        Answer::from(self.command(arguments).output().unwrap())
    }

    fn state(&self) -> PathBuf {
        self.home.work().parent().unwrap().join("state")
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.home.work().join(name)).unwrap_or_default()
    }

    /// The files of the sessions.
    fn files(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.state().join("haft/sessions")) else { return Vec::new() };
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    /// The sessions in the output of `haft session list`.
    fn listed(&self) -> Vec<Value> {
        let answer = self.haft(&["session", "list", "--json"]);
        assert_eq!(answer.code, 0, "{}", answer.stderr);
        answer.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}
