//! A line of a session's file. Its form is this version's to write and every later one's to read: what is not known
//! is passed over, what is missing has a default.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::End;
use crate::provider::{Prompt, Reply, Stop, Usage};
use haft_core::call::{Attachment, ToolResult};

/// A line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// When it was written, UTC, to the millisecond.
    pub time: Timestamp,
    /// What it says.
    #[serde(flatten)]
    pub entry: Entry,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Entry {
    /// The session began: the first line of every file.
    Begun(Begun),
    /// Another process goes on with it.
    Resumed {
        /// The process of haft.
        pid: u32,
        /// The version of haft.
        haft: String,
    },
    /// A person said something.
    Said {
        /// What.
        text: String,
        /// The files that came with it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<Attachment>,
    },
    /// The model took a turn.
    Turn(Box<Turned>),
    /// A tool runs from now on, for a call of the last turn.
    Running {
        /// The call's id.
        call: String,
    },
    /// A call of the last turn was answered.
    Answered {
        /// The call's id.
        call: String,
        /// The answer.
        result: ToolResult,
        /// From dispatch to answer; 0 where no tool ran.
        #[serde(default)]
        duration_ms: u64,
        /// Whether the outcome of the call is unknown: haft was ended while its tool ran.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        unknown: bool,
    },
    /// The beginning of the conversation was summed up, and is not shown to the model any more.
    Summarised(Summarised),
    /// What a person asked for came to an end.
    Ended(Ended),
    /// Something that a later version knows.
    #[serde(other)]
    Other,
}

/// How a session began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Begun {
    /// The version of this form: 1.
    pub v: u32,
    /// Eight hexadecimal digits that no other session of this machine has.
    pub id: String,
    /// `[program] name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// The program.toml.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// The agent whose conversation it is, where it worked for another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The call that it answered, as the journal calls it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The folder that haft was started in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<PathBuf>,
    /// The process of haft.
    pub pid: u32,
    /// The version of haft.
    pub haft: String,
}

/// A turn of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Turned {
    /// What it said and wants done.
    pub reply: Reply,
    /// Why it stopped.
    pub stop: Stop,
    /// What it cost.
    #[serde(default)]
    pub usage: Usage,
    /// The model that answered.
    #[serde(default)]
    pub model: String,
}

/// What a model made of the beginning of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summarised {
    /// How many messages it stands for: those at the beginning.
    pub messages: usize,
    /// What it says.
    pub text: String,
    /// The model that wrote it.
    #[serde(default)]
    pub model: String,
    /// What it cost.
    #[serde(default)]
    pub usage: Usage,
}

/// How what a person asked for ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// How; `None` where the model could not be asked.
    pub end: Option<End>,
    /// Why it could not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Entry {
    /// That a person said `prompt`.
    pub(crate) fn said(prompt: &Prompt) -> Self {
        let Prompt { text, attachments } = prompt.clone();
        Self::Said { text, attachments }
    }
}

impl Line {
    /// The line of what happens now.
    pub(super) fn now(entry: Entry) -> Self {
        Self { time: now(), entry }
    }
}

impl Begun {
    /// The beginning of a session of the program with this name in this file, if it has them, in this folder. It
    /// gets its id when its file is made.
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

    /// Whether it is one of the same program in the same folder.
    pub fn is_like(&self, other: &Self) -> bool {
        self.path == other.path && self.folder == other.folder
    }
}

/// Now, as precisely as people compare times.
pub(super) fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_come_back_as_they_were_written() {
        let turned = Turned {
            reply: Reply {
                text: "ä".into(),
                calls: Vec::new(),
                raw: json!({ "content": [1, null] }),
                ..Reply::default()
            },
            stop: Stop::Done,
            usage: Usage { input: 1, output: 2, ..Usage::default() },
            model: "m".into(),
        };
        let result = ToolResult::error("no");
        for entry in [
            Entry::Begun(Begun::new(Some("p"), None, Some(Path::new("/w")))),
            Entry::said(&"a\nb".into()),
            Entry::said(&Prompt {
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
        assert_eq!(serde_json::from_str::<Line>(line).unwrap().entry, Entry::said(&"x".into()));
    }

    /// What is written of a prompt without files every earlier version reads.
    #[test]
    fn a_prompt_without_files_is_written_as_ever() {
        let line = serde_json::to_value(Line::now(Entry::said(&"x".into()))).unwrap();
        assert_eq!((line.as_object().unwrap().len(), &line["text"]), (3, &json!("x")));
    }
}
