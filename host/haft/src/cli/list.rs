//! `haft list`: the installed packages and plugins, with their sources and rights. Runs no tool.

use std::collections::BTreeSet;
use std::fmt::Write;

use clap::Args;
use serde::Serialize;

use super::Exit;
use super::common::Common;
use super::install_session::{InstallSession, kind_word};
use super::terminal::{Column, DIM, HEAD, Terminal, WARNING, rounded};
use haft_core::grant::Right;
use haft_core::lookup::find_on_path;
use haft_core::project::Project;
use haft_core::report::{plain, shortened};
use haft_core::skill::{Shelf, of_person, of_project};
use haft_manifest::{Manifest, McpServer, ProcessGrant, Transport};
use haft_package::agent_plugin::Form;
use haft_package::{Foreign, Kind, Offered, Origin, PackageSource, ProjectEntry, ToolLister};
use haft_state::Usage;

/// The forms of servers in other formats, which have exactly the granted rights.
const NPM: &str = "npm server";
const PYPI: &str = "PyPI server";
const BUNDLE: &str = "MCP bundle";

#[derive(Debug, Args)]
pub(super) struct List {
    /// Print all details of each entry instead of a table
    #[arg(short, long)]
    long: bool,
}

/// An installed or declared entry.
#[derive(Default, Serialize)]
struct Row {
    name: String,
    /// The kind of declaration: `package`, `plugin`, `mcp-server`, `skill`.
    kind: &'static str,
    /// The form, in words.
    form: &'static str,
    version: Option<String>,
    description: Option<String>,
    enabled: bool,
    /// Whether the content matches its pin, in words.
    state: &'static str,
    source: String,
    /// The commit, version or manifest of the source at the time of installation.
    resolved: Option<String>,
    digest: Option<String>,
    signer: Option<String>,
    tools: Vec<String>,
    /// Prompts and resources: `NAME__prompts/…`, `NAME__resources/read`.
    offers: Vec<String>,
    /// The tools whose calls the entry sees as a hook, by names and patterns.
    hooks: Vec<String>,
    requirements: Vec<Requirement>,
    /// The skills of a package, and its MCP servers.
    skills: Vec<String>,
    servers: Vec<String>,
    asked: Vec<String>,
    /// `null` if the entry has the default rights.
    granted: Option<Vec<String>>,
    /// Whether the servers or commands of the entry have the program's default rights.
    has_default_processes: bool,
    kept: Option<Kept>,
    /// The reason why further facts are unknown.
    problem: Option<String>,
}

/// Bytes of the stored data of a plugin, or of all plugins of a package.
#[derive(Serialize)]
struct Kept {
    /// Bytes of keys and values.
    entries: u64,
    /// Bytes in the private directory.
    files: u64,
    /// Bytes in the cache directory.
    cache: u64,
}

/// A program that a package requires or can use.
#[derive(Serialize)]
struct Requirement {
    name: String,
    required: bool,
    available: bool,
}

impl List {
    pub(super) async fn execute(self, common: &Common, terminal: Terminal) -> anyhow::Result<Exit> {
        let session = InstallSession::open(common, terminal)?;
        let mut rows = Vec::new();
        for entry in session.project.entries() {
            rows.push(row(&session, &entry).await);
        }
        rows.extend(servers(&session));
        rows.extend(skills(&session));
        if terminal.json {
            terminal.json(&rows)?;
        } else if rows.is_empty() {
            terminal.message("nothing is installed; `haft add SOURCE` installs a package or a component");
        } else if self.long {
            terminal.data(&rows.iter().map(Row::text).collect::<Vec<_>>().join("\n"))?;
        } else {
            terminal.data(&table(&rows))?;
        }
        Ok(Exit::Success)
    }
}

async fn row(session: &InstallSession, entry: &ProjectEntry) -> Row {
    let (kind, name) = (entry.kind, entry.name.as_str());
    let pin = session.project.lock.find(kind, name);
    let mut row = Row {
        name: name.to_owned(),
        kind: kind_word(kind),
        form: form(entry),
        version: pin.and_then(|pin| pin.version.as_ref()).map(ToString::to_string),
        enabled: is_enabled(&session.project.manifest, name),
        state: "as agreed",
        source: entry.source.to_string(),
        resolved: pin.and_then(|pin| pin.resolved.clone()),
        digest: pin.map(|pin| pin.digest.to_string()),
        signer: pin.and_then(|pin| pin.signer.as_ref()).map(ToString::to_string),
        hooks: hooks(session, entry),
        asked: pin.map(|pin| pin.asked.clone()).unwrap_or_default(),
        granted: Some(entry.granted.iter().map(ToString::to_string).collect()),
        kept: kept(session, name),
        ..Row::default()
    };
    let Some(pin) = pin else {
        (row.state, row.problem) = ("not pinned", Some("not pinned by program.lock".to_owned()));
        return row;
    };
    let offered = match session.installer().verify_signed(entry, pin) {
        Ok(()) => {
            session.installer().installed(pin).map_err(|error| format!("{:#}", anyhow::Error::from(error)))
        }
        Err(why) => Err(why.to_string()),
    };
    match offered {
        Ok(offered) => row.fill(session, &offered).await,
        Err(why) => (row.state, row.problem) = ("changed", Some(why)),
    }
    row
}

/// Returns the form of an entry, from its source alone.
fn form(entry: &ProjectEntry) -> &'static str {
    match &entry.source {
        PackageSource::Foreign(Foreign { origin, .. }) => match origin {
            Origin::Npm(..) => NPM,
            Origin::Pypi(..) => PYPI,
            Origin::File(_) | Origin::Url(_) => BUNDLE,
        },
        _ if entry.kind == Kind::Package => "package",
        _ => "component",
    }
}

fn is_enabled(manifest: &Manifest, name: &str) -> bool {
    let package = manifest.packages.iter().find(|package| package.name.as_str() == name);
    let plugin = manifest.plugins.iter().find(|plugin| plugin.name.as_str() == name);
    package.map(|package| package.enabled).or(plugin.map(|plugin| plugin.enabled)).unwrap_or(true)
}

/// Returns the stored data of the plugins of an entry.
fn kept(session: &InstallSession, name: &str) -> Option<Kept> {
    let usage = session.context.dirs.homes().usage_of(&session.project.path, name);
    let Usage { entries, files, cache } = usage;
    (usage != Usage::default()).then_some(Kept { entries, files, cache })
}

/// Returns the tools whose calls a plugin sees as a hook.
fn hooks(session: &InstallSession, entry: &ProjectEntry) -> Vec<String> {
    let plugins = session.project.manifest.plugins.iter().filter(|_| entry.kind == Kind::Plugin);
    let own = plugins.filter(|plugin| plugin.name.value == entry.name);
    own.flat_map(|plugin| plugin.hooks.iter().flatten()).map(|pattern| pattern.value.to_string()).collect()
}

impl Kept {
    fn text(&self) -> String {
        let kinds =
            [(self.entries, "of keys and values"), (self.files, "of files"), (self.cache, "of cache")];
        let some = kinds.into_iter().filter(|(bytes, _)| *bytes > 0);
        some.map(|(bytes, what)| format!("{} {what}", rounded(bytes))).collect::<Vec<_>>().join(", ")
    }
}

impl Row {
    async fn fill(&mut self, session: &InstallSession, offered: &Offered) {
        self.description.clone_from(&offered.description);
        match session.context.list_tools(offered).await {
            Ok(tools) => {
                let names = tools.into_iter().map(|tool| tool.def.name);
                // Names of tools contain no `/`.
                (self.offers, self.tools) = names.partition(|name| name.contains('/'));
            }
            Err(error) => (self.state, self.problem) = ("broken", Some(format!("{error:#}"))),
        }
        let Some(bundle) = &offered.bundle else { return };
        match bundle.agent_plugin.as_ref().map(|plugin| plugin.form) {
            Some(Form::Agent) => self.form = "Agent Plugin",
            Some(Form::Claude) => self.form = "Claude plugin",
            None => {}
        }
        self.servers = bundle.manifest.mcp_servers.iter().map(|server| server.name.to_string()).collect();
        let is_own = bundle.agent_plugin.is_none() && !matches!(self.form, NPM | PYPI | BUNDLE);
        self.has_default_processes = is_own && has_default_processes(&bundle.manifest);
        self.skills = bundle.skills.iter().map(|skill| skill.skill.name.clone()).collect();
        let needs = &bundle.manifest.host_requirements;
        let all = needs.required.iter().map(|name| (name, true));
        let all = all.chain(needs.optional.iter().map(|name| (name, false)));
        self.requirements = all
            .map(|(name, required)| Requirement {
                available: find_on_path(name).is_some(),
                name: name.value.clone(),
                required,
            })
            .collect();
    }

    fn text(&self) -> String {
        let version = self.version.as_deref().map(|version| format!(" {version}")).unwrap_or_default();
        let off = if self.enabled { "" } else { " (disabled)" };
        let what = self.description.as_deref().map(|text| format!(": {}", plain(text))).unwrap_or_default();
        let mut text = format!("{HEAD}{}{version}{HEAD:#}{off}{what}\n", plain(&self.name));
        let mut line = |name: &str, value: &str| {
            if !value.is_empty() {
                // Writing to a `String` cannot fail.
                let _ = writeln!(text, "  {DIM}{name:9}{DIM:#}{Column}{}", plain(value));
            }
        };
        let digest = self.digest.as_deref().and_then(|digest| digest.get(..19)).unwrap_or_default();
        line("is", &format!("{}, {}", self.form, self.state));
        line("from", format!("{} {digest}", self.source).trim_end());
        line("signed", self.signer.as_deref().unwrap_or_default());
        line("tools", &self.tools.join(", "));
        line("offers", &self.offers.join(", "));
        line("hook of", &self.hooks.join(", "));
        line("skills", &self.skills.join(", "));
        line("servers", &self.servers.join(", "));
        line("needs", &self.needs());
        line("granted", &self.rights());
        line("keeps", &self.kept.as_ref().map(Kept::text).unwrap_or_default());
        if let Some(problem) = &self.problem {
            let _ = writeln!(text, "  {WARNING}!{WARNING:#}        {Column}{}", plain(problem));
        }
        text
    }

    /// Returns the rights of the entry, or an empty text if it has no rights of its own.
    fn rights(&self) -> String {
        match &self.granted {
            Some(granted) => {
                let default = self.has_default_processes.then(|| "the default".to_owned());
                let all: Vec<_> = granted.iter().cloned().chain(default).collect();
                if all.is_empty() { "nothing".to_owned() } else { all.join(", ") }
            }
            None if self.kind == "skill" => String::new(),
            None => "the default".to_owned(),
        }
    }

    fn needs(&self) -> String {
        let need = |need: &Requirement| {
            let state = match (need.available, need.required) {
                (true, _) => "",
                (false, true) => " (missing)",
                (false, false) => " (optional, missing)",
            };
            format!("{}{state}", need.name)
        };
        self.requirements.iter().map(need).collect::<Vec<_>>().join(", ")
    }
}

/// Returns whether a process of a package requests no rights, and so has the program's default rights.
fn has_default_processes(manifest: &Manifest) -> bool {
    let servers = manifest.mcp_servers.iter().filter(|server| server.enabled && server.grant.is_none());
    let mut servers = servers.filter(|server| matches!(server.transport, Transport::Stdio { .. }));
    servers.next().is_some() || manifest.tools.iter().any(|tool| tool.grant.is_none())
}

/// Returns the servers, in the order of program.toml.
fn servers(session: &InstallSession) -> Vec<Row> {
    session.servers().iter().map(server_row).collect()
}

fn server_row(server: &McpServer) -> Row {
    let name = server.name.to_string();
    let (source, granted) = match &server.transport {
        Transport::Stdio { command, .. } => {
            (haft_import::hidden(&command.value).join(" "), server.grant.as_ref().map(rights))
        }
        // The query may contain a key. No process runs here.
        Transport::Http { url, .. } => {
            (url.value.split(['?', '#']).next().unwrap_or_default().to_owned(), Some(Vec::new()))
        }
    };
    // The pins of the server's tools are in the user's own record, not in a program.lock that came with the folder.
    let state = if server.pinned { "pinned" } else { "not pinned" };
    Row {
        kind: "mcp-server",
        form: "MCP server",
        enabled: server.enabled,
        state,
        source,
        granted,
        name,
        ..Row::default()
    }
}

fn rights(grant: &ProcessGrant) -> Vec<String> {
    grant.all().iter().map(Right::to_string).collect()
}

/// Returns the skills that do not belong to a package.
fn skills(session: &InstallSession) -> Vec<Row> {
    let context = &session.context;
    let mut shelf = Shelf::default();
    if session.project.manifest.agent.skills {
        if let Some(project) = context.sandbox.workspace().and_then(|place| Project::around(place).ok()) {
            of_project(&project, &mut shelf);
        }
        of_person(&context.dirs.home, &mut shelf);
    }
    let row = |skill: &haft_core::skill::Shelved| Row {
        name: skill.skill.name.clone(),
        kind: "skill",
        form: "skill",
        description: Some(skill.skill.description.clone()).filter(|text| !text.is_empty()),
        enabled: true,
        state: "not pinned",
        source: skill
            .files
            .folder()
            .map_or_else(|| skill.origin.clone(), |place| place.display().to_string()),
        ..Row::default()
    };
    shelf.skills().iter().map(row).collect()
}

/// The columns and their widths. With a space between columns the sum is 80.
const COLUMNS: [(&str, usize); 5] = [("name", 18), ("kind", 13), ("from", 22), ("rights", 13), ("state", 10)];

fn table(rows: &[Row]) -> String {
    let head = line(COLUMNS.map(|(name, _)| name.to_owned()));
    let mut text = format!("{DIM}{head}{DIM:#}\n");
    for row in rows {
        let version = row.version.as_deref().map(|version| format!(" {version}")).unwrap_or_default();
        let state = if row.enabled { row.state } else { "off" };
        let name = format!("{}{version}", row.name);
        text += &line([name, row.form.to_owned(), row.source.clone(), kinds(row), state.to_owned()]);
        text.push('\n');
    }
    text
}

fn line(cells: [String; 5]) -> String {
    let cell = |(text, (_, width)): (String, (&str, usize))| format!("{:width$}", cut(&plain(&text), width));
    let cells: Vec<String> = cells.into_iter().zip(COLUMNS).map(cell).collect();
    cells.join(" ").trim_end().to_owned()
}

fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width { text.to_owned() } else { shortened(text, width.saturating_sub(1)) }
}

fn kinds(row: &Row) -> String {
    let Some(granted) = row.granted.as_ref().filter(|granted| !granted.is_empty()) else {
        return row.rights();
    };
    let default = row.has_default_processes.then_some("default");
    let kinds: BTreeSet<&str> =
        granted.iter().filter_map(|right| right.split('=').next()).chain(default).collect();
    kinds.into_iter().collect::<Vec<_>>().join(" ")
}
