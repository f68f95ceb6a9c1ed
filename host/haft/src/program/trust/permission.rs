//! One permission that a program.toml requests, as one line, and the part of the file that needs it.

use std::fmt;
use std::path::Path;

use haft_core::report::{item, plain};
use haft_manifest::{
    Argument, CallerProof, KeysAt, Network, ProcessGrant, ProcessSecret, SecretSource, TextOrSecret,
    is_credential,
};
use haft_package::{Kind, Lock};

/// The part of a program.toml that needs a permission, and is omitted without consent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// `[provider]`.
    Provider,
    /// The address of `web_search`.
    Search,
    /// Non-public addresses of `fetch_url`.
    Fetch,
    /// An entry of `[[mcp_servers]]`.
    Server(String),
    /// An MCP server that a skill names in its head.
    SkillServer(String),
    /// An entry of `[[tools]]`.
    Command(String),
    /// The processes of servers, commands and packages.
    Children,
    /// An entry of `[[plugins]]`.
    Plugin(String),
    /// An entry of `[[packages]]`.
    Package(String),
    /// All agent programs of `[[agents]]`.
    Agents,
    /// `[nats]`.
    Nats,
    /// `[telemetry]`.
    Telemetry,
    /// `[network]`.
    Network,
    /// `[backend]`.
    Backend,
    /// An entry of `[[serve.callers]]`.
    Caller(String),
    /// `[sandbox] workspace`.
    Workspace,
    /// The other keys of `[sandbox]`.
    Sandbox,
}

/// A permission that a program.toml requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Permission {
    pub(super) part: Part,
    /// The complete permission as one line, with the title of its part. Different rights have different texts.
    text: String,
}

impl Permission {
    pub(super) fn new(part: Part, text: &str) -> Self {
        Self { text: format!("{:<10} {text}", part.title()), part }
    }

    /// Returns the stored and compared text.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Returns whether the permission is of a skill's server, which nobody wrote into program.toml.
    pub(super) fn is_of_skill(&self) -> bool {
        matches!(self.part, Part::SkillServer(_))
    }

    /// Returns whether the permission belongs to an entry of `haft add`: packages, plugins, and their processes.
    pub(super) fn is_installed(&self) -> bool {
        matches!(self.part, Part::Package(_) | Part::Plugin(_) | Part::Children)
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&plain(&self.text))
    }
}

impl Part {
    /// Returns the word before a permission.
    fn title(&self) -> &'static str {
        match self {
            Self::Provider => "provider",
            Self::Search => "web_search",
            Self::Fetch => "fetch_url",
            Self::Server(_) | Self::SkillServer(_) => "server",
            Self::Command(_) => "command",
            Self::Children => "processes",
            Self::Plugin(_) => "plugin",
            Self::Package(_) => "package",
            Self::Agents => "agent",
            Self::Nats => "nats",
            Self::Telemetry => "telemetry",
            Self::Network => "network",
            Self::Backend => "backend",
            Self::Caller(_) => "caller",
            Self::Workspace | Self::Sandbox => "sandbox",
        }
    }
}

// The texts of a permission's parts are exact, so that different rights have different texts.

/// Returns the way to other machines that `[network]` asks for.
pub(super) fn of_network(network: &Network) -> Option<Permission> {
    let Network { proxy, login, ca, no_proxy } = network;
    let proxy = proxy.as_ref()?;
    let login = login.as_ref().map(|source| format!(", with the login in {}", place(source)));
    let ca = ca.as_ref().map(|file| format!(", which may show certificates of {}", of_path(&file.value)));
    let further = [login, ca].into_iter().flatten().collect::<String>();
    let direct = no_proxy.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let direct = if direct.is_empty() { direct } else { format!(", but not {direct}") };
    let text = format!("other machines are reached through {proxy}{further}{direct}");
    Some(Permission::new(Part::Network, &text))
}

/// Returns the part of a caller's proof that the author of program.toml may know. Omits a variable with a
/// credential's name: its value is the user's own, and is compared and sent nowhere.
pub(super) fn shown(proof: &CallerProof) -> Option<String> {
    match proof {
        CallerProof::Token(SecretSource::Env(name)) if is_credential(name.as_str()) => None,
        CallerProof::Token(source) => Some(format!("has the token in {}", place(source))),
        CallerProof::Jwt(rule) => {
            let keys = match &rule.keys {
                KeysAt::Url(url) => format!("at {url}"),
                KeysAt::File(file) => format!("in {}", of_path(file)),
            };
            Some(format!("comes from {}, whose keys are {keys}", item(&rule.issuer)))
        }
    }
}

/// Returns a path as one item of a text.
pub(super) fn of_path(path: &Path) -> String {
    item(&path.to_string_lossy()).into_owned()
}

/// Returns the source of a secret, as text.
pub(super) fn place(source: &SecretSource) -> String {
    match source {
        SecretSource::Env(name) => format!("${name}"),
        SecretSource::File(path) => of_path(path),
        SecretSource::Keyring(entry) => format!("the keyring's {}", item(&entry.to_string())),
    }
}

/// Returns the permission to send a secret with the requests of the process `name`.
pub(super) fn sent(name: &str, secret: &ProcessSecret) -> String {
    let ProcessSecret {
        hosts,
        allow,
        source: _,
        access_key_id: _,
        name: _,
        variable: _,
        placeholder_file: _,
    } = secret;
    let from = secret.sources().map(place).collect::<Vec<_>>().join(" and ");
    let hosts = hosts.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let rules = allow.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let only = if rules.is_empty() { String::new() } else { format!(", for {rules} only") };
    format!("`{name}` sends {from} to {hosts}{only}")
}

/// Returns the command-line words of an argument: its flag, and its default or `…`.
pub(super) fn words(argument: &Argument) -> String {
    let Argument { flag, default, name: _, description: _, kind: _, required: _ } = argument;
    let flag = flag.as_ref().map(|flag| shell_words::quote(flag));
    let value = default
        .as_ref()
        .map_or_else(|| "…".to_owned(), |value| shell_words::quote(&value.to_string()).into_owned());
    flag.map_or_else(|| format!(" {value}"), |flag| format!(" {flag} {value}"))
}

/// Returns names with their values, or the sources of the values.
pub(super) fn values(head: &str, values: &[(String, TextOrSecret)]) -> String {
    let value = |(name, value): &(String, TextOrSecret)| match value {
        TextOrSecret::Text(text) => format!("{head} {name}={}", shell_words::quote(text)),
        TextOrSecret::Secret(source) => format!("{head} {name} from {}", place(source)),
    };
    values.iter().map(value).collect()
}

/// Returns the pinned digest of an entry that is run.
pub(super) fn pinned(lock: &Lock, kind: Kind, name: &str) -> String {
    lock.find(kind, name).map(|pin| format!(", pinned as {}", pin.kept)).unwrap_or_default()
}

/// Returns the text after the command line of a process with its own grant: without a grant the rights differ.
pub(super) fn own_grant(grant: Option<&ProcessGrant>) -> &'static str {
    if grant.is_some() { ", with only the rights of its `grant`" } else { "" }
}
