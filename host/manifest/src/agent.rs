//! `[agent]`: how the agent works. What the tools are called is not checked here, because
//! plugins and servers bring their own; nor is a schema.

use std::path::PathBuf;

use haft_core::model::Route;
use haft_core::pattern::ToolPattern;
use serde_json::Value;

use super::entry::{Entry, Located};
use super::json;
use super::rules::RuleTable;
use super::table::{FromValue, Kind, table};

/// What the answer of a task is to look like: a JSON Schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerForm {
    /// In this file, as written.
    File(PathBuf),
    /// Here.
    Table(Value),
}

impl FromValue for AnswerForm {
    const KIND: Kind = Kind::PathOrJson;

    fn from_value(entry: &Entry<'_>) -> Option<Self> {
        if entry.raw().is_table() {
            return json::object(entry).map(|schema| Self::Table(schema.into()));
        }
        if entry.raw().is_str() {
            return entry.path().map(Self::File);
        }
        entry.wrong_type("the path of a JSON Schema, or a table that is one")
    }
}

table! {
    /// How the agent works.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Agent = "[agent]" {
        /// what the model is told first; default haft's own
        #[also("system", "prompt", "instructions")]
        pub system_prompt: Option<String> = None,
        /// `complex` (default) and `fast` always ask that model, `auto` has the fast one choose
        #[also("routing", "model")]
        pub route: Route = Route::Complex,
        /// questions to the model in one run; default 50
        #[read(count 1..=Self::MAX_MAX_TURNS)]
        #[also("max_steps", "max_iterations", "turns")]
        pub max_turns: u32 = 50,
        /// which tools it is offered, such as `mcp__git__*`; default all
        #[also("allowed_tools")]
        pub tools: Option<Located<Vec<ToolPattern>>> = None,
        /// Which calls run, are asked about or refused.
        #[read(flatten)]
        pub rules: RuleTable = RuleTable::default(),
        // Bytes of JSON / 4. What does not fit stays reachable through a search tool.
        /// rough tokens that the list of tools may take; default no limit
        #[read(count 1..=Self::MAX_CONTEXT)]
        #[also("budget")]
        pub tool_budget: Option<u32> = None,
        // Bytes / 4. Of a longer conversation the beginning is left out; less has no room for a task and one answer.
        /// rough tokens of the conversation that the model is shown; default 100000
        #[read(count 1000..=Self::MAX_CONTEXT)]
        #[also("context", "max_context", "token_budget")]
        pub history_budget: u32 = 100_000,
        /// whether the fast model sums up what is left out; default where there is one
        #[also("summarize", "compact", "compaction")]
        pub summarise: Option<bool> = None,
        /// how often one failing call is repeated; default 2
        #[read(count 0..=100)]
        pub max_repeats: u32 = 2,
        /// whether it is told what `AGENTS.md`, or `CLAUDE.md`, of the workspace and its repository say; default true
        #[also("project_instructions", "instructions_file")]
        pub agents_md: bool = true,
        /// whether it is told of the skills in `.agents/skills` of these and of your home; default true
        pub skills: bool = true,
        /// JSON Schema of the answer of `haft run`: a file such as `answer.schema.json`, or a table
        #[also("schema", "output_schema", "response_format")]
        pub output: Option<Located<AnswerForm>> = None,
        /// US dollars after which a task ends; default no limit
        #[also("budget_usd", "cost", "max_budget")]
        pub max_cost: Option<f64> = None,
        // More than any task has money for.
        /// tokens, read and written, after which a task ends; default no limit
        #[read(count 1..=4_000_000_000)]
        #[also("max_tokens", "max_total_tokens")]
        pub max_tokens_total: Option<u32> = None,
    }
}

impl Agent {
    /// More turns than any run has money for.
    pub(crate) const MAX_MAX_TURNS: u32 = 10_000;
    /// Tokens; larger than any model's context.
    const MAX_CONTEXT: u32 = 10_000_000;
}
