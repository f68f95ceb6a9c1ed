//! `[[agents]]`: agents that the model may call as tools. Nothing is loaded here, and no other program.toml is looked at.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use super::catalogue::AGENTS;
use super::entry::{Entry, Located};
use super::json;
use super::name::Name;
use super::pattern::ToolPattern;
use super::provider::{NAMES, ProviderName};
use super::section::{Section, note_duplicates};
use crate::limit::Limits;

/// An agent that the model may call as a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentTool {
    /// Its tool is called `agent__<name>`.
    pub name: Located<Name>,
    /// What it is for, written for the model that calls it.
    pub description: String,
    /// What it is.
    pub kind: AgentKind,
    /// One that is not enabled is checked and not offered.
    pub enabled: bool,
    /// Questions to its model in one call; `None`: as its program says.
    pub max_turns: Option<u32>,
    /// From call to answer.
    pub timeout: Duration,
    /// JSON Schema of its answer; `None`: any words will do.
    pub output: Option<Located<Value>>,
}

/// What an agent is.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentKind {
    /// A program with a file of its own.
    Program(Located<PathBuf>),
    /// A part of this program.
    Part {
        /// What its model is told first; `None`: haft's own.
        system_prompt: Option<String>,
        /// Whose API, in the place of `[provider] name`.
        provider: Option<ProviderName>,
        /// The model; `fast` and `complex` are the program's.
        model: Option<String>,
        /// Which tools of the program it may use; `None`: all but agents.
        tools: Option<Located<Vec<ToolPattern>>>,
    },
}

/// Keys of an agent that is a part of this program.
const OF_PART: [&str; 4] = ["system_prompt", "provider", "model", "tools"];

impl AgentTool {
    /// Half an hour: longer than a task that a model should wait for without being told to.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_mins(30);

    pub(super) fn read_all(root: &Section<'_>) -> Vec<Self> {
        let sections = root.tables("agents", &AGENTS);
        let names = sections.iter().filter_map(|section| Some((section.span_of("name"), section.name()?)));
        note_duplicates(root.notes(), "agents", names);
        sections.iter().filter_map(Self::read).collect()
    }

    fn read(section: &Section<'_>) -> Option<Self> {
        let name = section.require("name", |entry| entry.located(Entry::parse));
        let description = section.require("description", Entry::text);
        let kind = AgentKind::read(section);
        let enabled = section.get("enabled", Entry::flag).unwrap_or(true);
        let max_turns = section.get("max_turns", |entry| entry.count(1..=super::Agent::MAX_MAX_TURNS));
        let longest = Duration::from_millis(1)..=Limits::MAX_TIME;
        let timeout = section.get("timeout", |entry| entry.duration(longest));
        let timeout = timeout.unwrap_or(Self::DEFAULT_TIMEOUT);
        let output = section
            .get("output", |entry| entry.located(json::object))
            .map(|output| Located { value: Value::Object(output.value), span: output.span });
        Some(Self { name: name?, description: description?, kind, enabled, max_turns, timeout, output })
    }
}

impl AgentKind {
    fn read(section: &Section<'_>) -> Self {
        let program = section.get("program", Entry::located_path);
        let system_prompt = section.get("system_prompt", Entry::text);
        let provider = section.get("provider", |entry| entry.one_of(NAMES));
        let model = section.get("model", Entry::text);
        let tools = section.get("tools", |entry| entry.located(Entry::tool_patterns));
        let Some(program) = program else { return Self::Part { system_prompt, provider, model, tools } };
        for key in OF_PART.iter().filter(|key| section.has(key)) {
            section.reject(key, "the `program` of this agent says it");
        }
        Self::Program(program)
    }
}
