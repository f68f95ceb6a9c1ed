//! `[[mcp_servers]]`, or `[[mcp]]`: MCP servers whose tools are used. Nothing is started or
//! connected to here.

use std::time::Duration;

use super::catalogue::{MCP_SERVER, SECRET};
use super::entry::{Entry, Located};
use super::label::Label;
use super::name::{Name, Variable};
use super::pattern::ToolPattern;
use super::secret::{TextOrSecret, check_header};
use super::section::{Section, note_duplicates};
use crate::limit::Limits;

/// An MCP server.
#[derive(Clone, Debug, PartialEq)]
pub struct McpServer {
    /// Its tools are called `mcp__<name>__<tool>`.
    pub name: Located<Name>,
    /// How it is reached.
    pub transport: Transport,
    /// A server that is not enabled is checked and not started.
    pub enabled: bool,
    /// Which of its tools are offered, by their own names; `None`: all.
    pub tools: Option<Vec<ToolPattern>>,
    /// For one request.
    pub timeout: Duration,
    /// Characters of one answer that the model is shown.
    pub max_result: u32,
    /// Labels of the workers that start or ask it; none: it is used from here.
    pub on: Vec<Label>,
}

/// How an MCP server is reached.
#[derive(Clone, Debug, PartialEq)]
pub enum Transport {
    /// A child process.
    Stdio {
        /// The words that start it, `args` included; at least one.
        command: Located<Vec<String>>,
        /// Variables it gets besides those every child gets, in the order of the file.
        env: Vec<(String, TextOrSecret)>,
    },
    /// Streamable HTTP.
    Http {
        /// Where it answers.
        url: Located<String>,
        /// Sent with every request, in the order of the file.
        headers: Vec<(String, TextOrSecret)>,
    },
}

impl McpServer {
    /// Two minutes: servers that start a browser or a build answer by then.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_mins(2);
    /// Characters; twice what `read` may return.
    pub const DEFAULT_MAX_RESULT: u32 = 100_000;
    /// Characters; more fits no model.
    pub(crate) const MAX_MAX_RESULT: u32 = 10_000_000;

    pub(super) fn read_all(root: &Section<'_>) -> Vec<Self> {
        let mut sections = root.tables("mcp_servers", &MCP_SERVER);
        sections.extend(root.tables("mcp", &MCP_SERVER));
        let names = sections.iter().filter_map(|section| Some((section.span_of("name"), section.name()?)));
        note_duplicates(root.notes(), "MCP servers", names);
        sections.iter().filter_map(Self::read).collect()
    }

    fn read(section: &Section<'_>) -> Option<Self> {
        let name = section.require("name", |entry| entry.located(Entry::parse));
        let transport = Transport::read(section);
        let enabled = section.get("enabled", Entry::flag).unwrap_or(true);
        let tools = section.get("tools", Entry::tool_patterns);
        let longest = Duration::from_millis(1)..=Limits::MAX_TIME;
        let timeout =
            section.get("timeout", |entry| entry.duration(longest)).unwrap_or(Self::DEFAULT_TIMEOUT);
        let most = section.get("max_result", |entry| entry.count(1..=Self::MAX_MAX_RESULT));
        let max_result = most.unwrap_or(Self::DEFAULT_MAX_RESULT);
        let on = Label::read_on(section);
        Some(Self { name: name?, transport: transport?, enabled, tools, timeout, max_result, on })
    }
}

impl Transport {
    fn read(section: &Section<'_>) -> Option<Self> {
        let command = section.get("command", |entry| entry.located(Entry::command));
        let args = section.list("args", Entry::word);
        let env =
            section.get("env", |entry| entry.texts_and_secrets(&SECRET, check_variable)).unwrap_or_default();
        let url = section.get("url", |entry| entry.located(Entry::url));
        let headers = section.get("headers", |entry| entry.texts_and_secrets(&SECRET, check_header));
        match (section.has("command"), section.has("url")) {
            (true, false) => note_misplaced(section, &["headers"], "url"),
            (false, true) => note_misplaced(section, &["args", "env"], "command"),
            (true, true) => section.reject("url", "a server has either a `command` or a `url`"),
            (false, false) => section.reject_whole("a server needs a `command` or a `url`"),
        }
        if let Some(mut command) = command {
            command.value.extend(args);
            return Some(Self::Stdio { command, env });
        }
        Some(Self::Http { url: url?, headers: headers.unwrap_or_default() })
    }
}

fn note_misplaced(section: &Section<'_>, keys: &[&str], needed: &str) {
    for key in keys.iter().filter(|key| section.has(key)) {
        section.reject(key, format!("belongs to a server with a `{needed}`"));
    }
}

fn check_variable(name: &str) -> Result<(), String> {
    name.parse::<Variable>().map(|_| ()).map_err(|error| error.to_string())
}
