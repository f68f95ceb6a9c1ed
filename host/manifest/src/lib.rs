//! program.toml: parsed, checked key by key, and built into plain values with positions. Opens no path, reads no
//! variable and resolves no host.
//!
//! - **Parse:** `syntax` makes a tree of TOML in which every value has its position.
//! - **Check:** each file declares the keys of one table with `table!`, which generates the struct, the reader and
//!   the catalogue entry from one list. A reader records every error with its position and continues.
//! - **Build:** a [`Manifest`] if there is no error; otherwise a [`Report`] with all errors.

mod agent;
mod builtins;
mod catalogue;
mod config;
mod entry;
mod host_secret;
mod hosts;
mod machine;
mod name;
mod nats;
mod plugin;
mod process;
mod program;
mod provider;
mod schema;
mod sealed;
mod secret;
mod secrets;
mod section;
mod serve;
mod server;
mod source;
mod syntax;
mod table;
mod tool;
mod values;

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use self::agent::{Agent, AgentKind, AgentTool, AnswerForm, RuleTable};
pub use self::builtins::{Builtins, BuiltinsOn};
pub use self::config::{HintTable, Setting, Settings};
pub use self::entry::Located;
use self::entry::Notes;
pub use self::host_secret::{PlaceholderFile, ProcessSecret};
pub use self::hosts::HOST_SETS;
use self::machine::JournalKeys;
pub use self::machine::{BackendTable, ContainerEngine, Network, Sandbox, TelemetryTable};
pub use self::name::{Label, Name, NameError, ToolName, Variable};
pub use self::nats::{NatsLogin, NatsStorage, NatsTable, NatsUrl};
pub use self::plugin::{Component, GrantTable, Package, Plugin, PluginSecret};
pub use self::process::{ProcessGrant, ProcessLimits, ServerLimits, Wrapped};
use self::program::RequiresTools;
pub use self::program::{Build, HostRequirements, Program};
pub use self::provider::{Price, Provider, ProviderName};
pub use self::schema::json_schema;
pub use self::sealed::Seal;
pub use self::secret::{KeyringEntry, SecretSource, TextOrSecret};
pub use self::secrets::{SecretError, Secrets};
use self::section::Section;
pub use self::serve::{CallerProof, CallerTable, JwtAlgorithm, JwtTable, KeysAt, Serve};
pub use self::server::{McpServer, OAuth, Transport};
pub use self::source::{Foreign, Origin, PackageSource, SourceError};
use self::table::{FromTable, table};
pub use self::tool::{Argument, ArgumentType, CommandTool, EXTRA_ARGS};
use haft_core::limit::KeptJournal;
pub use haft_core::model::Route;
pub use haft_core::pattern::ToolPattern;
use haft_core::report::{Problem, Report, Source, Span};
pub use haft_core::rule::RulePattern;
pub use haft_core::secret::is_credential;
pub use haft_core::units;

/// 256 KiB: many times the longest program.toml written by hand.
pub const MAX_FILE: usize = 256 << 10;

/// The text of a program.toml. It may contain secrets: `Debug` does not show it.
#[derive(Clone, Default)]
pub struct Written(Arc<str>);

impl Written {
    /// All of it.
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

table! {
    /// A haft program: tools, plugins, servers and what they may do.
    #[derive(Clone, Debug)]
    pub struct Manifest = "" {
        /// Where the file is; empty without one.
        #[read(rows &[], absent)]
        pub path: PathBuf = PathBuf::new(),
        /// The folder that the file is in, absolute: what its relative paths start from. Empty without a file.
        #[read(rows &[], absent)]
        pub folder: PathBuf = PathBuf::new(),
        /// What the spans of [`Located`] point into; written secrets are masked in it.
        #[read(rows &[], absent)]
        pub source: Source = Source::default(),
        /// The text of the file, for code that writes another file from it.
        #[read(rows &[], absent)]
        pub written: Written = Written::default(),
        /// name and version of this program
        #[also("package", "name")]
        pub program: Option<Program> = None,
        /// command tools: programs that the model may start
        #[read(tables "tools")]
        #[also("tool", "commands")]
        pub tools: Vec<CommandTool> = Vec::new(),
        /// tool plugins: WebAssembly components
        #[read(tables "plugins")]
        #[also("plugin", "components")]
        pub plugins: Vec<Plugin> = Vec::new(),
        /// installed packages: plugins, commands and servers
        #[read(tables "packages")]
        #[also("programs", "extensions")]
        pub packages: Vec<Package> = Vec::new(),
        /// how a plugin project is built from its source
        #[also("source", "compile")]
        pub build: Option<Build> = None,
        /// programs that must be installed
        #[also("requirements", "requires")]
        pub host_requirements: HostRequirements = HostRequirements::default(),
        /// tools that an agent of this program needs
        #[read(RequiresTools::KIND, |entry| RequiresTools::from_value(entry).map(|required| required.names))]
        #[key("requires_tools")]
        #[also("dependencies")]
        pub required_tools: Vec<Located<String>> = Vec::new(),
        /// MCP servers whose tools are used
        #[read(tables "MCP servers")]
        #[also("mcp", "mcpServers", "servers")]
        pub mcp_servers: Vec<McpServer> = Vec::new(),
        /// the model
        #[also("model", "llm", "providers")]
        pub provider: Option<Provider> = None,
        /// how the agent works
        pub agent: Agent = Agent::default(),
        /// agents that the model may call as tools
        #[read(tables "agents")]
        #[also("subagents", "sub_agents", "workers")]
        pub agents: Vec<AgentTool> = Vec::new(),
        /// limits and callers of `haft serve --http`
        #[also("server", "http")]
        pub serve: Serve = Serve::default(),
        /// size and retention of the log of calls
        #[read(JournalKeys::KIND, |entry| JournalKeys::from_value(entry).map(KeptJournal::from))]
        #[also("log", "audit")]
        pub journal: KeptJournal = KeptJournal::default(),
        /// where traces and metrics of calls are sent
        #[also("otel", "opentelemetry", "tracing", "metrics")]
        pub telemetry: Option<TelemetryTable> = None,
        /// the way to other machines: a company's proxy
        pub network: Network = Network::default(),
        /// the NATS servers for workers on other machines
        #[also("machines", "cluster", "queue")]
        pub nats: NatsTable = NatsTable::default(),
        /// the tools' access to this machine
        pub sandbox: Sandbox = Sandbox::default(),
        /// where commands run: here, in a container, on another host
        #[also("target", "ssh", "container", "tmux", "execution")]
        pub backend: BackendTable = BackendTable::default(),
        /// the built-in tools
        #[also("built_ins", "builtin_tools")]
        pub builtins: Builtins = Builtins::default(),
    }
}

impl Manifest {
    /// Reads and checks the file at `path`.
    pub fn load(path: &Path) -> Result<Self, Report> {
        let bytes = read_bounded(path).map_err(|error| unreadable(path, &error))?;
        Self::parse_bytes(&bytes, path)
    }

    /// Checks `text`; `path` is what messages call it and what its relative paths start from.
    pub fn parse(text: &str, path: &Path) -> Result<Self, Report> {
        if text.len() > MAX_FILE {
            return Err(too_large(path));
        }
        // Editors on Windows write a byte order mark; it is no part of the text.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let source = Source::new(path.display().to_string(), text);
        let table = syntax::parse(text).map_err(|problems| {
            Report::with_source(source.masked(&secret::suspected_secrets(text)), problems)
        })?;
        let source = source.masked(&secret::written_secrets(&table));
        let notes = Notes::default();
        let root = Section::root(&table, &Self::TABLE, &notes);
        tool::note_missing_program(&root);
        let read = Self::from_table(&root);
        let problems = notes.into_problems();
        match read.filter(|_| problems.is_empty()) {
            Some(read) => {
                let folder = folder_of(path).map_err(|error| unreadable(path, &error))?;
                Ok(Self { path: path.to_owned(), folder, source, written: Written(text.into()), ..read })
            }
            None => Err(Report::with_source(source, problems)),
        }
    }

    /// The same for what may not even be text.
    pub fn parse_bytes(bytes: &[u8], path: &Path) -> Result<Self, Report> {
        let text = std::str::from_utf8(bytes).map_err(|error| not_utf8(bytes, error.valid_up_to(), path))?;
        Self::parse(text, path)
    }

    /// What `written`, a path of this file, means: below `home` where it begins with `~`, else
    /// relative to the file's folder.
    pub fn resolve(&self, written: &Path, home: &Path) -> PathBuf {
        match written.strip_prefix("~") {
            Ok(rest) => home.join(rest),
            Err(_) => self.folder.join(written),
        }
    }

    /// Returns the name of this program, if it has one.
    pub fn name(&self) -> Option<&str> {
        self.program.as_ref().map(|program| program.name.as_str())
    }

    /// Returns the file, if there is one.
    pub fn file(&self) -> Option<&Path> {
        Some(self.path.as_path()).filter(|path| !path.as_os_str().is_empty())
    }

    /// Whether it declares processes: command tools, or MCP servers that are children.
    pub fn has_commands(&self) -> bool {
        let is_child = |server: &McpServer| matches!(server.transport, Transport::Stdio { .. });
        !self.tools.is_empty() || self.mcp_servers.iter().any(|server| server.enabled && is_child(server))
    }

    /// Whether anything of it runs on workers.
    pub fn has_workers(&self) -> bool {
        self.builtins.on.is_any()
            || self.tools.iter().any(|tool| !tool.on.is_empty())
            || self.plugins.iter().any(|plugin| !plugin.on.is_empty())
            || self.mcp_servers.iter().any(|server| !server.on.is_empty())
    }

    /// Where the secrets of this program are kept, all of them.
    pub fn secrets(&self) -> Vec<&SecretSource> {
        let provider = self.provider.iter();
        let servers = self.mcp_servers.iter().flat_map(|server| match &server.transport {
            Transport::Stdio { env, .. } => env,
            Transport::Http { headers, .. } => headers,
        });
        let logins = self.mcp_servers.iter().filter_map(|server| match &server.transport {
            Transport::Stdio { .. } => None,
            Transport::Http { oauth, .. } => Some(oauth.secrets()),
        });
        let logins = logins.flatten().map(|(_, source)| source);
        let telemetry = self.telemetry.iter().flat_map(|telemetry| &telemetry.headers);
        let texts = provider.clone().flat_map(|provider| &provider.headers).chain(servers).chain(telemetry);
        let named = texts.filter_map(|(_, value)| value.source());
        let packages = self.packages.iter().flat_map(|package| &package.secrets);
        let plugins = self.plugins.iter().flat_map(|plugin| &plugin.secrets).chain(packages);
        let settings = self
            .plugins
            .iter()
            .map(|plugin| &plugin.config)
            .chain(self.packages.iter().map(|one| &one.config));
        let settings = settings.flatten().flatten().filter_map(|(_, setting)| match setting {
            Setting::Secret(source) => Some(source),
            Setting::Value(_) => None,
        });
        let plugins = plugins.map(|secret| &secret.source).chain(settings);
        let processes = self.process_secrets().flat_map(|(_, secret)| secret.sources());
        let callers = self.serve.callers.iter().filter_map(|caller| match &caller.proof {
            CallerProof::Token(source) => Some(source),
            CallerProof::Jwt(_) => None,
        });
        let keys = provider.filter_map(|provider| provider.api_key.as_ref());
        let logins = logins.chain(&self.network.login);
        keys.chain(plugins)
            .chain(processes)
            .chain(callers)
            .chain(logins)
            .chain(named)
            .chain(self.nats.secrets())
            .collect()
    }

    /// The secrets for hosts of its processes, each with the name of its process: `bash`, a server or a command.
    pub fn process_secrets(&self) -> impl Iterator<Item = (&str, &ProcessSecret)> {
        let bash = self.sandbox.secrets.iter().map(|secret| ("bash", secret));
        let servers = self
            .mcp_servers
            .iter()
            .flat_map(|server| server.secrets.iter().map(|secret| (server.name.as_str(), secret)));
        let commands =
            self.tools.iter().flat_map(|tool| tool.secrets.iter().map(|secret| (tool.name.as_str(), secret)));
        bash.chain(servers).chain(commands)
    }

    /// A report of something that was found wrong later, with a value of this file as its place.
    pub fn report(&self, problems: Vec<Problem>) -> Report {
        Report::with_source(self.source.clone(), problems)
    }
}

/// What the text of the file not declared.
fn absent<T: Default>(_: &Section<'_>) -> T {
    T::default()
}

/// The folder of the file at `path`, absolute. A link is not followed: its own folder is meant.
pub fn folder_of(path: &Path) -> io::Result<PathBuf> {
    // `program.toml` alone has a parent only once it is absolute.
    let path = std::path::absolute(path)?;
    Ok(path.parent().unwrap_or(&path).to_owned())
}

/// At most one byte more than allowed, so that a device or a pipe cannot fill the memory.
pub fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_FILE as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn unreadable(path: &Path, error: &io::Error) -> Report {
    let problem = Problem::new(format!("cannot read `{}`: {error}", path.display()));
    let hint = match error.kind() {
        io::ErrorKind::NotFound => {
            "`haft init` writes one; without a program.toml only the built-in tools are available"
        }
        io::ErrorKind::IsADirectory => "give the file itself, such as `program.toml` in this folder",
        _ => return problem.into(),
    };
    problem.hint(hint).into()
}

fn too_large(path: &Path) -> Report {
    let most = units::format_size(MAX_FILE as u64);
    Problem::new(format!("`{}` is too large: a program.toml has at most {most}", path.display())).into()
}

fn not_utf8(bytes: &[u8], valid: usize, path: &Path) -> Report {
    if bytes.len() > MAX_FILE {
        return too_large(path);
    }
    let text = String::from_utf8_lossy(bytes.get(..valid).unwrap_or_default());
    let place = Source::new(path.display().to_string(), text.as_ref())
        .place(Span { start: text.len(), end: text.len() });
    Problem::new(format!("not valid UTF-8: {place}")).hint("save the file as UTF-8").into()
}

#[cfg(test)]
mod tests;
