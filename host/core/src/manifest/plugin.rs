//! `[[plugins]]`: which components are loaded and what each is granted. An absent grant is no
//! grant; nothing here opens, fetches or resolves anything.

use std::path::PathBuf;
use std::time::Duration;

use super::catalogue::{GRANT, HINTS, LIMITS, PLUGIN, PLUGIN_SECRET, REUSE};
use super::config::{Settings, settings};
use super::entry::{Entry, Located};
use super::hint_table::HintTable;
use super::label::Label;
use super::name::{Name, ToolName};
use super::pattern::ToolPattern;
use super::secret::{SecretSource, check_header, secret_source};
use super::section::{Section, note_duplicates};
use super::source::PackageSource;
use super::values::{check_url, host_of};
use crate::grant::{CredentialStore, HostPattern, Right};
use crate::limit::Limits;
use crate::net::is_loopback;

/// A plugin.
#[derive(Clone, Debug, PartialEq)]
pub struct Plugin {
    /// Its tools are called `<name>__<tool>`.
    pub name: Located<Name>,
    /// Where the component comes from.
    pub component: Located<Component>,
    /// A plugin that is not enabled is checked and not loaded.
    pub enabled: bool,
    /// Which of its tools are offered, by their own names, without the plugin's; `None`: all.
    pub tools: Option<Vec<ToolPattern>>,
    /// Descriptions that replace those of the component, by the tools' own names.
    pub descriptions: Vec<(Located<ToolName>, String)>,
    /// Titles that replace those of the component, by the tools' own names.
    pub titles: Vec<(Located<ToolName>, String)>,
    /// How its tools behave, besides what the component says.
    pub hints: HintTable,
    /// Which of its tools need a person's approval before every call; none where it says nothing.
    pub confirm: Vec<ToolPattern>,
    /// Which calls it sees and may refuse, by the tools' exposed names; `None`: it is a tool plugin, and no hook.
    pub hooks: Option<Vec<Located<ToolPattern>>>,
    /// What it may do.
    pub grant: GrantTable,
    /// What one call may use.
    pub limits: Limits,
    /// Whether instances serve several calls; `None`: a fresh instance for every call.
    pub reuse: Option<Reuse>,
    /// What it reads of its configuration; `None`: nothing, and it is told so.
    pub config: Option<Settings>,
    /// Headers it sends but never sees.
    pub secrets: Vec<PluginSecret>,
    /// Labels of the workers that it lives on; none: it lives here.
    pub on: Vec<Label>,
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

/// `[plugins.grant]`: what the plugin may do, as written. All empty: nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GrantTable {
    /// Directories it may read: relative to the program's folder, or below `~/`.
    pub read: Vec<Located<PathBuf>>,
    /// Directories it may read and write.
    pub write: Vec<Located<PathBuf>>,
    /// What it may neither read nor write, wherever it lies.
    pub deny: Vec<Located<PathBuf>>,
    /// Credential stores that are not closed to it.
    pub credentials: Vec<CredentialStore>,
    /// Destinations it may reach.
    pub hosts: Vec<HostPattern>,
    /// Variables of haft's environment that it may see.
    pub env: Vec<String>,
    /// Bytes of its own keys and values, and as many of files in its private directory.
    pub state: Option<u64>,
    /// Bytes of files in a directory of its own that may be emptied at any time.
    pub cache: Option<u64>,
}

/// `[plugins.reuse]`: instances are kept for several calls. What one call leaves in memory the
/// next one sees, so this is for plugins that are slow to start and trusted with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reuse {
    /// Calls that one instance serves before it is replaced; at least 1.
    pub max_calls: u32,
    /// How long an instance is kept without a call.
    pub max_idle: Duration,
    /// Instances at one time; calls beyond wait. At least 1.
    pub max_concurrent: u32,
}

/// One entry of `[plugins.secrets]`: haft adds the header to the plugin's requests to `host`,
/// replacing one that the plugin set itself. The plugin never sees the value. The host must be
/// granted in `hosts` too; a secret grants nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginSecret {
    /// What it is called in messages.
    pub name: Located<String>,
    /// The only destination it is sent to.
    pub host: HostPattern,
    /// The header's name.
    pub header: String,
    /// Where the value is kept.
    pub source: SecretSource,
    /// Written before the value, such as `Bearer `.
    pub prefix: String,
}

impl Default for Reuse {
    fn default() -> Self {
        Self { max_calls: 100, max_idle: Duration::from_mins(5), max_concurrent: 1 }
    }
}

impl Reuse {
    /// More calls than one run makes.
    pub const MAX_CALLS: u32 = 1_000_000;
    /// Each holds its memory while it waits.
    pub(crate) const MAX_CONCURRENT: u32 = 64;

    fn read(section: &Section<'_>) -> Self {
        let default = Self::default();
        let count = |key, most| section.get(key, |entry| entry.count(1..=most));
        let idle = section.get("max_idle", |entry| entry.duration(Duration::ZERO..=Limits::MAX_TIME));
        Self {
            max_calls: count("max_calls", Self::MAX_CALLS).unwrap_or(default.max_calls),
            max_idle: idle.unwrap_or(default.max_idle),
            max_concurrent: count("max_concurrent", Self::MAX_CONCURRENT).unwrap_or(default.max_concurrent),
        }
    }
}

impl Plugin {
    pub(super) fn read_all(root: &Section<'_>) -> Vec<Self> {
        let sections = root.tables("plugins", &PLUGIN);
        let names = sections.iter().filter_map(|section| Some((section.span_of("name"), section.name()?)));
        note_duplicates(root.notes(), "plugins", names);
        sections.iter().filter_map(Self::read).collect()
    }

    fn read(section: &Section<'_>) -> Option<Self> {
        let name = section.require("name", |entry| entry.located(Entry::parse));
        let component = section
            .require("component", |entry| entry.located(|entry| entry.path().and_then(|_| component(entry))));
        let grant = section.get("grant", |entry| entry.section(&GRANT));
        let limits = section.get("limits", |entry| entry.section(&LIMITS));
        let reuse = section.get("reuse", |entry| entry.section(&REUSE));
        let hints = section.get("hints", |entry| entry.section(&HINTS));
        let hooks = section.get("hooks", |entry| entry.list(|entry| entry.located(Entry::parse)));
        let default = if hooks.is_some() { Limits::for_hooks() } else { Limits::default() };
        let read = Self {
            enabled: section.get("enabled", Entry::flag).unwrap_or(true),
            tools: section.get("tools", Entry::tool_patterns),
            descriptions: section.get("descriptions", texts_of_tools).unwrap_or_default(),
            titles: section.get("titles", texts_of_tools).unwrap_or_default(),
            hints: hints.as_ref().map(HintTable::read).unwrap_or_default(),
            confirm: section.get("confirm", Entry::tool_patterns).unwrap_or_default(),
            grant: grant.as_ref().map(GrantTable::read).unwrap_or_default(),
            limits: limits.as_ref().map_or(default, |section| read_limits(section, default)),
            hooks,
            reuse: reuse.as_ref().map(Reuse::read),
            config: section.get("config", settings),
            secrets: section.get("secrets", secrets).unwrap_or_default(),
            on: Label::read_on(section),
            name: name?,
            component: component?,
        };
        Some(read)
    }
}

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

    pub(super) fn read(section: &Section<'_>) -> Self {
        Self {
            read: section.list("read", Entry::located_path),
            write: section.list("write", Entry::located_path),
            deny: section.list("deny", Entry::located_path),
            credentials: section.list("credentials", Entry::parse),
            hosts: section.list("hosts", Entry::parse),
            env: section.list("env", Entry::variable),
            state: section.get("state", |entry| entry.size(Limits::MIN_KEPT..=Limits::MAX_STATE)),
            cache: section.get("cache", |entry| entry.size(Limits::MIN_KEPT..=Limits::MAX_CACHE)),
        }
    }
}

fn read_limits(section: &Section<'_>, default: Limits) -> Limits {
    let size = |key, least, most| section.get(key, |entry| entry.size(least..=most));
    let shortest = Duration::from_millis(1);
    let time = section.get("time", |entry| entry.duration(shortest..=Limits::MAX_TIME));
    Limits {
        // One page of WebAssembly memory: less is none.
        memory: size("memory", 64 << 10, Limits::MAX_MEMORY).unwrap_or(default.memory),
        time: time.unwrap_or(default.time),
        result: size("result", 1, Limits::MAX_RESULT).unwrap_or(default.result),
        disk: size("disk", 0, Limits::MAX_DISK).unwrap_or(default.disk),
    }
}

fn component(entry: &Entry<'_>) -> Option<Component> {
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
                entry.reject("a component is code: fetch it with `https://`")
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

pub(super) fn secrets(entry: &Entry<'_>) -> Option<Vec<PluginSecret>> {
    let entries = entry.entries()?;
    Some(entries.into_iter().filter_map(|(name, entry)| secret(name, &entry)).collect())
}

fn secret(name: Located<String>, entry: &Entry<'_>) -> Option<PluginSecret> {
    if entry.raw().is_str() {
        return entry.reject_with_hint(
            "a secret is named here, never written",
            "write `{ env = \"NAME\", host = \"api.example.com\", header = \"Authorization\" }`",
        );
    }
    let section = entry.section(&PLUGIN_SECRET)?;
    let host = section.require("host", secret_host);
    let header = section.require("header", header);
    let prefix = section.get("prefix", Entry::text).unwrap_or_default();
    let source = secret_source(&section);
    Some(PluginSecret { name, host: host?, header: header?, source: source?, prefix })
}

/// A secret travels encrypted, or not at all.
fn secret_host(entry: &Entry<'_>) -> Option<HostPattern> {
    let host: HostPattern = entry.parse()?;
    if host.is_any() {
        return entry.reject("a secret goes to one destination, not to every host");
    }
    let shown = host.to_string();
    match shown.strip_prefix("http://") {
        Some(rest) if !is_loopback(host_of(rest)) => {
            entry.reject("the secret would travel unencrypted: only `https` may carry it")
        }
        _ => Some(host),
    }
}

fn header(entry: &Entry<'_>) -> Option<String> {
    entry.parse_with(|text| check_header(text).map(|()| text.to_owned()))
}
