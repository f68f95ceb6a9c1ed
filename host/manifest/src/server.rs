//! `[[mcp_servers]]`: the MCP servers whose tools a program uses. Starts no server and opens no connection.

use std::path::PathBuf;
use std::time::Duration;

use haft_core::limit::Limits;
use haft_core::pattern::ToolPattern;

use super::absent;
use super::entry::Located;
use super::host_secret::{self, ProcessSecret, SECRETS, secrets};
use super::label::{LABELS, Label};
use super::name::{Name, Variable};
use super::oauth::OAuth;
use super::process::{ProcessGrant, ServerLimits};
use super::secret::{HEADERS, TextOrSecret, headers};
use super::section::Section;
use super::table::{FromTable, SHORTEST, Table, table};
use super::values::URL;

table! {
    /// An MCP server: a child process (`command`) or streamable HTTP (`url`).
    #[derive(Clone, Debug, PartialEq)]
    pub struct McpServer = "[[mcp_servers]]" => checked {
        /// the server's name; its tools are named `mcp__<name>__<tool>`
        pub name: Located<Name>,
        /// How it is reached.
        #[read(flatten)]
        pub transport: Transport,
        /// default true
        #[also("disabled")]
        pub enabled: bool = true,
        /// the tools to offer; default all
        pub tools: Option<Vec<ToolPattern>> = None,
        /// whether a changed, new or renamed tool is held back until you agree; set `false` for servers whose
        /// tools depend on the login
        #[also("pin", "lock", "locked")]
        pub pinned: bool = true,
        /// time limit of a request; default `120s`
        #[read(time SHORTEST..=Limits::MAX_TIME)]
        #[also("request_timeout")]
        pub timeout: Duration = Self::DEFAULT_TIMEOUT,
        // More fits no model.
        /// maximum characters of an answer; default 100000
        #[read(count 1..=10_000_000)]
        #[also("limit")]
        pub max_result: u32 = Self::DEFAULT_MAX_RESULT,
        /// what its process may do; default read everything that you may read, write the workspace, use the
        /// network
        #[also("grants", "permissions", "allow", "capabilities", "sandbox")]
        pub grant: Option<ProcessGrant> = None,
        /// secrets that haft puts into the requests of its process to single hosts, and that it never has
        #[read(SECRETS, secrets)]
        #[also("secret")]
        pub secrets: Vec<ProcessSecret> = Vec::new(),
        /// limits of its processes
        pub limits: ServerLimits = ServerLimits::default(),
        /// labels of the workers that run it, `*` for any; default this machine
        #[read(LABELS, Label::read_list)]
        #[also("labels", "workers")]
        pub on: Vec<Label> = Vec::new(),
        /// The folder of the skill whose head declares the server; `None` for an entry of a program.toml.
        #[read(rows &[], absent)]
        pub skill: Option<PathBuf> = None,
    }
}

fn checked(server: McpServer, section: &Section<'_>) -> McpServer {
    let rights = server.grant.as_ref().map(|grant| &grant.rights);
    let (hosts, env): (&[_], &[_]) = rights.map_or((&[], &[]), |rights| (&rights.hosts, &rights.env));
    match &server.transport {
        Transport::Stdio { .. } => host_secret::check(section, &server.secrets, hosts, env),
        Transport::Http { .. } => note_misplaced(section, &["secrets"], "command"),
    }
    server
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
        oauth: Box<OAuth>,
    },
}

table! {
    struct TransportKeys = "" {
        /// the command that starts the server; split as in a shell, or an array
        #[read(Kind::Command, |entry| entry.located(Entry::command))]
        #[also("cmd")]
        command: Option<Located<Vec<String>>> = None,
        /// more arguments of the command
        #[read(Kind::List(&Kind::Word), |entry| entry.list(Entry::word))]
        #[also("arguments")]
        args: Vec<String> = Vec::new(),
        /// variables of its environment, in addition to PATH, HOME and a few others
        #[read(Kind::Map(&Kind::TextOrSecret), |entry| entry.texts_and_secrets(check_variable))]
        #[also("environment")]
        env: Vec<(String, TextOrSecret)> = Vec::new(),
        /// the URL of the server
        #[read(URL, |entry| entry.located(Entry::url))]
        #[also("endpoint", "base_url")]
        url: Option<Located<String>> = None,
        /// sent with every request to `url`
        #[read(HEADERS, headers)]
        headers: Vec<(String, TextOrSecret)> = Vec::new(),
        /// settings of `haft mcp login`; default from the server's metadata
        #[also("auth", "login")]
        oauth: OAuth = OAuth::default(),
    }
}

impl McpServer {
    /// Two minutes: servers that start a browser or a build answer by then.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_mins(2);
    /// Characters; twice what `read` may return.
    pub const DEFAULT_MAX_RESULT: u32 = 100_000;
}

impl FromTable for Transport {
    const TABLE: Table = TransportKeys::TABLE;

    fn from_table(section: &Section<'_>) -> Option<Self> {
        let TransportKeys { command, args, env, url, headers, oauth } = TransportKeys::from_table(section)?;
        match (section.has("command"), section.has("url")) {
            (true, false) => note_misplaced(section, &["headers", "oauth"], "url"),
            (false, true) => note_misplaced(section, &["args", "env", "grant", "limits"], "command"),
            (true, true) => section.reject("url", "expected either a `command` or a `url`, not both"),
            (false, false) => section.reject_whole("expected a `command` or a `url`"),
        }
        if let Some(mut command) = command {
            command.value.extend(args);
            return Some(Self::Stdio { command, env });
        }
        if section.has("oauth") && headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"))
        {
            section.reject("oauth", "cannot be combined with the header `Authorization`");
        }
        Some(Self::Http { url: url?, headers, oauth: Box::new(oauth) })
    }
}

fn note_misplaced(section: &Section<'_>, keys: &[&str], needed: &str) {
    for key in keys.iter().filter(|key| section.has(key)) {
        section.reject(key, format!("only for servers with a `{needed}`"));
    }
}

fn check_variable(name: &str) -> Result<(), String> {
    name.parse::<Variable>().map(|_| ()).map_err(|error| error.to_string())
}
