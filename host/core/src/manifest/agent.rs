//! `[agent]`: how the agent works. What the tools are called is not checked here, because
//! plugins and servers bring their own; nor is a schema.

use std::path::PathBuf;

use serde_json::Value;

use super::catalogue::AGENT;
use super::entry::{Entry, Located};
use super::json;
use super::pattern::ToolPattern;
use super::rule::RuleTable;
use super::section::Section;

/// Which model works on a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Route {
    /// The one for the work itself.
    #[default]
    Complex,
    /// The one for small decisions.
    Fast,
    /// The fast one says which.
    Auto,
}

/// The routes, as program.toml and `--model` call them.
pub const ROUTES: &[(&str, Route)] =
    &[("complex", Route::Complex), ("fast", Route::Fast), ("auto", Route::Auto)];

/// What the answer of a task is to look like: a JSON Schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerForm {
    /// In this file, as written.
    File(PathBuf),
    /// Here.
    Table(Value),
}

impl AnswerForm {
    fn read(entry: &Entry<'_>) -> Option<Self> {
        if entry.raw().is_table() {
            return json::object(entry).map(|schema| Self::Table(schema.into()));
        }
        if entry.raw().is_str() {
            return entry.path().map(Self::File);
        }
        entry.wrong_type("the path of a JSON Schema, or a table that is one")
    }
}

/// `[agent]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Agent {
    /// What the model is told first; `None`: haft's own.
    pub system_prompt: Option<String>,
    /// Which model works on a task.
    pub route: Route,
    /// Questions to the model in one run; at least 1.
    pub max_turns: u32,
    /// Which tools it is offered, by exposed name; `None`: all, empty: none at all.
    pub tools: Option<Located<Vec<ToolPattern>>>,
    /// Which calls run, are asked about or refused.
    pub rules: RuleTable,
    /// Rough tokens (bytes of JSON / 4) that the list of tools may take. What does not fit stays
    /// reachable through a search tool; `None`: no limit.
    pub tool_budget: Option<u32>,
    /// Rough tokens (bytes / 4) of the conversation that the model is shown. Of a longer one the beginning is left
    /// out.
    pub history_budget: u32,
    /// Whether the fast model sums up what is left out; `None`: where there is one beside the other.
    pub summarise: Option<bool>,
    /// How often the same failing call is carried out again before it is refused.
    pub max_repeats: u32,
    /// Whether it is told what the `AGENTS.md` of the workspace's repository say.
    pub agents_md: bool,
    /// Whether it is told of the skills of the workspace's repository and of the person's own; those of packages are
    /// part of the packages.
    pub skills: bool,
    /// What the answer of `haft run` is to look like; `None`: any text.
    pub output: Option<Located<AnswerForm>>,
    /// US dollars that a task may cost before it ends; `None`: no limit.
    pub max_cost: Option<f64>,
    /// Tokens, read and written, that a task may take before it ends; `None`: no limit.
    pub max_tokens_total: Option<u32>,
}

impl Default for Agent {
    fn default() -> Self {
        Self {
            system_prompt: None,
            route: Route::Complex,
            max_turns: 50,
            tools: None,
            rules: RuleTable::default(),
            tool_budget: None,
            history_budget: 100_000,
            summarise: None,
            max_repeats: 2,
            agents_md: true,
            skills: true,
            output: None,
            max_cost: None,
            max_tokens_total: None,
        }
    }
}

impl Agent {
    /// More turns than any run has money for.
    pub(crate) const MAX_MAX_TURNS: u32 = 10_000;
    /// Tokens; larger than any model's context.
    pub(crate) const MAX_TOOL_BUDGET: u32 = 10_000_000;
    /// Tokens; less has no room for a task and one answer.
    pub(crate) const MIN_HISTORY_BUDGET: u32 = 1000;
    /// Tokens; larger than any model's context.
    pub(crate) const MAX_HISTORY_BUDGET: u32 = 10_000_000;
    /// Tokens; more than any task has money for.
    pub(crate) const MAX_MAX_TOKENS_TOTAL: u32 = 4_000_000_000;
    /// A call that failed so often fails again.
    pub(crate) const MAX_MAX_REPEATS: u32 = 100;

    pub(super) fn read(root: &Section<'_>) -> Self {
        let default = Self::default();
        let Some(section) = root.get("agent", |entry| entry.section(&AGENT)) else {
            return default;
        };
        let flag = |key| section.get(key, Entry::flag).unwrap_or(true);
        let count = |key, range| section.get(key, |entry| entry.count(range));
        Self {
            system_prompt: section.get("system_prompt", Entry::text),
            route: section.get("route", |entry| entry.one_of(ROUTES)).unwrap_or_default(),
            max_turns: count("max_turns", 1..=Self::MAX_MAX_TURNS).unwrap_or(default.max_turns),
            tools: section.get("tools", |entry| entry.located(Entry::tool_patterns)),
            rules: RuleTable::read(&section),
            tool_budget: count("tool_budget", 1..=Self::MAX_TOOL_BUDGET),
            history_budget: count("history_budget", Self::MIN_HISTORY_BUDGET..=Self::MAX_HISTORY_BUDGET)
                .unwrap_or(default.history_budget),
            summarise: section.get("summarise", Entry::flag),
            max_repeats: count("max_repeats", 0..=Self::MAX_MAX_REPEATS).unwrap_or(default.max_repeats),
            agents_md: flag("agents_md"),
            skills: flag("skills"),
            output: section.get("output", |entry| entry.located(AnswerForm::read)),
            max_cost: section.get("max_cost", Entry::price),
            max_tokens_total: count("max_tokens_total", 1..=Self::MAX_MAX_TOKENS_TOTAL),
        }
    }
}
