//! `[agent]` and `[[agents]]`: how the agent works, its rules, and the agents that the model may call as
//! tools. Checks no name of a tool, because plugins and servers bring their own, and no schema. Opens no
//! other program.toml.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use super::entry::{Entry, Located};
use super::name::Name;
use super::provider::ProviderName;
use super::section::Section;
use super::table::{FromTable, FromValue, Kind, SHORTEST, Table, table};
use super::values::json_object;
use haft_core::limit::Limits;
use haft_core::model::Route;
use haft_core::pattern::ToolPattern;
use haft_core::rule::{Effect, RulePattern};

/// The JSON Schema of the answer of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerForm {
    /// The path of a file, unmodified.
    File(PathBuf),
    /// The schema itself.
    Table(Value),
}

impl FromValue for AnswerForm {
    const KIND: Kind = Kind::PathOrJson;

    fn from_value(entry: &Entry<'_>) -> Option<Self> {
        if entry.raw().is_table() {
            return json_object(entry).map(|schema| Self::Table(schema.into()));
        }
        if entry.raw().is_str() {
            return entry.path().map(Self::File);
        }
        entry.wrong_type("the path of a JSON Schema, or a JSON Schema as a table")
    }
}

table! {
    /// How the agent works.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Agent = "[agent]" {
        /// the system prompt; default haft's own
        #[also("system", "prompt", "instructions")]
        pub system_prompt: Option<String> = None,
        /// `complex` (default) and `fast` always use that model; with `auto` the fast model chooses
        #[also("routing", "model")]
        pub route: Route = Route::Complex,
        /// maximum model requests of a run; default 50
        #[read(count 1..=Self::MAX_MAX_TURNS)]
        #[also("max_steps", "max_iterations", "turns")]
        pub max_turns: u32 = 50,
        /// the tools that the model is offered, such as `mcp__git__*`; default all
        #[also("allowed_tools")]
        pub tools: Option<Located<Vec<ToolPattern>>> = None,
        /// Which calls run, are asked about or refused.
        #[read(flatten)]
        pub rules: RuleTable = RuleTable::default(),
        // Bytes of JSON / 4. What does not fit stays reachable through a search tool.
        /// maximum (estimated) tokens of the tool list; default no limit
        #[read(count 1..=Self::MAX_CONTEXT)]
        #[also("budget")]
        pub tool_budget: Option<u32> = None,
        // Bytes / 4. Of a longer conversation the beginning is left out; less has no room for a task and one answer.
        /// maximum (estimated) tokens of the conversation that the model reads; default 100000
        #[read(count 1000..=Self::MAX_CONTEXT)]
        #[also("context", "max_context", "token_budget")]
        pub history_budget: u32 = 100_000,
        /// whether the fast model summarises left-out messages; default true if there is a fast model
        #[also("summarize", "compact", "compaction")]
        pub summarise: Option<bool> = None,
        /// maximum repeats of a failing call; default 2
        #[read(count 0..=100)]
        pub max_repeats: u32 = 2,
        /// whether the model reads `AGENTS.md`, or `CLAUDE.md`, of the workspace and its repository; default
        /// true
        #[also("project_instructions", "instructions_file")]
        pub agents_md: bool = true,
        /// whether the model sees the skills in `.agents/skills` of these folders and of your home; default
        /// true
        pub skills: bool = true,
        /// JSON Schema of the answer of `haft run`: a file such as `answer.schema.json`, or a table
        #[also("schema", "output_schema", "response_format")]
        pub output: Option<Located<AnswerForm>> = None,
        /// cost limit of a task in US dollars; default no limit
        #[also("budget_usd", "cost", "max_budget")]
        pub max_cost: Option<f64> = None,
        // More than any task has money for.
        /// limit of input and output tokens of a task; default no limit
        #[read(count 1..=4_000_000_000)]
        #[also("max_tokens", "max_total_tokens")]
        pub max_tokens_total: Option<u32> = None,
    }
}

impl Agent {
    /// The maximum number of turns: more than any run has money for.
    pub(crate) const MAX_MAX_TURNS: u32 = 10_000;
    /// The maximum number of tokens: larger than any model's context.
    const MAX_CONTEXT: u32 = 10_000_000;
}

table! {
    /// `allow`, `ask`, `deny` and `otherwise` of `[agent]`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct RuleTable = "" {
        /// calls that run without approval, such as `bash(git status *)`
        #[also("allowed", "permissions")]
        pub allow: Vec<Located<RulePattern>> = Vec::new(),
        /// calls that need a person's approval; overrides `allow`
        #[also("confirm", "approve")]
        pub ask: Vec<Located<RulePattern>> = Vec::new(),
        /// calls that never run; overrides `ask` and `allow`
        #[also("denied", "forbid", "block")]
        pub deny: Vec<Located<RulePattern>> = Vec::new(),
        // Where it is absent they run too, unless `confirm` and its like ask.
        /// the rule for all other calls: `allow` (default), `ask` or `deny`
        #[also("default", "rest")]
        pub otherwise: Option<Located<Effect>> = None,
    }
}

impl RuleTable {
    /// Returns every rule with its effect, in the order of precedence: deny, ask, allow.
    pub fn all(&self) -> impl Iterator<Item = (Effect, &Located<RulePattern>)> {
        let lists = [(Effect::Deny, &self.deny), (Effect::Ask, &self.ask), (Effect::Allow, &self.allow)];
        lists.into_iter().flat_map(|(effect, rules)| rules.iter().map(move |rule| (effect, rule)))
    }
}

table! {
    /// An agent that the model may call as a tool: another program, or a part of this one.
    #[derive(Clone, Debug, PartialEq)]
    pub struct AgentTool = "[[agents]]" {
        /// the agent's name; its tool is named `agent__<name>`
        pub name: Located<Name>,
        /// its purpose, written for the model that calls it
        pub description: String,
        /// What it is.
        #[read(flatten)]
        pub kind: AgentKind,
        /// maximum model requests of a call; default as in `[agent]`
        #[read(count 1..=Agent::MAX_MAX_TURNS)]
        #[also("max_steps", "max_iterations", "turns")]
        pub max_turns: Option<u32> = None,
        /// time limit of a call; default `30m`
        #[read(time SHORTEST..=Limits::MAX_TIME)]
        #[also("time", "time_limit")]
        pub timeout: Duration = Self::DEFAULT_TIMEOUT,
        /// JSON Schema of its answer; default any text
        #[read(Kind::Json, |entry| entry.located(|entry| json_object(entry).map(Value::Object)))]
        #[also("schema", "output_schema")]
        pub output: Option<Located<Value>> = None,
        /// default true
        #[also("disabled")]
        pub enabled: bool = true,
    }
}

/// The kinds of agents.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentKind {
    /// A program with a file of its own.
    Program(Located<PathBuf>),
    /// A part of this program.
    Part {
        /// What its model is told first; `None`: haft's own.
        system_prompt: Option<String>,
        /// Whose API, instead of `[provider] name`.
        provider: Option<ProviderName>,
        /// The model; `fast` and `complex` are the program's.
        model: Option<String>,
        /// Which tools of the program it may use; `None`: all but agents.
        tools: Option<Located<Vec<ToolPattern>>>,
    },
}

table! {
    struct KindKeys = "" {
        /// its program.toml, with its own tools, provider and rights (never more than this program's);
        /// without this key the agent is a part of this program
        #[also("path", "file")]
        program: Option<Located<PathBuf>> = None,
        /// the system prompt; default haft's own
        #[also("system", "prompt", "instructions")]
        system_prompt: Option<String> = None,
        /// the API; default the program's
        provider: Option<ProviderName> = None,
        /// the model, or `fast` or `complex` of the program; default the program's
        model: Option<String> = None,
        /// the tools of this program that it may use; default all except agents
        #[also("allowed_tools")]
        tools: Option<Located<Vec<ToolPattern>>> = None,
    }
}

impl AgentTool {
    /// The default limit of time: longer than a task that a model should wait for without an explicit setting.
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
            section.reject(key, "set it in the `program` of this agent");
        }
        Some(Self::Program(program))
    }
}
