//! `[[agents]]`: agents that the model may call as tools. Nothing is loaded here, and no other program.toml is looked at.

use std::path::PathBuf;
use std::time::Duration;

use haft_core::limit::Limits;
use haft_core::pattern::ToolPattern;
use serde_json::Value;

use super::agent::Agent;
use super::entry::Located;
use super::json;
use super::name::Name;
use super::provider::ProviderName;
use super::section::Section;
use super::table::{FromTable, SHORTEST, Table, table};

table! {
    /// An agent that the model may call as a tool: another program, or a part of this one.
    #[derive(Clone, Debug, PartialEq)]
    pub struct AgentTool = "[[agents]]" {
        /// its tool is called `agent__<name>`
        pub name: Located<Name>,
        /// what it is for, written for the model that calls it
        pub description: String,
        /// What it is.
        #[read(flatten)]
        pub kind: AgentKind,
        /// questions to its model in one call; default as in `[agent]`
        #[read(count 1..=Agent::MAX_MAX_TURNS)]
        #[also("max_steps", "max_iterations", "turns")]
        pub max_turns: Option<u32> = None,
        /// from call to answer; default `30m`
        #[read(time SHORTEST..=Limits::MAX_TIME)]
        #[also("time", "time_limit")]
        pub timeout: Duration = Self::DEFAULT_TIMEOUT,
        /// JSON Schema of its answer; default any words will do
        #[read(Kind::Json, |entry| entry.located(|entry| json::object(entry).map(Value::Object)))]
        #[also("schema", "output_schema")]
        pub output: Option<Located<Value>> = None,
        /// default true
        #[also("disabled")]
        pub enabled: bool = true,
    }
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

table! {
    struct KindKeys = "" {
        /// its program.toml, with its own tools, provider and rights, which are at most those of this program;
        /// without it the agent is a part of this program
        #[also("path", "file")]
        program: Option<Located<PathBuf>> = None,
        /// what its model is told first; default haft's own
        #[also("system", "prompt", "instructions")]
        system_prompt: Option<String> = None,
        /// whose API; default that of the program
        provider: Option<ProviderName> = None,
        /// the model, or `fast` or `complex` of the program; default the program's
        model: Option<String> = None,
        /// which tools of this program it may use; default all but agents
        #[also("allowed_tools")]
        tools: Option<Located<Vec<ToolPattern>>> = None,
    }
}

impl AgentTool {
    /// Half an hour: longer than a task that a model should wait for without being told to.
    const DEFAULT_TIMEOUT: Duration = Duration::from_mins(30);
}

impl FromTable for AgentKind {
    const TABLE: Table = KindKeys::TABLE;

    fn from_table(section: &Section<'_>) -> Option<Self> {
        let KindKeys { program, system_prompt, provider, model, tools } = KindKeys::from_table(section)?;
        let Some(program) = program else {
            return Some(Self::Part { system_prompt, provider, model, tools });
        };
        for key in ["system_prompt", "provider", "model", "tools"].iter().filter(|key| section.has(key)) {
            section.reject(key, "the `program` of this agent says it");
        }
        Some(Self::Program(program))
    }
}
