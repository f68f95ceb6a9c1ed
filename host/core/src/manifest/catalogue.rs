//! Every table of program.toml and every key in it, once: the reader's list of allowed keys, the
//! text of its hints and the JSON Schema all come from here. It holds no behaviour.
//!
//! The order is that of `program.toml.example`: what a reader meets first stands first.

use super::agent::Agent;
use super::caller::{CallerTable, JwtAlgorithm};
use super::label::Label;
use super::name::{Name, ToolName};
use super::plugin::Reuse;
use super::provider::{self, Provider};
use super::serve::Serve;
use super::server::McpServer;
use super::tool::ARGUMENT_TYPES;
use crate::grant::CredentialStore;

/// A table: the keys it may have.
pub(super) struct Table {
    /// How a person writes its head: `[[plugins]]`, `[plugins.limits]`; empty where it has none.
    pub(super) header: &'static str,
    /// What it is for.
    pub(super) doc: &'static str,
    /// The keys, in the order in which they are best written.
    pub(super) keys: &'static [Key],
}

/// A key of a table.
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) required: bool,
    /// What it means, with its default: shown in hints and by editors.
    pub(super) doc: &'static str,
    /// Other words that people use for it; only ever suggested, never accepted.
    pub(super) also: &'static [&'static str],
}

/// What a value may be.
pub(super) enum Kind {
    /// Any text that is not blank.
    Text,
    /// Any text.
    Word,
    /// `true` or `false`.
    Flag,
    /// A whole number, both bounds included.
    Count { min: u64, max: u64 },
    /// An amount of money, no less than nothing.
    Price,
    /// A text such as `"64MiB"`.
    Size,
    /// A text such as `"30s"`.
    Time,
    /// One of these texts.
    OneOf(fn() -> Vec<&'static str>),
    /// A text of this regular expression, which the reader checks by a type of its own.
    Pattern(&'static str),
    /// A path, relative to the folder of the file.
    Path,
    /// A command line: one text split as a shell splits words, or the words.
    Command,
    /// A text, a number, a flag, or an array of texts.
    Scalar,
    /// A table that is passed on as JSON.
    Json,
    /// A path, or a table that is passed on as JSON.
    PathOrJson,
    /// A text, or a secret.
    TextOrSecret,
    /// A text, a number, a flag, or a secret.
    Setting,
    /// An array.
    List(&'static Kind),
    /// A table whose keys are the user's.
    Map(&'static Kind),
    /// One table.
    Table(&'static Table),
    /// An array of tables.
    Tables(&'static Table),
    /// An array of tables, or a table of tables whose keys are the names.
    NamedTables(&'static Table),
}

impl Table {
    pub(super) fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }
}

impl Kind {
    /// The table that a value of this kind is made of, if it is.
    #[cfg(test)]
    fn table(&self) -> Option<&'static Table> {
        match self {
            Self::Table(table) | Self::Tables(table) | Self::NamedTables(table) => Some(table),
            Self::List(inner) | Self::Map(inner) => inner.table(),
            _ => None,
        }
    }
}

impl Key {
    const fn new(name: &'static str, kind: Kind, doc: &'static str) -> Self {
        Self { name, kind, required: false, doc, also: &[] }
    }

    const fn required(self) -> Self {
        Self { required: true, ..self }
    }

    const fn also(self, also: &'static [&'static str]) -> Self {
        Self { also, ..self }
    }
}

/// A name of a program, plugin or server; see [`Name`].
const NAME: Kind = Kind::Pattern(Name::PATTERN);
/// A tool's or an argument's name; see [`ToolName`].
const TOOL_NAME: Kind = Kind::Pattern(ToolName::PATTERN);
/// The name of an environment variable.
const VARIABLE: Kind = Kind::Pattern("^[A-Za-z_][A-Za-z0-9_]*$");
/// A network destination; the parser of [`crate::grant::HostPattern`] decides.
const HOST: Kind = Kind::Pattern("^(https?://)?[^/?#@]+$");
/// A host by its name alone; the parser of [`crate::grant::HostName`] decides.
const HOST_NAME: Kind = Kind::Pattern("^([A-Za-z0-9_.-]+|\\[[0-9A-Fa-f:.]+\\])$");
const RULES: Kind = Kind::List(&Kind::Pattern("^[A-Za-z0-9_:*-]+(\\(.+\\))?$"));
const TOOL_PATTERNS: Kind = Kind::List(&Kind::Pattern("^[A-Za-z0-9_:*-]+$"));
const VARIABLES: Kind = Kind::List(&VARIABLE);
const PATHS: Kind = Kind::List(&Kind::Path);
/// Names of credential stores; the parser of [`CredentialStore`] decides.
const STORES: Kind = Kind::List(&Kind::OneOf(|| CredentialStore::all().map(CredentialStore::name).collect()));
const TEXTS: Kind = Kind::List(&Kind::Text);
const URL: Kind = Kind::Pattern("^https?://[^/?#@]");

/// The file.
pub(super) static ROOT: Table = Table {
    header: "",
    doc: "A haft program: tools, plugins, servers and what they may do.",
    keys: &[
        Key::new("program", Kind::Table(&PROGRAM), "what this program is called").also(&["package", "name"]),
        Key::new("tools", Kind::NamedTables(&TOOL), "command tools: programs that the model may start")
            .also(&["tool", "commands"]),
        Key::new("plugins", Kind::Tables(&PLUGIN), "tool plugins: WebAssembly components")
            .also(&["plugin", "components"]),
        Key::new(
            "packages",
            Kind::Tables(&PACKAGE),
            "packages of other people: plugins, commands and servers",
        )
        .also(&["programs", "extensions"]),
        Key::new("build", Kind::Table(&BUILD), "how a plugin project is built from its source")
            .also(&["source", "compile"]),
        Key::new("host_requirements", Kind::Table(&HOST_REQUIREMENTS), "programs that must be installed")
            .also(&["requirements", "requires"]),
        Key::new("requires_tools", Kind::Table(&REQUIRES_TOOLS), "tools that an agent of this program needs")
            .also(&["dependencies"]),
        Key::new("mcp_servers", Kind::Tables(&MCP_SERVER), "MCP servers whose tools are used")
            .also(&["mcpServers", "servers"]),
        Key::new("mcp", Kind::Tables(&MCP_SERVER), "the same as `mcp_servers`"),
        Key::new("provider", Kind::Table(&PROVIDER), "the model").also(&["model", "llm", "providers"]),
        Key::new("agent", Kind::Table(&AGENT), "how the agent works"),
        Key::new("agents", Kind::Tables(&AGENTS), "agents that the model may call as tools").also(&[
            "subagents",
            "sub_agents",
            "workers",
        ]),
        Key::new(
            "serve",
            Kind::Table(&SERVE),
            "how many clients `haft serve --http` takes, and who they may be",
        )
        .also(&["server", "http"]),
        Key::new("journal", Kind::Table(&JOURNAL), "how much of the record of calls is kept")
            .also(&["log", "audit"]),
        Key::new("prewarm", Kind::Table(&PREWARM), "memory of plugins' instances that wait for a call")
            .also(&["warm", "prewarmed", "instances", "pool"]),
        Key::new("telemetry", Kind::Table(&TELEMETRY), "where traces and metrics of calls are sent").also(&[
            "otel",
            "opentelemetry",
            "tracing",
            "metrics",
        ]),
        Key::new("nats", Kind::Table(&NATS), "where workers on other machines are met")
            .also(&["machines", "cluster", "queue"]),
        Key::new("sandbox", Kind::Table(&SANDBOX), "how far tools reach on this machine"),
        Key::new(
            "backend",
            Kind::Table(&BACKEND),
            "where commands run: here, in a container, on another host",
        )
        .also(&["target", "ssh", "container", "tmux", "execution"]),
        Key::new("builtins", Kind::Table(&BUILTINS), "which built-in tools there are")
            .also(&["built_ins", "builtin_tools"]),
    ],
};

pub(super) static PROGRAM: Table = Table {
    header: "[program]",
    doc: "What this program is called. Needed where there are `[[tools]]`.",
    keys: &[
        Key::new("name", NAME, "part of the names of its command tools").required(),
        Key::new("version", Kind::Text, "a semantic version such as `1.0.0`").required(),
        Key::new("description", Kind::Text, "one sentence"),
        Key::new("authors", TEXTS, "who wrote it"),
        Key::new("author", Kind::Text, "the same as `authors` with one entry"),
        Key::new("license", Kind::Text, "an SPDX expression such as `MIT`").also(&["licence"]),
        Key::new("include", PATHS, "files and folders that belong to the package besides those it names")
            .also(&["files", "exclude"]),
    ],
};

pub(super) static TOOL: Table = Table {
    header: "[[tools]]",
    doc: "A command tool: a program that the model may start, without a shell.",
    keys: &[
        Key::new("name", TOOL_NAME, "the model sees `program__<program>__<name>`").required(),
        Key::new("description", Kind::Text, "what it does, written for the model").required(),
        Key::new(
            "command",
            Kind::Command,
            "split as a shell splits words and run without one, or an array of words; \
             the program is a bare name on PATH, or begins with `./`",
        )
        .required()
        .also(&["cmd", "run", "exec"]),
        Key::new("arguments", Kind::List(&Kind::Table(&ARGUMENT)), "what the model may add to the command")
            .also(&["args", "parameters", "params"]),
        Key::new(
            "extra_args",
            Kind::Flag,
            "whether the model may add further words as `args`; default only where `arguments` is absent",
        )
        .also(&["any_args", "rest"]),
        Key::new("timeout", Kind::Time, "when it is stopped; default `120s`").also(&["time", "time_limit"]),
        Key::new("env", VARIABLES, "variables of haft's environment that it may see; default none")
            .also(&["environment"]),
        Key::new("confirm", Kind::Flag, "ask a person before every call; default false").also(&["approve"]),
        Key::new("on", LABELS, "labels of the workers that it lives on, `*` for any; default here")
            .also(&["labels", "workers"]),
    ],
};

pub(super) static ARGUMENT: Table = Table {
    header: "",
    doc: "An argument of a command tool.",
    keys: &[
        Key::new("name", TOOL_NAME, "the argument's name in a call").required(),
        Key::new("description", Kind::Text, "what it means, written for the model").required(),
        Key::new(
            "type",
            Kind::OneOf(|| ARGUMENT_TYPES.iter().map(|row| row.0).collect()),
            "default `string`",
        )
        .also(&["kind"]),
        Key::new("required", Kind::Flag, "default true, or false where there is a `default`")
            .also(&["optional"]),
        Key::new("default", Kind::Scalar, "the value of an argument that is left out"),
        Key::new(
            "flag",
            Kind::Pattern("^-[^\\s=]+=?$"),
            "written before the value, such as `--title`, or `--title=` for one word; \
             without it the argument is positional",
        )
        .also(&["option", "switch"]),
    ],
};

pub(super) static PLUGIN: Table = Table {
    header: "[[plugins]]",
    doc: "A tool plugin: a WebAssembly component, run with nothing but what is granted here.",
    keys: &[
        Key::new("name", NAME, "its tools are called `<name>__<tool>`").required(),
        Key::new("component", Kind::Text, "a file, an `https://` URL or an `oci://` reference")
            .required()
            .also(&["path", "file", "url", "wasm", "source"]),
        Key::new("enabled", Kind::Flag, "default true").also(&["disabled"]),
        Key::new("tools", TOOL_PATTERNS, "which of its tools to offer, such as `get_*`; default all"),
        Key::new(
            "descriptions",
            Kind::Map(&Kind::Text),
            "descriptions of tools that bring none of their own",
        )
        .also(&["description"]),
        Key::new("titles", Kind::Map(&Kind::Text), "what tools are called where people choose them")
            .also(&["title"]),
        Key::new("hints", Kind::Table(&HINTS), "how tools behave whose component does not say so")
            .also(&["annotations", "hint"]),
        Key::new(
            "confirm",
            TOOL_PATTERNS,
            "which of its tools need a person's approval before every call; default none",
        )
        .also(&["approve"]),
        Key::new(
            "hooks",
            TOOL_PATTERNS,
            "of which tools it sees the calls and may refuse them, where it is a hook, such as `bash`",
        )
        .also(&["hook", "watches", "guards"]),
        Key::new("grant", Kind::Table(&GRANT), "what it may do; default nothing").also(&[
            "grants",
            "permissions",
            "allow",
            "capabilities",
        ]),
        Key::new("limits", Kind::Table(&LIMITS), "what one call may use").also(&["limit"]),
        Key::new("reuse", Kind::Table(&REUSE), "keep instances for several calls; default a fresh one each"),
        Key::new(
            "config",
            SETTINGS,
            "what it reads of its configuration (`wasi:config`); default it is refused",
        )
        .also(&["configuration", "settings", "options", "variables"]),
        Key::new("secrets", Kind::Map(&Kind::Table(&PLUGIN_SECRET)), "headers it sends but never sees")
            .also(&["secret"]),
        Key::new("on", LABELS, "labels of the workers that it lives on, `*` for any; default here")
            .also(&["labels", "workers"]),
    ],
};

pub(super) static HINTS: Table = Table {
    header: "[plugins.hints]",
    doc: "How the plugin's tools behave, by their own names; clients are told, and `read_only` is held to.",
    keys: &[
        Key::new(
            "read_only",
            TOOL_PATTERNS,
            "tools that change nothing: they get no right to write, such as `get_*`",
        )
        .also(&["readonly", "read-only"]),
        Key::new("destructive", TOOL_PATTERNS, "tools that may destroy or overwrite what was there"),
        Key::new("idempotent", TOOL_PATTERNS, "tools that change nothing more when they are called again"),
        Key::new("open_world", TOOL_PATTERNS, "tools that reach beyond this machine").also(&["open-world"]),
    ],
};

/// The configuration of a plugin.
const SETTINGS: Kind = Kind::Map(&Kind::Setting);

pub(super) static PACKAGE: Table = Table {
    header: "[[packages]]",
    doc: "A package of other people, as `haft add` writes it; program.lock says what exactly it is.",
    keys: &[
        Key::new(
            "name",
            NAME,
            "its own name, or another that you gave it, with which the names of its plugins begin then",
        )
        .required(),
        Key::new("source", Kind::Text, "a folder, an archive, `https://…`, `oci://…` or `git+https://…`")
            .required()
            .also(&["path", "url", "component", "from"]),
        Key::new("enabled", Kind::Flag, "default true").also(&["disabled"]),
        Key::new("tools", TOOL_PATTERNS, "which of its tools to offer, by exposed name; default all"),
        Key::new(
            "grant",
            Kind::Table(&PACKAGE_GRANT),
            "the most that its plugins get of what they ask for; default nothing",
        )
        .also(&["grants", "permissions", "allow", "capabilities"]),
        Key::new(
            "config",
            SETTINGS,
            "what its plugins read of their configuration, in the place of what the package says itself",
        )
        .also(&["configuration", "settings", "options", "variables"]),
        Key::new(
            "secrets",
            Kind::Map(&Kind::Table(&PLUGIN_SECRET)),
            "headers that its plugins send but never see, by the names that they ask for them",
        )
        .also(&["secret"]),
    ],
};

pub(super) static PACKAGE_GRANT: Table = Table {
    header: "[packages.grant]",
    doc: "The most that the plugins of a package get. Each gets what it asks for and this allows.",
    keys: GRANT_KEYS,
};

pub(super) static GRANT: Table = Table {
    header: "[plugins.grant]",
    doc: "What a plugin may do. What is not named is not allowed.",
    keys: GRANT_KEYS,
};

const DENY: &str = "files and directories that are closed, wherever they lie";
const CREDENTIALS: &str = "credential stores that are opened, such as `ssh` or `gh`; default none";

const GRANT_KEYS: &[Key] = &[
    Key::new("read", PATHS, "directories it may read").also(&["dirs", "files", "paths", "preopens"]),
    Key::new("write", PATHS, "directories it may read and write"),
    Key::new("deny", PATHS, DENY).also(&["hide", "hidden", "exclude"]),
    Key::new("credentials", STORES, CREDENTIALS).also(&["secrets", "stores"]),
    Key::new(
        "hosts",
        Kind::List(&HOST),
        "`host`, `*.suffix`, `http://host:port` or `*` (every public host) it may reach",
    )
    .also(&["network", "net", "http", "urls"]),
    Key::new("env", VARIABLES, "variables of haft's environment that it may see").also(&["environment"]),
    Key::new(
        "state",
        Kind::Size,
        "keys and values of its own (`wasi:keyvalue`), and the directory `/state`: what each may hold, from `64KiB` \
         to `1GiB`",
    )
    .also(&["storage", "data", "keyvalue", "database"]),
    Key::new(
        "cache",
        Kind::Size,
        "what the directory `/cache` of its own may hold, which haft may empty, from `64KiB` to `64GiB`",
    )
    .also(&["scratch", "temp"]),
];

pub(super) static LIMITS: Table = Table {
    header: "[plugins.limits]",
    doc: "What one call may use.",
    keys: &[
        Key::new("memory", Kind::Size, "default `64MiB`, at most `4GiB`").also(&["ram", "memory_limit"]),
        Key::new("time", Kind::Time, "from call to answer; default `30s`, at most `1d`")
            .also(&["timeout", "deadline", "wall"]),
        Key::new("result", Kind::Size, "one answer; default `1MiB`, at most `64MiB`").also(&["output"]),
        Key::new("disk", Kind::Size, "written to files; default `256MiB`, at most `1024GiB`")
            .also(&["storage", "quota"]),
    ],
};

pub(super) static REUSE: Table = Table {
    header: "[plugins.reuse]",
    doc: "Keep instances of the plugin for several calls; what one call leaves behind the next one sees.",
    keys: &[
        Key::new("max_calls", COUNT_CALLS, "calls that one instance serves; default 100"),
        Key::new("max_idle", Kind::Time, "how long an unused instance is kept; default `5m`")
            .also(&["idle_timeout"]),
        Key::new("max_concurrent", COUNT_INSTANCES, "instances at one time; default 1").also(&["instances"]),
    ],
};

const COUNT_CALLS: Kind = Kind::Count { min: 1, max: Reuse::MAX_CALLS as u64 };
const COUNT_INSTANCES: Kind = Kind::Count { min: 1, max: Reuse::MAX_CONCURRENT as u64 };

pub(super) static PLUGIN_SECRET: Table = Table {
    header: "",
    doc: "A header that haft adds to the plugin's requests to one host; the plugin never sees its value.",
    keys: &[
        Key::new("host", HOST, "the only destination it is sent to").required().also(&["hosts", "url"]),
        Key::new(
            "header",
            Kind::Pattern("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$"),
            "the name of the header, such as `Authorization`",
        )
        .required(),
        Key::new("env", VARIABLE, "the environment variable that holds the secret"),
        Key::new("file", Kind::Path, "the file that holds the secret").also(&["path"]),
        Key::new("keyring", KEYRING, KEYRING_DOC).also(&["keychain"]),
        Key::new("prefix", Kind::Text, "written before the secret, such as `Bearer `; default nothing"),
    ],
};

const KEYRING: Kind = Kind::Pattern("^.*\\S.*/.*\\S");
const KEYRING_DOC: &str = "`SERVICE/USER`: the entry of the keyring that holds the secret";

/// Where a secret is kept; one of the keys.
pub(super) static SECRET: Table = Table {
    header: "",
    doc: "Where a secret is kept: `env`, `file` or `keyring`.",
    keys: &[
        Key::new("env", VARIABLE, "the environment variable that holds the secret").also(&[
            "environment",
            "var",
            "variable",
        ]),
        Key::new("file", Kind::Path, "the file that holds the secret").also(&["path"]),
        Key::new("keyring", KEYRING, KEYRING_DOC).also(&["keychain"]),
    ],
};

pub(super) static BUILD: Table = Table {
    header: "[build]",
    doc: "How `haft build` makes the component of this plugin project: that of the plugin that is called \
          like the program, else of the first.",
    keys: &[
        Key::new(
            "language",
            Kind::OneOf(|| super::build::LANGUAGES.iter().map(|row| row.0).collect()),
            "`rust`, `python`, `js`, `go` or `c`; found out from the folder where it is left out",
        )
        .also(&["lang"]),
        Key::new("wit", Kind::Path, "the folder with the WIT; default `wit`"),
        Key::new("world", Kind::Text, "the world of the component, where the WIT has several"),
        Key::new(
            "command",
            Kind::Command,
            "makes the component in the place of the language's own tools, run in this folder; \
             haft then finishes it",
        )
        .also(&["cmd", "run", "script"]),
    ],
};

pub(super) static HOST_REQUIREMENTS: Table = Table {
    header: "[host_requirements]",
    doc: "Programs that must be installed: looked up on PATH, never run.",
    keys: &[
        Key::new("required", BINARIES, "without these the program does not start").also(&["requires"]),
        Key::new("optional", BINARIES, "the model is told which of these are there"),
    ],
};

const BINARIES: Kind = Kind::List(&Kind::Pattern("^[^/\\s]+$"));

pub(super) static REQUIRES_TOOLS: Table = Table {
    header: "[requires_tools]",
    doc: "Tools that an agent of this program needs; `haft check` says which are missing.",
    keys: &[Key::new("names", TEXTS, "names as the model sees them").also(&["tools", "required"])],
};

pub(super) static MCP_SERVER: Table = Table {
    header: "[[mcp_servers]]",
    doc: "An MCP server: a child process (`command`) or streamable HTTP (`url`).",
    keys: &[
        Key::new("name", NAME, "its tools are called `mcp__<name>__<tool>`").required(),
        Key::new("command", Kind::Command, "starts the server; split as a shell splits words, or an array")
            .also(&["cmd"]),
        Key::new("args", Kind::List(&Kind::Word), "more words for the command").also(&["arguments"]),
        Key::new("env", Kind::Map(&Kind::TextOrSecret), "variables it gets besides PATH, HOME and the like")
            .also(&["environment"]),
        Key::new("url", URL, "where the server answers").also(&["endpoint", "base_url"]),
        Key::new("headers", Kind::Map(&Kind::TextOrSecret), "sent with every request to `url`"),
        Key::new("enabled", Kind::Flag, "default true").also(&["disabled"]),
        Key::new("tools", TOOL_PATTERNS, "which of its tools to offer; default all"),
        Key::new("timeout", Kind::Time, "for one request; default `120s`").also(&["request_timeout"]),
        Key::new("max_result", COUNT_RESULT, "characters of one answer; default 100000").also(&["limit"]),
        Key::new("on", LABELS, "labels of the workers that it lives on, `*` for any; default here")
            .also(&["labels", "workers"]),
    ],
};

const COUNT_RESULT: Kind = Kind::Count { min: 1, max: McpServer::MAX_MAX_RESULT as u64 };

pub(super) static PROVIDER: Table = Table {
    header: "[provider]",
    doc: "The model and who runs it.",
    keys: &[
        Key::new(
            "name",
            Kind::OneOf(|| provider::NAMES.iter().map(|row| row.0).collect()),
            "whose API: `openai`, `anthropic`, `gemini`, `ollama` or `openrouter`",
        )
        .required()
        .also(&["kind", "type", "vendor"]),
        Key::new(
            "format",
            Kind::OneOf(|| provider::FORMATS.iter().map(|row| row.0).collect()),
            "of `openai`: `responses` or `chat`; default `responses` for OpenAI's own endpoint, `chat` for others",
        )
        .also(&["api", "dialect", "wire_api"]),
        Key::new("model", Kind::Text, "the model's name; default the provider's own"),
        Key::new("model_fast", Kind::Text, "for small decisions; default `model`")
            .also(&["fast_model", "small_model"]),
        Key::new("model_complex", Kind::Text, "for the work itself; default `model`")
            .also(&["complex_model", "large_model"]),
        Key::new("base_url", URL, "default the provider's own").also(&["url", "endpoint", "api_base"]),
        Key::new(
            "api_key",
            Kind::Table(&SECRET),
            "where the key is kept: `{ env = \"…\" }`, `{ file = \"…\" }` or `{ keyring = \"…\" }`",
        )
        .also(&["key", "token", "apikey"]),
        Key::new("headers", Kind::Map(&Kind::TextOrSecret), "sent with every request"),
        Key::new("extra_body", Kind::Json, "merged into every request's JSON, such as `temperature`")
            .also(&["extra", "options", "temperature", "body"]),
        Key::new("stream", Kind::Flag, "whether answers come in pieces as they are written; default true")
            .also(&["streaming"]),
        Key::new(
            "effort",
            Kind::OneOf(|| provider::EFFORTS.iter().map(|row| row.0).collect()),
            "how much the model thinks: `none`, `minimal`, `low`, `medium`, `high`, `xhigh` or `max`; \
             default the provider's own",
        )
        .also(&["reasoning_effort", "reasoning", "thinking", "think"]),
        Key::new("max_tokens", COUNT_TOKENS, "of one answer; default the provider's own")
            .also(&["max_output_tokens"]),
        Key::new(
            "context_window",
            COUNT_TOKENS,
            "tokens that the model reads and writes at once; default what is known of it, or what its refusal says",
        )
        .also(&["num_ctx", "context", "context_length"]),
        Key::new("timeout", Kind::Time, "for one answer; default `600s`").also(&["request_timeout"]),
        Key::new("connect_timeout", Kind::Time, "until the connection stands; default `10s`"),
        Key::new("first_byte_timeout", Kind::Time, "until a streamed answer begins; default `300s`"),
        Key::new("idle_timeout", Kind::Time, "between two pieces of a streamed answer; default `120s`")
            .also(&["read_timeout"]),
        Key::new(
            "max_retries",
            COUNT_RETRIES,
            "after a failure that may pass; default 3, and in a task that has turns already for ten minutes",
        )
        .also(&["retries"]),
        Key::new("prices", Kind::Map(&Kind::Table(&PRICES)), "what a model's tokens cost, by its name")
            .also(&["price", "cost", "costs"]),
    ],
};

pub(super) static PRICES: Table = Table {
    header: "",
    doc: "What a model costs, in US dollars for a million tokens.",
    keys: &[
        Key::new("input", Kind::Price, "tokens that it reads").required().also(&["prompt"]),
        Key::new("output", Kind::Price, "tokens that it writes").required().also(&["completion"]),
        Key::new("cached", Kind::Price, "tokens read from the prompt cache; default as `input`")
            .also(&["cache_read"]),
        Key::new("stored", Kind::Price, "tokens put into the prompt cache; default as `input`")
            .also(&["cache_write"]),
    ],
};

const COUNT_TOKENS: Kind = Kind::Count { min: 1, max: Provider::MAX_MAX_TOKENS as u64 };
const COUNT_RETRIES: Kind = Kind::Count { min: 0, max: Provider::MAX_MAX_RETRIES as u64 };

pub(super) static AGENT: Table = Table {
    header: "[agent]",
    doc: "How the agent works.",
    keys: &[
        Key::new("system_prompt", Kind::Text, "what the model is told first; default haft's own").also(&[
            "system",
            "prompt",
            "instructions",
        ]),
        Key::new(
            "route",
            Kind::OneOf(|| super::agent::ROUTES.iter().map(|row| row.0).collect()),
            "`complex` (default) and `fast` always ask that model, `auto` has the fast one choose",
        )
        .also(&["routing", "model"]),
        Key::new("max_turns", COUNT_TURNS, "questions to the model in one run; default 50").also(&[
            "max_steps",
            "max_iterations",
            "turns",
        ]),
        Key::new("tools", TOOL_PATTERNS, "which tools it is offered, such as `mcp__git__*`; default all")
            .also(&["allowed_tools"]),
        Key::new("allow", RULES, "calls that run without a question, such as `bash(git status *)`")
            .also(&["allowed", "permissions"]),
        Key::new("ask", RULES, "calls that a person is asked about; stronger than `allow`")
            .also(&["confirm", "approve"]),
        Key::new("deny", RULES, "calls that never run; stronger than `ask` and `allow`")
            .also(&["denied", "forbid", "block"]),
        Key::new(
            "otherwise",
            Kind::OneOf(|| super::rule::EFFECTS.iter().map(|row| row.0).collect()),
            "what becomes of calls that no rule names: `allow` (default), `ask` or `deny`",
        )
        .also(&["default", "rest"]),
        Key::new(
            "tool_budget",
            COUNT_BUDGET,
            "rough tokens that the list of tools may take; default no limit",
        )
        .also(&["budget"]),
        Key::new(
            "history_budget",
            COUNT_HISTORY,
            "rough tokens of the conversation that the model is shown; default 100000",
        )
        .also(&["context", "max_context", "token_budget"]),
        Key::new(
            "summarise",
            Kind::Flag,
            "whether the fast model sums up what is left out; default where there is one",
        )
        .also(&["summarize", "compact", "compaction"]),
        Key::new("max_repeats", COUNT_REPEATS, "how often one failing call is repeated; default 2"),
        Key::new(
            "agents_md",
            Kind::Flag,
            "whether it is told what `AGENTS.md`, or `CLAUDE.md`, of the workspace and its repository say; default true",
        )
        .also(&["project_instructions", "instructions_file"]),
        Key::new(
            "skills",
            Kind::Flag,
            "whether it is told of the skills in `.agents/skills` of these and of your home; default true",
        ),
        Key::new(
            "output",
            Kind::PathOrJson,
            "JSON Schema of the answer of `haft run`: a file such as `answer.schema.json`, or a table",
        )
        .also(&["schema", "output_schema", "response_format"]),
        Key::new("max_cost", Kind::Price, "US dollars after which a task ends; default no limit").also(&[
            "budget_usd",
            "cost",
            "max_budget",
        ]),
        Key::new(
            "max_tokens_total",
            COUNT_TOTAL,
            "tokens, read and written, after which a task ends; default no limit",
        )
        .also(&["max_tokens", "max_total_tokens"]),
    ],
};

const COUNT_TURNS: Kind = Kind::Count { min: 1, max: Agent::MAX_MAX_TURNS as u64 };
const COUNT_BUDGET: Kind = Kind::Count { min: 1, max: Agent::MAX_TOOL_BUDGET as u64 };
const COUNT_HISTORY: Kind =
    Kind::Count { min: Agent::MIN_HISTORY_BUDGET as u64, max: Agent::MAX_HISTORY_BUDGET as u64 };
const COUNT_TOTAL: Kind = Kind::Count { min: 1, max: Agent::MAX_MAX_TOKENS_TOTAL as u64 };
const COUNT_REPEATS: Kind = Kind::Count { min: 0, max: Agent::MAX_MAX_REPEATS as u64 };

pub(super) static AGENTS: Table = Table {
    header: "[[agents]]",
    doc: "An agent that the model may call as a tool: another program, or a part of this one.",
    keys: &[
        Key::new("name", NAME, "its tool is called `agent__<name>`").required(),
        Key::new("description", Kind::Text, "what it is for, written for the model that calls it").required(),
        Key::new(
            "program",
            Kind::Path,
            "its program.toml, with its own tools, provider and rights, which are at most those of this program; \
             without it the agent is a part of this program",
        )
        .also(&["path", "file"]),
        Key::new("system_prompt", Kind::Text, "what its model is told first; default haft's own")
            .also(&["system", "prompt", "instructions"]),
        Key::new(
            "provider",
            Kind::OneOf(|| provider::NAMES.iter().map(|row| row.0).collect()),
            "whose API; default that of the program",
        ),
        Key::new("model", Kind::Text, "the model, or `fast` or `complex` of the program; default the program's"),
        Key::new("tools", TOOL_PATTERNS, "which tools of this program it may use; default all but agents")
            .also(&["allowed_tools"]),
        Key::new("max_turns", COUNT_TURNS, "questions to its model in one call; default as in `[agent]`").also(&[
            "max_steps",
            "max_iterations",
            "turns",
        ]),
        Key::new("timeout", Kind::Time, "from call to answer; default `30m`").also(&["time", "time_limit"]),
        Key::new("output", Kind::Json, "JSON Schema of its answer; default any words will do")
            .also(&["schema", "output_schema"]),
        Key::new("enabled", Kind::Flag, "default true").also(&["disabled"]),
    ],
};

pub(super) static SERVE: Table = Table {
    header: "[serve]",
    doc: "How many clients `haft serve --http` takes, and who they may be.",
    keys: &[
        Key::new("max_sessions", COUNT_SESSIONS, "sessions at once; default 2048").also(&["sessions"]),
        Key::new("max_connections", COUNT_CONNECTIONS, "connections at once; default 8192").also(&[
            "connections",
            "max_clients",
            "clients",
        ]),
        Key::new(
            "url",
            URL,
            "where clients find it, as `https://tools.example.org/mcp`; absent: at the host that their requests name",
        )
        .also(&["public_url", "base_url", "resource"]),
        Key::new(
            "drain",
            Kind::Time,
            "how long `haft serve --http` still takes calls once it is told to end, while `/readyz` says 503, where a balancer \
             asks that or calls are under way; default `3s`, at most `600s`",
        )
        .also(&["drain_time", "grace", "lame_duck"]),
        Key::new(
            "callers",
            Kind::Tables(&CALLER),
            "who may call, each its own tools; absent: whoever has the token calls all",
        )
        .also(&["caller", "users", "tokens", "auth"]),
    ],
};

pub(super) static CALLER: Table = Table {
    header: "[[serve.callers]]",
    doc: "Somebody who may call what `haft serve --http` serves.",
    keys: &[
        Key::new("name", NAME, "what the journal calls it").required().also(&["id", "user"]),
        Key::new("token", Kind::Table(&SECRET), "where its token is kept; this or `jwt`")
            .also(&["api_key", "secret", "key"]),
        Key::new("jwt", Kind::Table(&CALLER_JWT), "which JSON Web Tokens are its own; this or `token`")
            .also(&["oauth", "oidc"]),
        Key::new("tools", TOOL_PATTERNS, "which tools there are for it; `[\"*\"]`: all")
            .required()
            .also(&["allowed_tools"]),
        Key::new(
            "grant",
            Kind::Table(&CALLER_GRANT),
            "the most that these tools may do for it; default as ever",
        )
        .also(&["rights", "permissions"]),
        Key::new("calls_per_minute", COUNT_PER_MINUTE, "default any number").also(&["rate", "rate_limit"]),
        Key::new("calls_at_once", COUNT_AT_ONCE, "calls at the same time; default any number")
            .also(&["max_concurrent", "concurrency"]),
    ],
};

pub(super) static CALLER_GRANT: Table = Table {
    header: "[serve.callers.grant]",
    doc: "The most that tools may do for a caller. It only narrows; what is not named is not allowed.",
    keys: GRANT_KEYS,
};

pub(super) static CALLER_JWT: Table = Table {
    header: "[serve.callers.jwt]",
    doc: "Which JSON Web Tokens (access tokens of OAuth) are a caller's.",
    keys: &[
        Key::new("issuer", Kind::Text, "the authorization server, exactly as `iss` says it")
            .required()
            .also(&["iss", "authority"]),
        Key::new("audience", Kind::Text, "what has to be in `aud`: this server").required().also(&["aud"]),
        Key::new("jwks_url", URL, "where its public keys are; this or `jwks_file`")
            .also(&["jwks", "jwks_uri"]),
        Key::new("jwks_file", Kind::Path, "the file with its public keys").also(&["file", "keys"]),
        Key::new(
            "algorithms",
            Kind::List(&Kind::OneOf(JwtAlgorithm::names)),
            "with which tokens may be signed; default `RS256`, `ES256` and `EdDSA`",
        )
        .also(&["alg", "algs"]),
        Key::new("subjects", TEXTS, "the only values of `sub` that are meant; default all")
            .also(&["sub", "subject"]),
        Key::new("scopes", TEXTS, "what has to be in `scope`; default nothing").also(&["scope", "scp"]),
    ],
};

const COUNT_PER_MINUTE: Kind = Kind::Count { min: 1, max: CallerTable::MAX_PER_MINUTE as u64 };
const COUNT_AT_ONCE: Kind = Kind::Count { min: 1, max: CallerTable::MAX_AT_ONCE as u64 };

const COUNT_SESSIONS: Kind = Kind::Count { min: 1, max: Serve::MAX_SESSIONS as u64 };
const COUNT_CONNECTIONS: Kind =
    Kind::Count { min: Serve::MIN_CONNECTIONS as u64, max: Serve::MAX_CONNECTIONS as u64 };

pub(super) static NATS: Table = Table {
    header: "[nats]",
    doc: "Where gates and workers of this program meet, and who this one is there.",
    keys: &[
        Key::new(
            "urls",
            Kind::List(&NATS_URL),
            "servers of one cluster, such as `tls://nats.example.com:4222`",
        )
        .also(&["url", "servers", "server"]),
        Key::new("prefix", NAME, "what all subjects, buckets and streams begin with; default `haft`")
            .also(&["subject", "subject_prefix", "namespace"]),
        Key::new("user", Kind::TextOrSecret, "the user's name, beside `password`").also(&["username"]),
        Key::new("password", Kind::Table(&SECRET), "where the user's password is kept").also(&["pass"]),
        Key::new("token", Kind::Table(&SECRET), "where the token is kept, where there are no users"),
        Key::new(
            "credentials",
            Kind::Table(&SECRET),
            "where the user's JWT and seed are kept: a `.creds` file",
        )
        .also(&["creds", "jwt"]),
        Key::new("nkey", Kind::Table(&SECRET), "where the user's seed is kept").also(&["seed"]),
        Key::new("ca", Kind::Path, "certificates to trust; default those of the system")
            .also(&["ca_file", "root"]),
        Key::new("certificate", Kind::Path, "the client's certificate, beside `key`").also(&["cert"]),
        Key::new("key", Kind::Path, "the private key of the client's certificate").also(&["private_key"]),
        Key::new("storage", Kind::Table(&STORAGE), "how much is kept there").also(&["sizes", "jetstream"]),
    ],
};

pub(super) static STORAGE: Table = Table {
    header: "[nats.storage]",
    doc: "What each bucket and stream reserves of the server's storage, where haft makes it: from `1MiB` to `1024GiB`.",
    keys: &[
        Key::new("claims", Kind::Size, "which calls ran, for 2 hours, 250 bytes each; default `256MiB`"),
        Key::new(
            "payloads",
            Kind::Size,
            "arguments and answers that are too large for a message, for 10 minutes; default `1GiB`",
        )
        .also(&["objects"]),
        Key::new("journal", Kind::Size, "what workers noted of calls, for 30 days; default `1GiB`")
            .also(&["log"]),
        Key::new(
            "approvals",
            Kind::Size,
            "which approvals were used, for an hour, 250 bytes each; default `64MiB`",
        ),
        Key::new("tasks", Kind::Size, "tasks of MCP clients, for an hour; default `256MiB`"),
        Key::new("answers", Kind::Size, "long answers of tasks, for an hour; default `1GiB`"),
    ],
};

const NATS_URL: Kind = Kind::Pattern("^(nats|tls)://[^/?#@]+$");
/// A label of workers, or all of them.
const LABELS: Kind = Kind::List(&Kind::Pattern(Label::PATTERN));

pub(super) static JOURNAL: Table = Table {
    header: "[journal]",
    doc: "How much of the journal is kept: no less than without this table.",
    keys: &[
        Key::new(
            "size",
            Kind::Size,
            "of a file before it is put aside; default `64MiB`, from `1MiB` to `1GiB`",
        )
        .also(&["max_size", "file_size", "rotate"]),
        Key::new(
            "keep",
            Kind::Size,
            "newer files before one that was put aside is removed; default `512MiB`, at least that, at most \
             `1024GiB`",
        )
        .also(&["max_total", "retention", "total"]),
    ],
};

pub(super) static PREWARM: Table = Table {
    header: "[prewarm]",
    doc: "Instances of plugins that are made before they are called, by a process that makes many calls.",
    keys: &[Key::new(
        "memory",
        Kind::Size,
        "of all instances that wait for a call, given back when there was none for half a minute; `0MiB` for no such \
         instances, default `256MiB`, at most `64GiB`",
    )
    .also(&["max_memory", "size", "limit"])],
};

pub(super) static TELEMETRY: Table = Table {
    header: "[telemetry]",
    doc: "Where traces and metrics of calls are sent (OpenTelemetry, OTLP over HTTP). Absent: nowhere, unless \
    `OTEL_EXPORTER_OTLP_ENDPOINT` says so. `OTEL_…` variables count more than this table.",
    keys: &[
        Key::new("endpoint", URL, "where OTLP is taken over HTTP, as `http://127.0.0.1:4318`")
            .required()
            .also(&["url", "otlp", "collector"]),
        Key::new("headers", Kind::Map(&Kind::TextOrSecret), "sent with everything").also(&["header"]),
        Key::new("service_name", Kind::Text, "what this service is called; default `haft`")
            .also(&["service", "name"]),
    ],
};

pub(super) static SANDBOX: Table = Table {
    header: "[sandbox]",
    doc: "How far tools reach on this machine.",
    keys: &[
        Key::new(
            "mode",
            Kind::OneOf(|| super::sandbox::MODES.iter().map(|row| row.0).collect()),
            "`sandbox` (default) and `rx` write only below the workspace and the temporary directory, \
             `rwx` anywhere",
        ),
        Key::new(
            "workspace",
            Kind::Path,
            "where tools work; default this folder, without a program.toml the current one",
        )
        .also(&["dir", "directory", "cwd"]),
        Key::new("read", PATHS, "the only directories that may be read, besides the workspace; default all"),
        Key::new(
            "write",
            PATHS,
            "more directories that may be written, and files in the workspace that programs run by themselves, such as \
             `.git/config`",
        ),
        Key::new("deny", PATHS, DENY).also(&["hide", "hidden", "exclude"]),
        Key::new("credentials", STORES, CREDENTIALS).also(&["secrets", "stores"]),
        Key::new("network", Kind::Flag, "whether child processes reach the network; default true")
            .also(&["net"]),
        Key::new("unix_sockets", Kind::Flag, "whether child processes reach unix sockets; default false"),
    ],
};

pub(super) static BACKEND: Table = Table {
    header: "[backend]",
    doc: "Where commands run: on this machine, in a container or on another host, in a pane of tmux or not.",
    keys: &[
        Key::new("container", Kind::Text, "a running container, by name or identifier")
            .also(&["docker", "podman"]),
        Key::new(
            "engine",
            Kind::OneOf(|| super::backend::ENGINES.iter().map(|row| row.0).collect()),
            "whose container it is, `docker` or `podman`; found out where it is left out",
        ),
        Key::new("ssh", Kind::Text, "a host as `ssh` is told it; keys that need no password").also(&["host"]),
        Key::new("ssh_config", Kind::Path, "the configuration of ssh; default your own"),
        Key::new("tmux", Kind::Flag, "a pane that can be watched; default on other hosts that have tmux"),
        Key::new(
            "session",
            Kind::Pattern("^[A-Za-z0-9][A-Za-z0-9_-]{0,47}$"),
            "the session of tmux; default `haft`",
        ),
        Key::new("shell", Kind::Text, "the shell of the pane; default the usual one"),
        Key::new(
            "directory",
            Kind::Text,
            "where commands start on the target; default where its shells start",
        )
        .also(&["dir", "cwd", "workdir", "workspace"]),
        Key::new(
            "files",
            TEXTS,
            "the only directories of the target that `read_file` and `write_file` touch; default all but the \
             system's own and those with keys",
        )
        .also(&["files_allowed_paths", "allow", "read", "write"]),
        Key::new(
            "target_tools",
            Kind::Flag,
            "offer `run_shell`, `read_file` and `write_file` on this machine, in the place of `bash`, `read`, \
             `write` and `edit`; default false",
        ),
    ],
};

pub(super) static BUILTINS: Table = Table {
    header: "[builtins]",
    doc: "Which built-in tools there are.",
    keys: &[
        Key::new("shell", Kind::Flag, "`bash`, or `run_shell` on a target; default true").also(&[
            "bash",
            "run_shell",
            "shell_enabled",
        ]),
        Key::new("files", Kind::Flag, "`read`, `write`, `edit`, or the target's; default true").also(&[
            "read",
            "write",
            "edit",
            "files_enabled",
        ]),
        Key::new("fetch", Kind::Flag, "`fetch_url`; default true").also(&["fetch_url", "fetch_enabled"]),
        Key::new("search", Kind::Flag, "`web_search`; default true").also(&["web_search", "search_enabled"]),
        Key::new("time", Kind::Flag, "`time`; default true"),
        Key::new("tmux", Kind::Flag, "`capture-pane` and `send-keys` where tmux is there; default true")
            .also(&["capture-pane", "send-keys"]),
        Key::new("shell_confirm", Kind::Flag, "ask a person before every shell command; default false")
            .also(&["confirm"]),
        Key::new(
            "shell_deny",
            TEXTS,
            "commands that are refused whoever asks, such as `git push*`; default those that end a machine",
        )
        .also(&["shell_denylist", "deny", "denylist"]),
        Key::new("fetch_confirm", Kind::Flag, "ask a person before every `fetch_url`; default false"),
        Key::new("shell_timeout", Kind::Time, "when a shell command is stopped; default `120s`")
            .also(&["timeout", "bash_timeout"]),
        Key::new(
            "fetch_allow",
            Kind::List(&HOST),
            "hosts that `fetch_url` may reach besides the public ones, such as `http://127.0.0.1:8080`",
        )
        .also(&["allowed_domains", "allow", "hosts"]),
        Key::new(
            "fetch_block",
            Kind::List(&HOST_NAME),
            "hosts that `fetch_url` may not reach, with the names below them",
        )
        .also(&["blocked_domains", "block"]),
        Key::new("search_url", URL, "where `web_search` asks; default `https://html.duckduckgo.com/html/`")
            .also(&["search_endpoint", "endpoint", "url"]),
        Key::new(
            "on",
            Kind::Table(&BUILTINS_ON),
            "which of them live on workers, and on which; default none",
        )
        .also(&["labels", "workers"]),
    ],
};

pub(super) static BUILTINS_ON: Table = Table {
    header: "[builtins.on]",
    doc: "Which built-in tools live on workers: labels of those, `*` for any.",
    keys: &[
        Key::new("shell", LABELS, "`bash`").also(&["bash"]),
        Key::new("files", LABELS, "`read`, `write`, `edit`").also(&["read", "write", "edit"]),
        Key::new("fetch", LABELS, "`fetch_url`").also(&["fetch_url"]),
        Key::new("search", LABELS, "`web_search`").also(&["web_search"]),
        Key::new("time", LABELS, "`time`"),
    ],
};

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use super::super::{JournalTable, Prewarm};
    use super::*;
    use crate::limit::Limits;
    use crate::manifest::{Builtins, CommandTool};
    use crate::units;

    fn all() -> Vec<&'static Table> {
        let mut tables: Vec<&Table> = vec![&ROOT];
        let mut next = 0;
        while let Some(table) = tables.get(next) {
            let inner = table.keys.iter().filter_map(|key| key.kind.table());
            let fresh: Vec<_> =
                inner.filter(|found| !tables.iter().any(|t| std::ptr::eq(*t, *found))).collect();
            tables.extend(fresh);
            next += 1;
        }
        tables
    }

    #[test]
    fn keys_are_unique_and_documented() {
        for table in all() {
            let names: BTreeSet<_> = table.keys.iter().map(|key| key.name).collect();
            assert_eq!(names.len(), table.keys.len(), "{}", table.doc);
            assert!(table.keys.iter().all(|key| !key.doc.is_empty() && !key.doc.ends_with('.')));
            let also: Vec<_> = table.keys.iter().flat_map(|key| key.also).collect();
            assert!(also.iter().all(|word| !names.contains(**word)), "{}: {also:?}", table.doc);
        }
    }

    /// The defaults that the texts promise are the defaults that hold.
    #[test]
    fn documented_defaults_hold() {
        let documented = |table: &Table, key: &str| {
            let doc = table.key(key).unwrap().doc;
            let (_, default) = doc.rsplit_once("default ").unwrap();
            default.split([',', ';']).next().unwrap().trim_matches('`').to_owned()
        };
        let time = |table, key| units::parse_duration(&documented(table, key)).unwrap();
        let size = |table, key| units::parse_size(&documented(table, key)).unwrap();
        let count = |table, key| documented(table, key).parse::<u32>().unwrap();
        assert_eq!(size(&LIMITS, "memory"), Limits::DEFAULT_MEMORY);
        assert_eq!(time(&LIMITS, "time"), Limits::DEFAULT_TIME);
        assert_eq!(size(&LIMITS, "result"), Limits::DEFAULT_RESULT);
        assert_eq!(size(&LIMITS, "disk"), Limits::DEFAULT_DISK);
        assert_eq!(time(&TOOL, "timeout"), CommandTool::DEFAULT_TIMEOUT);
        assert_eq!(time(&MCP_SERVER, "timeout"), McpServer::DEFAULT_TIMEOUT);
        assert_eq!(count(&MCP_SERVER, "max_result"), McpServer::DEFAULT_MAX_RESULT);
        assert_eq!(time(&PROVIDER, "timeout"), Provider::DEFAULT_TIMEOUT);
        assert_eq!(time(&PROVIDER, "connect_timeout"), Provider::DEFAULT_CONNECT_TIMEOUT);
        assert_eq!(time(&PROVIDER, "first_byte_timeout"), Provider::DEFAULT_FIRST_BYTE_TIMEOUT);
        assert_eq!(time(&PROVIDER, "idle_timeout"), Provider::DEFAULT_IDLE_TIMEOUT);
        assert_eq!(time(&AGENTS, "timeout"), super::super::AgentTool::DEFAULT_TIMEOUT);
        assert_eq!(count(&AGENT, "max_turns"), Agent::default().max_turns);
        assert_eq!(count(&AGENT, "max_repeats"), Agent::default().max_repeats);
        assert_eq!(count(&SERVE, "max_sessions"), Serve::default().max_sessions);
        assert_eq!(count(&SERVE, "max_connections"), Serve::default().max_connections);
        assert_eq!(size(&JOURNAL, "size"), JournalTable::DEFAULT_SIZE);
        assert_eq!(size(&JOURNAL, "keep"), JournalTable::DEFAULT_KEEP);
        assert_eq!(size(&PREWARM, "memory"), Prewarm::DEFAULT_MEMORY);
        assert_eq!(time(&BUILTINS, "shell_timeout"), Builtins::default().shell_timeout);
        assert_eq!(documented(&BUILTINS, "search_url"), Builtins::SEARCH_URL);
        let reuse = Reuse::default();
        assert_eq!(count(&REUSE, "max_calls"), reuse.max_calls);
        assert_eq!(time(&REUSE, "max_idle"), reuse.max_idle);
        assert_eq!(count(&REUSE, "max_concurrent"), reuse.max_concurrent);
        assert_eq!(Duration::from_hours(24), Limits::MAX_TIME);
    }
}
