//! `[[mcp_servers]]`: the MCP servers whose tools a program uses, and the logins at them. Starts no server and opens no
//! connection; program.toml contains no token.

use std::path::PathBuf;
use std::time::Duration;

use haft_core::limit::Limits;
use haft_core::pattern::ToolPattern;
use haft_core::report::item;

use super::absent;
use super::entry::Located;
use super::host_secret::{self, ProcessSecret, SECRETS, secrets};
use super::name::{Label, Name, Variable};
use super::process::{ProcessGrant, ServerLimits};
use super::secret::{HEADERS, SecretSource, TextOrSecret, headers};
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

table! {
    /// How `haft mcp login` logs in at a server (OAuth 2.1). Absent: as the server's own documents say.
    #[derive(Clone, Debug, PartialEq)]
    pub struct OAuth = "[mcp_servers.oauth]" => checked_login {
        /// the id of your registered client; default `client_metadata_url`, else a registration at each login
        #[also("client", "id")]
        pub client_id: Option<String> = None,
        /// the client's secret, if it has one
        #[also("secret")]
        pub client_secret: Option<SecretSource> = None,
        /// the client's private key in PEM, which signs its logins in place of a secret
        #[also("key", "jwt")]
        pub private_key: Option<SecretSource> = None,
        /// log in as the client itself, without a person
        #[also("service", "machine", "grant_type")]
        pub client_credentials: bool = false,
        /// the company's identity provider, whose token logs haft in without a person
        #[also("enterprise", "idp")]
        pub identity_provider: Option<IdentityProvider> = None,
        /// the scopes to request; default those that the server requires
        #[read(Kind::List(&Kind::Word), |entry| entry.list(Entry::word))]
        #[also("scope")]
        pub scopes: Vec<String> = Vec::new(),
        /// `https://` address of a client ID metadata document, the client's id for servers that support such
        /// documents
        #[read(URL, Entry::url)]
        #[also("metadata_url", "cimd")]
        pub client_metadata_url: Option<String> = None,
        // Lower ones belong to services of the system.
        /// local port for the browser's redirect; default any free port
        #[read(count 1024..=65535)]
        #[also("port", "redirect_port")]
        pub callback_port: Option<u32> = None,
    }
}

table! {
    /// An identity provider that decides which MCP servers a person's programs may use (MCP's extension for
    /// enterprise-managed authorization).
    #[derive(Clone, Debug, PartialEq)]
    pub struct IdentityProvider = "[mcp_servers.oauth.identity_provider]" => one_token {
        /// the provider's issuer, an `https://` address
        #[read(URL, Entry::url)]
        pub issuer: String,
        /// the id of your client that is registered at the provider
        pub client_id: String,
        /// the client's secret at the provider, if it has one
        pub client_secret: Option<SecretSource> = None,
        /// the person's ID token of the provider; read at each login
        pub id_token: Option<SecretSource> = None,
        /// the person's refresh token of the provider, in place of `id_token`
        pub refresh_token: Option<SecretSource> = None,
    }
}

fn one_token(own: IdentityProvider, section: &Section<'_>) -> IdentityProvider {
    if own.id_token.is_some() == own.refresh_token.is_some() {
        section.reject("id_token", "expected `id_token` or `refresh_token`, one of them");
    }
    own
}

impl OAuth {
    /// Its secrets, each with the name of its key.
    pub fn secrets(&self) -> impl Iterator<Item = (&'static str, &SecretSource)> {
        let provider = self.identity_provider.iter().flat_map(|provider| {
            [
                ("identity_provider.client_secret", &provider.client_secret),
                ("id_token", &provider.id_token),
                ("refresh_token", &provider.refresh_token),
            ]
        });
        let own = [("client_secret", &self.client_secret), ("private_key", &self.private_key)];
        own.into_iter().chain(provider).filter_map(|(name, source)| Some((name, source.as_ref()?)))
    }

    /// What a person agrees to with it, in words; `place` says where a secret is kept. Empty where the server decides
    /// all of it.
    pub fn terms(&self, place: impl Fn(&SecretSource) -> String) -> String {
        let Self { client_id, identity_provider, scopes, client_metadata_url, .. } = self;
        let secret = |(name, source)| {
            let kind = match name {
                "private_key" => "key",
                "id_token" | "refresh_token" => "token",
                "identity_provider.client_secret" => "provider's secret",
                _ => "secret",
            };
            format!("with the {kind} in {}", place(source))
        };
        let parts = [
            client_id.as_ref().map(|id| format!("as {}", item(id))),
            client_metadata_url.as_ref().map(|url| format!("as {url}")),
            identity_provider.as_ref().map(|provider| format!("by {}", provider.issuer)),
        ];
        let scopes = (!scopes.is_empty()).then(|| format!("for {}", shell_words::join(scopes)));
        let secrets = self.secrets().map(secret);
        let parts: Vec<_> = parts.into_iter().flatten().chain(secrets).chain(scopes).collect();
        if parts.is_empty() { String::new() } else { format!("; logs in {}", parts.join(" ")) }
    }
}

fn checked_login(own: OAuth, section: &Section<'_>) -> OAuth {
    if own.client_secret.is_some() && own.client_id.is_none() {
        section.reject("client_secret", "needs a `client_id`");
    }
    let has_credentials =
        own.client_id.is_some() && (own.client_secret.is_some() || own.private_key.is_some());
    if own.client_credentials && !has_credentials {
        section.reject("client_credentials", "needs a `client_id`, and `client_secret` or `private_key`");
    }
    if own.private_key.is_some() && !own.client_credentials {
        section.reject("private_key", "needs `client_credentials = true`");
    }
    if own.identity_provider.is_some() && (own.client_id.is_none() || own.client_credentials) {
        section.reject("identity_provider", "needs a `client_id`, and no `client_credentials`");
    }
    // As the draft of client ID metadata documents has it, section 3.
    let is_document = |url: &String| {
        url.strip_prefix("https://")
            .and_then(|rest| rest.split_once('/'))
            .is_some_and(|(_, path)| !path.is_empty())
    };
    if own.client_metadata_url.as_ref().is_some_and(|url| !is_document(url)) {
        section.reject("client_metadata_url", "expected an `https://` address with a path");
    }
    own
}
