//! `[[plugins]]`: the components of a program, each with its grant. Without a grant a component has no rights.
//! `[[packages]]`: the packages of a program, and the most that their plugins are granted. Opens, fetches and resolves
//! nothing.

use std::path::PathBuf;
use std::time::Duration;

use super::config::{HintTable, SETTINGS, Settings, settings};
use super::entry::{Entry, Located};
use super::hosts::{HOSTS, hosts};
use super::name::{Label, Name, ToolName};
use super::secret::{SecretSource, check_header};
use super::section::Section;
use super::source::PackageSource;
use super::table::{FromTable, FromValue, Kind, SHORTEST, Table, table};
use super::values::{VARIABLES, check_url, host_of};
use haft_core::grant::{CredentialStore, HostPattern, Right};
use haft_core::limit::{Limits, Reuse};
use haft_core::net::is_loopback;
use haft_core::pattern::ToolPattern;

table! {
    /// A tool plugin: a WebAssembly component, run with nothing but what is granted here.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Plugin = "[[plugins]]" {
        /// the plugin's name; its tools are named `<name>__<tool>`
        pub name: Located<Name>,
        /// a file, an `https://` URL or an `oci://` reference
        #[read(Kind::Text, |entry| entry.located(component))]
        #[also("path", "file", "url", "wasm", "source")]
        pub component: Located<Component>,
        /// the required signer: a key as in program.lock, or `sigstore:ISSUER#SUBJECT`
        #[also("signature", "signed_by", "key", "identity")]
        pub signer: Option<Located<String>> = None,
        /// default true
        #[also("disabled")]
        pub enabled: bool = true,
        /// the tools to offer, such as `get_*`; default all
        pub tools: Option<Vec<ToolPattern>> = None,
        /// descriptions for tools without one
        #[read(Kind::Map(&Kind::Text), texts_of_tools)]
        #[also("description")]
        pub descriptions: Vec<(Located<ToolName>, String)> = Vec::new(),
        /// titles of tools, for people
        #[read(Kind::Map(&Kind::Text), texts_of_tools)]
        #[also("title")]
        pub titles: Vec<(Located<ToolName>, String)> = Vec::new(),
        /// behaviour of tools that the component does not declare
        #[also("annotations", "hint")]
        pub hints: HintTable = HintTable::default(),
        /// the tools that need a person's approval before every call; default none
        #[also("approve")]
        pub confirm: Vec<ToolPattern> = Vec::new(),
        /// for a hook: the tools, such as `bash`, whose calls it sees and may refuse
        #[also("hook", "watches", "guards")]
        pub hooks: Option<Vec<Located<ToolPattern>>> = None,
        /// what it may do; default nothing
        #[also("grants", "permissions", "allow", "capabilities")]
        pub grant: GrantTable = GrantTable::default(),
        /// limits of one call
        #[read(section LimitKeys::KIND, limits)]
        #[also("limit")]
        pub limits: Limits = Limits::default(),
        /// reuse instances for several calls; default a fresh instance per call
        #[read(ReuseKeys::KIND, reuse)]
        pub reuse: Option<Reuse> = None,
        /// its configuration (`wasi:config`); default none
        #[read(SETTINGS, settings)]
        #[also("configuration", "settings", "options", "variables")]
        pub config: Option<Settings> = None,
        /// headers that haft adds to its requests and that it never sees
        #[read(SECRETS, secrets)]
        #[also("secret")]
        pub secrets: Vec<PluginSecret> = Vec::new(),
        /// labels of the workers that run it, `*` for any; default this machine
        #[also("labels", "workers")]
        pub on: Vec<Label> = Vec::new(),
    }
}

/// Where a component comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Component {
    /// A file, as written: relative to the program's folder, or below `~/`.
    File(PathBuf),
    /// An `https://` URL, or `http://` on this machine.
    Url(String),
    /// An OCI reference without its `oci://`: `ghcr.io/owner/name:tag`.
    Oci(String),
}

impl Component {
    /// The same as a source of a package.
    pub fn source(&self) -> PackageSource {
        match self {
            Self::File(path) => PackageSource::Path(path.clone()),
            Self::Url(url) => PackageSource::Url(url.clone()),
            Self::Oci(reference) => PackageSource::Oci(reference.clone()),
        }
    }
}

table! {
    /// What a plugin may do. What is not named is not allowed.
    #[derive(Clone, Debug, PartialEq)]
    pub struct GrantTable = "[plugins.grant]" {
        /// directories it may read
        #[also("dirs", "files", "paths", "preopens")]
        pub read: Vec<Located<PathBuf>> = Vec::new(),
        /// directories it may read and write
        pub write: Vec<Located<PathBuf>> = Vec::new(),
        /// files and directories that are blocked, in every grant
        #[also("hide", "hidden", "exclude")]
        pub deny: Vec<Located<PathBuf>> = Vec::new(),
        /// credential stores that it may read, such as `ssh` or `gh`; default none
        #[also("secrets", "stores")]
        pub credentials: Vec<CredentialStore> = Vec::new(),
        /// `host`, `*.suffix`, `http://host:port` or `*` (every public host) it may reach, and sets of hosts such as `@npm`
        #[read(HOSTS, hosts)]
        #[also("network", "net", "http", "urls")]
        pub hosts: Vec<HostPattern> = Vec::new(),
        /// variables of haft's environment that it may read
        #[read(VARIABLES, Entry::variables)]
        #[also("environment")]
        pub env: Vec<String> = Vec::new(),
        /// size limit of its key-value store (`wasi:keyvalue`), and of its directory `/state`, from `64KiB`
        /// to `1GiB`
        #[read(size Limits::MIN_KEPT..=Limits::MAX_STATE)]
        #[also("storage", "data", "keyvalue", "database")]
        pub state: Option<u64> = None,
        /// size limit of its directory `/cache`, which haft may empty at any time, from `64KiB` to `64GiB`
        #[read(size Limits::MIN_KEPT..=Limits::MAX_CACHE)]
        #[also("scratch", "temp")]
        pub cache: Option<u64> = None,
    }
}

table! {
    /// What one call may use.
    struct LimitKeys = "[plugins.limits]" {
        // One page of WebAssembly memory: less is none.
        /// default `64MiB`, at most `4GiB`
        #[read(size 64 << 10..=Limits::MAX_MEMORY)]
        #[also("ram", "memory_limit")]
        memory: Option<u64> = None,
        /// time limit of a call; default `30s`, at most `1d`
        #[read(time SHORTEST..=Limits::MAX_TIME)]
        #[also("timeout", "deadline", "wall")]
        time: Option<Duration> = None,
        /// one answer; default `1MiB`, at most `64MiB`
        #[read(size 1..=Limits::MAX_RESULT)]
        #[also("output")]
        result: Option<u64> = None,
        /// written to files; default `256MiB`, at most `1024GiB`
        #[read(size 0..=Limits::MAX_DISK)]
        #[also("storage", "quota")]
        disk: Option<u64> = None,
    }
}

table! {
    /// Keep instances of the plugin for several calls; what one call leaves behind the next one sees.
    #[expect(clippy::struct_field_names, reason = "these are its keys")]
    struct ReuseKeys = "[plugins.reuse]" {
        /// calls per instance; default 100
        #[read(count 1..=Reuse::MAX_CALLS)]
        max_calls: u32 = Reuse::default().max_calls,
        /// idle time before an instance ends; default `5m`
        #[read(time Duration::ZERO..=Limits::MAX_TIME)]
        #[also("idle_timeout")]
        max_idle: Duration = Reuse::default().max_idle,
        // Each holds its memory while it waits.
        /// instances at one time; default 1
        #[read(count 1..=64)]
        #[also("instances")]
        max_concurrent: u32 = Reuse::default().max_concurrent,
    }
}

table! {
    // One that the plugin set itself is replaced. The host must be granted in `hosts` too; a secret grants nothing.
    /// A header that haft adds to the plugin's requests to one host; the plugin never sees its value.
    #[derive(Clone, Debug, PartialEq)]
    pub struct PluginSecret = "" {
        /// What it is called in messages.
        #[read(rows &[], Section::head)]
        pub name: Located<String>,
        /// the only destination of the secret
        #[read(HostPattern::KIND, secret_host)]
        #[also("hosts", "url")]
        pub host: HostPattern,
        /// the name of the header, such as `Authorization`
        #[read(Kind::Pattern("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$"), header)]
        pub header: String,
        /// Where the value is kept.
        #[read(flatten)]
        pub source: SecretSource,
        /// text before the secret, such as `Bearer `; default none
        pub prefix: String = String::new(),
    }
}

const SECRETS: Kind = Kind::Map(&PluginSecret::KIND);

table! {
    /// An installed package, as `haft add` writes it; program.lock pins its content.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Package = "[[packages]]" {
        /// its own name, or the name of `haft add --as`; the names of its plugins then start with that name
        pub name: Located<Name>,
        /// a folder, an archive, `https://…`, `oci://…`, `git+https://…`, `npm:…`, `pypi:…` or an MCP bundle
        #[also("path", "url", "component", "from")]
        pub source: Located<PackageSource>,
        /// the required signer: a key as in program.lock, or `sigstore:ISSUER#SUBJECT`
        #[also("signature", "signed_by", "key", "identity")]
        pub signer: Option<Located<String>> = None,
        /// default true
        #[also("disabled")]
        pub enabled: bool = true,
        /// the tools to offer, by exposed name; default all
        pub tools: Option<Vec<ToolPattern>> = None,
        /// the upper bound of the rights that its plugins request; default none
        #[read(Kind::Table(&PACKAGE_GRANT), |entry| entry.table::<GrantTable>(&PACKAGE_GRANT))]
        #[also("grants", "permissions", "allow", "capabilities")]
        pub grant: GrantTable = GrantTable::default(),
        /// configuration of its plugins; overrides the package's own
        #[read(SETTINGS, settings)]
        #[also("configuration", "settings", "options", "variables")]
        pub config: Option<Settings> = None,
        /// headers that haft adds to the plugins' requests, by the names in the package
        #[read(SECRETS, secrets)]
        #[also("secret")]
        pub secrets: Vec<PluginSecret> = Vec::new(),
    }
}

static PACKAGE_GRANT: Table = Table {
    header: "[packages.grant]",
    doc: "The upper bound of the rights of a package's plugins. Each plugin gets the rights that it requests \
        and this table allows. A server of npm, PyPI or a bundle gets all rights of this table.",
    ..GrantTable::TABLE
};

impl GrantTable {
    /// Its rights one by one, the widest kind first.
    pub fn rights(&self) -> Vec<Right> {
        let text = |path: &Located<PathBuf>| path.value.to_string_lossy().into_owned();
        let write = self.write.iter().map(|path| Right::Write(text(path)));
        let read = self.read.iter().map(|path| Right::Read(text(path)));
        let hosts = self.hosts.iter().cloned().map(Right::Host);
        let env = self.env.iter().cloned().map(Right::Env);
        let credentials = self.credentials.iter().copied().map(Right::Credentials);
        let kept = self.state.map(Right::State).into_iter().chain(self.cache.map(Right::Cache));
        write.chain(read).chain(credentials).chain(hosts).chain(env).chain(kept).collect()
    }
}

/// A hook has other defaults.
fn limits(section: &Section<'_>) -> Limits {
    let default = if section.has("hooks") { Limits::for_hooks() } else { Limits::default() };
    let keys = section.get("limits", LimitKeys::from_value).unwrap_or_default();
    Limits {
        memory: keys.memory.unwrap_or(default.memory),
        time: keys.time.unwrap_or(default.time),
        result: keys.result.unwrap_or(default.result),
        disk: keys.disk.unwrap_or(default.disk),
    }
}

fn reuse(entry: &Entry<'_>) -> Option<Reuse> {
    let ReuseKeys { max_calls, max_idle, max_concurrent } = FromValue::from_value(entry)?;
    Some(Reuse { max_calls, max_idle, max_concurrent })
}

fn component(entry: &Entry<'_>) -> Option<Component> {
    entry.path()?;
    let text = entry.text()?;
    match text.split_once("://") {
        None => Some(Component::File(text.into())),
        Some(("oci", "")) => entry.reject("expected a reference such as `oci://ghcr.io/owner/name:1.0`"),
        Some(("oci", reference)) if !reference.contains('/') || reference.contains(char::is_whitespace) => {
            entry.reject("expected a reference such as `oci://ghcr.io/owner/name:1.0`")
        }
        Some(("oci", reference)) => Some(Component::Oci(reference.to_owned())),
        Some(("https" | "http", rest)) => match check_url(&text) {
            Err(why) => entry.reject(why),
            Ok(()) if text.starts_with("http:") && !is_loopback(host_of(rest)) => {
                entry.reject("a component is code: use `https://`")
            }
            Ok(()) => Some(Component::Url(text)),
        },
        Some(_) => entry.reject("expected a file, an `https://` URL or an `oci://` reference"),
    }
}

fn texts_of_tools(entry: &Entry<'_>) -> Option<Vec<(Located<ToolName>, String)>> {
    let mut all = Vec::new();
    for (name, entry) in entry.entries()? {
        match name.parse::<ToolName>() {
            Ok(tool) => all.extend(entry.text().map(|text| (Located { value: tool, span: name.span }, text))),
            Err(error) => entry.reject_name(&name, error.to_string()),
        }
    }
    Some(all)
}

fn secrets(entry: &Entry<'_>) -> Option<Vec<PluginSecret>> {
    entry.secrets("{ env = \"NAME\", host = \"api.example.com\", header = \"Authorization\" }")
}

/// A secret travels encrypted, or not at all.
fn secret_host(entry: &Entry<'_>) -> Option<HostPattern> {
    encrypted(entry, entry.parse()?)
}

/// Returns a destination of a secret, unless the secret would be sent to any host, or unencrypted.
pub(super) fn encrypted(entry: &Entry<'_>, host: HostPattern) -> Option<HostPattern> {
    if host.is_any() {
        return entry.reject("a secret has one destination: expected a host, not `*`");
    }
    let shown = host.to_string();
    match shown.strip_prefix("http://") {
        Some(rest) if !is_loopback(host_of(rest)) => {
            entry.reject("the secret would be sent unencrypted: use `https`")
        }
        _ => Some(host),
    }
}

fn header(entry: &Entry<'_>) -> Option<String> {
    entry.parse_with(|text| check_header(text).map(|()| text.to_owned()))
}
