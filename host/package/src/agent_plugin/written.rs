//! The program.toml of a plugin, generated from its manifests. It is kept in memory only: the plugin's folder stays
//! unmodified.

use std::path::Path;

use haft_core::grant::Right;
use haft_core::report::Span;
use haft_core::units::format_size;
use haft_manifest::{Manifest, McpServer, Name, TextOrSecret, Transport};
use semver::Version;
use toml::{Table, Value};

use super::server::Start;
use super::{AgentPlugin, PluginServer, PluginSkill};
use crate::edit::toml_value;
use crate::listing::listed;
use crate::tags::semantic;

pub(super) fn text(plugin: &AgentPlugin) -> String {
    let mut all = Table::new();
    all.insert("program".to_owned(), Value::Table(program(plugin)));
    let runnable = plugin.skills.iter().filter(|skill| !skill.scripts.is_empty());
    put_list(&mut all, "tools", runnable.map(script_tool));
    put_list(&mut all, "mcp_servers", plugin.servers.iter().map(server));
    put_list(&mut all, "plugins", plugin.skills.iter().flat_map(components));
    // Serialization cannot fail: the tables contain only texts and lists.
    toml::to_string(&all).unwrap_or_default()
}

/// Fails if program.toml cannot express a server.
pub(super) fn check_server(written: &PluginServer) -> Result<(), String> {
    parsed_server(written).map(drop)
}

/// Returns a server as an entry of program.toml without a place there.
pub(super) fn entry(written: &PluginServer) -> Option<McpServer> {
    // The server was checked when it was read.
    let mut entry = parsed_server(written).ok()?.mcp_servers.pop()?;
    entry.name.span = Span::default();
    match &mut entry.transport {
        Transport::Stdio { command, .. } => command.span = Span::default(),
        Transport::Http { url, .. } => url.span = Span::default(),
    }
    Some(entry)
}

fn parsed_server(written: &PluginServer) -> Result<Manifest, String> {
    let mut all = Table::new();
    put_list(&mut all, "mcp_servers", std::iter::once(server(written)));
    parsed(&all)
}

/// Fails if program.toml cannot express the components of a skill, or the proposed rights.
pub(super) fn check_components(skill: &PluginSkill) -> Result<(), String> {
    let mut all = Table::new();
    put_list(&mut all, "plugins", components(skill));
    parsed(&all).map(drop)
}

fn parsed(all: &Table) -> Result<Manifest, String> {
    let text = toml::to_string(all).map_err(|error| error.to_string())?;
    let parsed = Manifest::parse(&text, Path::new(super::AGENT));
    let first =
        |report: haft_core::report::Report| report.problems().first().map(|one| one.message().to_owned());
    parsed.map_err(|report| first(report).unwrap_or_default())
}

pub(crate) fn put_list(all: &mut Table, key: &str, entries: impl Iterator<Item = Table>) {
    let entries: Vec<Value> = entries.map(Value::Table).collect();
    if !entries.is_empty() {
        all.insert(key.to_owned(), Value::Array(entries));
    }
}

pub(crate) fn put(table: &mut Table, key: &str, value: impl Into<Value>) {
    table.insert(key.to_owned(), value.into());
}

fn program(plugin: &AgentPlugin) -> Table {
    let about = &plugin.about;
    let name = Name::of_text(&about.name).map_or_else(|_| "plugin".to_owned(), |name| name.to_string());
    let version = semantic(about.version.as_deref().unwrap_or_default());
    let texts = [&about.description, &about.author, &about.license]
        .map(|text| text.as_deref().filter(|text| !text.trim().is_empty()).map(haft_core::report::plain));
    program_table(name, &version, texts)
}

/// Returns `[program]` of a package.
pub(crate) fn program_table(
    name: String,
    version: &Version,
    [description, author, license]: [Option<String>; 3],
) -> Table {
    let fields: [(&str, Option<Value>); 5] = [
        ("name", Some(name.into())),
        ("version", Some(version.to_string().into())),
        ("description", description.map(Value::from)),
        ("authors", author.map(|author| vec![author].into())),
        ("license", license.map(Value::from)),
    ];
    fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
}

/// Returns a tool for the scripts of a skill: its command is the skill's folder, and a call names the script.
fn script_tool(skill: &PluginSkill) -> Table {
    let mut tool = Table::new();
    put(&mut tool, "name", skill.tool.as_str());
    put(&mut tool, "description", format!("Runs a script of the skill `{}`.", skill.skill.name));
    put(&mut tool, "command", Value::Array(vec![format!("./{}", skill.folder).into()]));
    put_grant(&mut tool, skill.proposed.as_deref());
    tool
}

/// A plugin for each component among the scripts of a skill, with the rights that are proposed for the skill.
fn components(skill: &PluginSkill) -> impl Iterator<Item = Table> {
    skill.components.iter().map(|(name, path)| {
        let mut plugin = Table::new();
        put(&mut plugin, "name", name.as_str());
        put(&mut plugin, "component", format!("./{}", listed(&skill.folder, path)));
        put_grant(&mut plugin, skill.proposed.as_deref());
        plugin
    })
}

fn server(server: &PluginServer) -> Table {
    let mut entry = Table::new();
    put(&mut entry, "name", server.called.as_str());
    match &server.start {
        Start::Stdio { words, env, .. } => {
            put(&mut entry, "command", words.clone());
            put_values(&mut entry, "env", env);
            put_grant(&mut entry, server.proposed.as_deref());
        }
        Start::Http { url, headers } => {
            put(&mut entry, "url", url.as_str());
            put_values(&mut entry, "headers", headers);
        }
    }
    entry
}

pub(crate) fn put_values(entry: &mut Table, key: &str, values: &[(String, TextOrSecret)]) {
    let table: Table = values.iter().map(|(name, value)| (name.clone(), toml_value(value))).collect();
    if !table.is_empty() {
        put(entry, key, table);
    }
}

/// Writes a grant for every process of a plugin: without a grant the process would have the rights of `[sandbox]`.
fn put_grant(entry: &mut Table, proposed: Option<&[Right]>) {
    let mut grant = Table::new();
    for right in proposed.unwrap_or_default() {
        match (right.list_entry(), right) {
            (Some((key, text)), _) => {
                let list = grant.entry(key).or_insert_with(|| Value::Array(Vec::new()));
                if let Value::Array(list) = list {
                    list.push(text.into());
                }
            }
            (None, Right::State(bytes)) => put(&mut grant, "state", format_size(*bytes)),
            (None, _) => {}
        }
    }
    put(entry, "grant", grant);
}
