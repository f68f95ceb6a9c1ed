//! A line in the file of a session. This version writes the format, and every later version reads it: unknown keys
//! are ignored, missing ones have defaults.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::End;
use crate::provider::{Prompt, Turn, Usage};
use haft_core::call::ToolResult;

/// A line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The time of writing, UTC, in milliseconds.
    pub time: Timestamp,
    /// The content.
    #[serde(flatten)]
    pub entry: Entry,
}

/// The content of a line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Entry {
    /// The session began: the first line of every file.
    Begun(Begun),
    /// Another process continues the session.
    Resumed {
        /// The process id of haft.
        pid: u32,
        /// The version of haft.
        haft: String,
    },
    /// A prompt of a person.
    Said(Prompt),
    /// A turn of the model.
    Turn(Box<Turn>),
    /// The tool of a call of the last turn is about to run.
    Running {
        /// The id of the call.
        call: String,
    },
    /// The answer to a call of the last turn.
    Answered {
        /// The id of the call.
        call: String,
        /// The answer.
        result: ToolResult,
        /// The time from dispatch to answer in milliseconds; 0 if no tool ran.
        #[serde(default)]
        duration_ms: u64,
        /// Whether the outcome of the call is unknown: haft ended while its tool ran.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        unknown: bool,
    },
    /// The beginning of the conversation was summarised, and the model no longer sees it.
    Summarised(Summarised),
    /// A task ended.
    Ended(Ended),
    /// An entry of a later version.
    #[serde(other)]
    Other,
}

/// The beginning of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Begun {
    /// The version of this format: 1.
    pub v: u32,
    /// Eight hexadecimal digits, unique on this machine.
    pub id: String,
    /// `[program] name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// The path of program.toml.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// The agent of the conversation, if it worked for another agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The call that the agent answered, by its id in the journal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The folder in which haft was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<PathBuf>,
    /// The process id of haft.
    pub pid: u32,
    /// The version of haft.
    pub haft: String,
}

/// The summary of the beginning of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summarised {
    /// The number of messages, from the beginning, that it replaces.
    pub messages: usize,
    /// The text.
    pub text: String,
    /// The model that wrote the summary.
    #[serde(default)]
    pub model: String,
    /// The usage of the summary.
    #[serde(default)]
    pub usage: Usage,
}

/// The end of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// The end of the task; `None` if the model could not be asked.
    pub end: Option<End>,
    /// The reason why the model could not be asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Line {
    pub(super) fn now(entry: Entry) -> Self {
        let now = Timestamp::now();
        // In milliseconds.
        Self { time: Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now), entry }
    }
}

impl Begun {
    /// Returns the beginning of a session of a program, with its name, file and folder if given. The session gets
    /// its id when its file is created.
    pub fn new(program: Option<&str>, path: Option<&Path>, folder: Option<&Path>) -> Self {
        Self {
            v: 1,
            id: String::new(),
            program: program.map(str::to_owned),
            agent: None,
            parent: None,
            path: path.map(|path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned())),
            folder: folder.map(Path::to_owned),
            pid: std::process::id(),
            haft: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    /// Returns whether `other` is a session of this program in this folder.
    pub fn is_like(&self, other: &Self) -> bool {
        self.path == other.path && self.folder == other.folder
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::provider::{Reply, Stop};
    use haft_core::call::Attachment;

    #[test]
    fn lines_come_back_as_they_were_written() {
        let turned = Turn {
            reply: Reply {
                text: "ä".into(),
                calls: Vec::new(),
                raw: json!({ "content": [1, null] }),
                ..Reply::default()
            },
            stop: Stop::Done,
            usage: Usage { input: 1, output: 2, ..Usage::default() },
            wasted: Usage::default(),
            model: "m".into(),
        };
        let result = ToolResult::error("no");
        for entry in [
            Entry::Begun(Begun::new(Some("p"), None, Some(Path::new("/w")))),
            Entry::Said("a\nb".into()),
            Entry::Said(Prompt {
                text: "a".into(),
                attachments: vec![Attachment::new("image/png", vec![0])],
            }),
            Entry::Turn(Box::new(turned)),
            Entry::Answered { call: "c".into(), result, duration_ms: 3, unknown: true },
            Entry::Summarised(Summarised {
                messages: 7,
                text: "so far".into(),
                model: "small".into(),
                usage: Usage { input: 1, ..Usage::default() },
            }),
            Entry::Ended(Ended { end: Some(End::TurnCap), error: None }),
        ] {
            let line = Line::now(entry);
            let text = serde_json::to_string(&line).unwrap();
            assert_eq!(serde_json::from_str::<Line>(&text).unwrap(), line, "{text}");
        }
    }

    /// A session of a later version can be read.
    #[test]
    fn what_a_later_version_writes_is_passed_over() {
        let line = r#"{"time":"2026-01-01T00:00:00Z","kind":"dreamt","of":{"sheep":3}}"#;
        assert_eq!(serde_json::from_str::<Line>(line).unwrap().entry, Entry::Other);
        let line = r#"{"time":"2026-01-01T00:00:00Z","kind":"said","text":"x","loudly":true}"#;
        assert_eq!(serde_json::from_str::<Line>(line).unwrap().entry, Entry::Said("x".into()));
    }

    /// Every earlier version can read a prompt without files.
    #[test]
    fn a_prompt_without_files_is_written_as_ever() {
        let line = serde_json::to_value(Line::now(Entry::Said("x".into()))).unwrap();
        assert_eq!((line.as_object().unwrap().len(), &line["text"]), (3, &json!("x")));
    }
}
