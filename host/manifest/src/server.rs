//! `[[mcp_servers]]`: the MCP servers whose tools a program uses. Starts no server and opens no connection.

use std::time::Duration;

use haft_core::limit::Limits;
use haft_core::pattern::ToolPattern;

use super::entry::Located;
use super::label::{LABELS, Label};
use super::name::{Name, Variable};
use super::oauth::OAuth;
use super::process::{ProcessGrant, ServerLimits};
use super::secret::{HEADERS, TextOrSecret, headers};
use super::section::{Section, note_duplicates};
use super::table::{FromTable, FromValue, Key, Row, SHORTEST, Table, table};
use super::values::URL;

table! {
    /// An MCP server: a child process (`command`) or streamable HTTP (`url`).
    #[derive(Clone, Debug, PartialEq)]
    pub struct McpServer = "[[mcp_servers]]" {
        /// its tools are called `mcp__<name>__<tool>`
        pub name: Located<Name>,
        /// How it is reached.
        #[read(flatten)]
        pub transport: Transport,
        /// default true
        #[also("disabled")]
        pub enabled: bool = true,
        /// which of its tools to offer; default all
        pub tools: Option<Vec<ToolPattern>> = None,
        /// whether a changed, new or renamed tool is held back until you agree; `false` where its tools change by login
        #[also("pin", "lock", "locked")]
        pub pinned: bool = true,
        /// for one request; default `120s`
        #[read(time SHORTEST..=Limits::MAX_TIME)]
        #[also("request_timeout")]
        pub timeout: Duration = Self::DEFAULT_TIMEOUT,
        // More fits no model.
        /// characters of one answer; default 100000
        #[read(count 1..=10_000_000)]
        #[also("limit")]
        pub max_result: u32 = Self::DEFAULT_MAX_RESULT,
        /// what its process may do; default it reads what you may read, writes the workspace and has the network
        #[also("grants", "permissions", "allow", "capabilities", "sandbox")]
        pub grant: Option<ProcessGrant> = None,
        /// what its processes may use
        pub limits: ServerLimits = ServerLimits::default(),
        /// labels of the workers that it lives on, `*` for any; default here
        #[read(LABELS, Label::read_list)]
        #[also("labels", "workers")]
        pub on: Vec<Label> = Vec::new(),
    }
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
        /// How a person logs in there.
        oauth: OAuth,
    },
}

table! {
    struct TransportKeys = "" {
        /// starts the server; split as a shell splits words, or an array
        #[read(Kind::Command, |entry| entry.located(Entry::command))]
        #[also("cmd")]
        command: Option<Located<Vec<String>>> = None,
        /// more words for the command
        #[read(Kind::List(&Kind::Word), |entry| entry.list(Entry::word))]
        #[also("arguments")]
        args: Vec<String> = Vec::new(),
        /// variables it gets besides PATH, HOME and the like
        #[read(Kind::Map(&Kind::TextOrSecret), |entry| entry.texts_and_secrets(check_variable))]
        #[also("environment")]
        env: Vec<(String, TextOrSecret)> = Vec::new(),
        /// where the server answers
        #[read(URL, |entry| entry.located(Entry::url))]
        #[also("endpoint", "base_url")]
        url: Option<Located<String>> = None,
        /// sent with every request to `url`
        #[read(HEADERS, headers)]
        headers: Vec<(String, TextOrSecret)> = Vec::new(),
        /// how `haft mcp login` logs in at `url`; default as the server's own documents say
        #[also("auth", "login")]
        oauth: OAuth = OAuth::default(),
    }
}

impl McpServer {
    /// Two minutes: servers that start a browser or a build answer by then.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_mins(2);
    /// Characters; twice what `read` may return.
    pub const DEFAULT_MAX_RESULT: u32 = 100_000;

    /// Both names of the list, which are read into one.
    pub(super) const ROWS: &[Row] = &[
        Row::Key(Key {
            name: "mcp_servers",
            kind: Vec::<Self>::KIND,
            required: false,
            doc: "MCP servers whose tools are used",
            also: &["mcpServers", "servers"],
        }),
        Row::Key(Key {
            name: "mcp",
            kind: Vec::<Self>::KIND,
            required: false,
            doc: "the same as `mcp_servers`",
            also: &[],
        }),
    ];

    /// The servers of both lists, no two of one name.
    pub(super) fn read_all(root: &Section<'_>) -> Vec<Self> {
        let sections = |key| root.get(key, |entry| entry.sections(&Self::TABLE)).unwrap_or_default();
        let mut all = sections("mcp_servers");
        all.extend(sections("mcp"));
        let names = all.iter().filter_map(|section| Some((section.span_of("name"), section.name()?)));
        note_duplicates(root.notes(), "MCP servers", names);
        all.iter().filter_map(Self::from_table).collect()
    }
}

impl FromTable for Transport {
    const TABLE: Table = TransportKeys::TABLE;

    fn from_table(section: &Section<'_>) -> Option<Self> {
        let TransportKeys { command, args, env, url, headers, oauth } = TransportKeys::from_table(section)?;
        match (section.has("command"), section.has("url")) {
            (true, false) => note_misplaced(section, &["headers", "oauth"], "url"),
            (false, true) => note_misplaced(section, &["args", "env", "grant", "limits"], "command"),
            (true, true) => section.reject("url", "a server has either a `command` or a `url`"),
            (false, false) => section.reject_whole("a server needs a `command` or a `url`"),
        }
        if let Some(mut command) = command {
            command.value.extend(args);
            return Some(Self::Stdio { command, env });
        }
        if section.has("oauth") && headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"))
        {
            section.reject("oauth", "the header `Authorization` says who asks already");
        }
        Some(Self::Http { url: url?, headers, oauth })
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
