//! Plugins of Claude Code: `.claude-plugin/plugin.json`, `.mcp.json` and the folders beside them. Their format is
//! open, so that unknown content is skipped. Skills and MCP servers are used; commands, agents and hooks are
//! reported and not run.

use haft_core::skill::Skill;
use haft_manifest::{SecretSource, TextOrSecret};
use serde_json::{Map, Value};

use super::PluginSkill;
use super::permissions::Permissions;
use super::server::{Directory, Start};
use super::servers::{Skipped, is_header, pairs, placeholder, program, put_all, texts, url};
use super::skills::{put, text};
use super::{
    About, AgentPlugin, CLAUDE, DATA, Fault, FaultKind, Files, Form, PluginError, PluginServer, ROOT,
};

/// The file of the servers.
const SERVERS: &str = ".mcp.json";

/// Parts that are reported and not run: the folder or file, and the name of its kind.
const NOT_RUN: &[(&str, &str)] = &[
    ("commands", "commands"),
    ("agents", "agents"),
    ("hooks", "hooks"),
    ("output-styles", "output styles"),
    (".lsp.json", "language servers"),
    ("monitors", "monitors"),
];

/// Maximum number of reported names of each kind.
const MAX_NAMED: usize = 6;

pub(super) fn read(files: &Files<'_>) -> Result<AgentPlugin, PluginError> {
    let fatal = |why: String| PluginError::Manifest { file: CLAUDE, why: haft_core::report::plain(&why) };
    let document = files.json(CLAUDE).map_err(fatal)?;
    let fields = document.as_object().ok_or_else(|| fatal("expected a JSON object".to_owned()))?;
    let word = |key: &str| fields.get(key).and_then(Value::as_str).map(str::to_owned);
    let name = word("name").filter(|name| !name.trim().is_empty());
    let name = name.ok_or_else(|| fatal("expected `name`, a string".to_owned()))?;
    let author = || fields.get("author")?.get("name")?.as_str().map(str::to_owned);
    let about = About {
        name,
        version: word("version"),
        description: word("description"),
        author: word("author").or_else(author),
        license: word("license"),
    };
    let mut faults = Vec::new();
    let extensions = fields.get("extensions").and_then(Value::as_object);
    let permissions = Permissions::read(files, extensions, &mut faults);
    let skills = skills(files, fields, &permissions, &mut faults);
    let servers = servers(files, fields, &permissions, &mut faults);
    not_run(files, &mut faults);
    Ok(AgentPlugin { form: Form::Claude, about, servers, skills, faults })
}

/// Returns the paths that a field has: a text, or a list of texts.
fn paths(value: Option<&Value>) -> Vec<&str> {
    match value {
        Some(Value::String(path)) => vec![path],
        Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Returns a path of the plugin, as its listing has it.
fn own(path: &str) -> &str {
    path.trim_start_matches("./").trim_end_matches('/')
}

fn skills(
    files: &Files<'_>,
    fields: &Map<String, Value>,
    permissions: &Permissions,
    faults: &mut Vec<Fault>,
) -> Vec<PluginSkill> {
    let mut skills = Vec::new();
    for folder in folders(files, fields) {
        let name = folder.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or("skill");
        let name = name.to_owned();
        let skill = text(files, &folder).map(|text| {
            let skill = Skill::parse(&text, &name);
            // Claude Code names a skill by its folder, regardless of its head.
            if folder.is_empty() { skill } else { Skill { name: name.clone(), ..skill } }
        });
        put(files, (&name, skill), folder, permissions, (&mut skills, faults));
    }
    skills
}

/// Returns the folders with a SKILL.md: those in `skills`, those that the manifest names, and those within the
/// named ones; the plugin itself without any other.
fn folders(files: &Files<'_>, fields: &Map<String, Value>) -> Vec<String> {
    let has = |folder: &str| files.has(&format!("{folder}/{}", haft_core::skill::FILE));
    let named = paths(fields.get("skills")).into_iter().map(own);
    let mut found: Vec<String> = Vec::new();
    for place in std::iter::once("skills").chain(named) {
        let inner = files.listing.paths().filter_map(|path| path.strip_prefix(place)?.strip_prefix('/'));
        let inner = inner.filter_map(|path| path.strip_suffix("/SKILL.md"));
        let inner = inner.filter(|folder| !folder.contains('/')).map(|folder| format!("{place}/{folder}"));
        for folder in Some(place.to_owned()).filter(|place| has(place)).into_iter().chain(inner) {
            if !found.contains(&folder) {
                found.push(folder);
            }
        }
    }
    if found.is_empty() && files.has(haft_core::skill::FILE) {
        found.push(String::new());
    }
    found
}

fn servers(
    files: &Files<'_>,
    fields: &Map<String, Value>,
    permissions: &Permissions,
    faults: &mut Vec<Fault>,
) -> Vec<PluginServer> {
    let mut entries = Map::new();
    let mut places: Vec<&str> = Some(SERVERS).filter(|file| files.has(file)).into_iter().collect();
    places.extend(paths(fields.get("mcpServers")).into_iter().map(own).filter(|path| *path != SERVERS));
    for place in places {
        match files.json(place) {
            Ok(document) => entries.extend(entries_of(&document)),
            Err(why) => {
                let text = format!("the servers of `{place}` are not used: {why}");
                faults.push(Fault::new(FaultKind::McpDisabled, text));
            }
        }
    }
    if let Some(Value::Object(inline)) = fields.get("mcpServers") {
        entries.extend(inline.clone());
    }
    let mut servers = Vec::new();
    put_all(&entries, (&mut servers, faults), |name| permissions.server(name), entry);
    servers
}

/// Returns the servers of a file: in `mcpServers`, or each by itself.
fn entries_of(document: &Value) -> Map<String, Value> {
    let inner = document.get("mcpServers").unwrap_or(document);
    let all = inner.as_object().into_iter().flatten();
    all.filter(|(key, _)| *key != "$schema").map(|(name, value)| (name.clone(), value.clone())).collect()
}

pub(super) fn entry(value: &Value) -> Result<Start, Skipped> {
    let fields = value.as_object().ok_or("expected an object")?;
    let kind = fields.get("type").and_then(Value::as_str);
    match kind.unwrap_or(if fields.contains_key("url") { "http" } else { "stdio" }) {
        "stdio" => stdio(fields),
        "http" | "streamable-http" => {
            let headers = pairs(fields, "headers")?.into_iter().map(|(name, value)| {
                let value = header(&name, &value)?;
                if let TextOrSecret::Text(text) = &value
                    && !is_header(&name, text)
                {
                    return Err(format!("`{name}` is not a valid header"));
                }
                Ok((name, value))
            });
            Ok(Start::Http { url: url(fields)?, headers: headers.collect::<Result<_, String>>()? })
        }
        "sse" => Err(Skipped::Transport),
        other => Err(format!("unknown transport `{other}`").into()),
    }
}

fn stdio(fields: &Map<String, Value>) -> Result<Start, Skipped> {
    let command = fields.get("command").and_then(Value::as_str).ok_or("expected `command`, a string")?;
    let command = translated(command);
    let root = format!("{}/", placeholder(ROOT));
    let command = command.strip_prefix(&root).map(|path| format!("./{path}")).unwrap_or(command);
    let mut words = vec![program(&command)?];
    words.extend(texts(fields, "args")?.iter().map(|word| translated(word)));
    let env = pairs(fields, "env")?.into_iter().filter(|(name, _)| name != ROOT && name != DATA);
    let env = env.map(|(name, value)| (name, variable(&translated(&value)))).collect();
    Ok(Start::Stdio { words, env, directory: Directory::Root(String::new()) })
}

/// Returns a text with the placeholders of the Agent Plugins Specification.
fn translated(text: &str) -> String {
    let text = text.replace("${CLAUDE_PLUGIN_ROOT}", &placeholder(ROOT));
    text.replace("${CLAUDE_PLUGIN_DATA}", &placeholder(DATA))
}

/// Returns the value of a variable: haft's own variable if the text is `${NAME}` or `${NAME:-…}`, otherwise the
/// text.
fn variable(text: &str) -> TextOrSecret {
    let inner = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    let name = inner.map(|inner| inner.split(":-").next().unwrap_or(inner));
    let own = name.filter(|name| *name != ROOT && *name != DATA).and_then(|name| name.parse().ok());
    own.map_or_else(
        || TextOrSecret::Text(text.to_owned()),
        |own| TextOrSecret::Secret(SecretSource::Env(own)),
    )
}

/// Returns the value of a header. program.toml cannot express a variable within other text.
fn header(name: &str, text: &str) -> Result<TextOrSecret, String> {
    match variable(text) {
        TextOrSecret::Text(text) if text.contains("${") => Err(format!(
            "its header `{name}` has a variable within text; add the server by its URL instead, with a \
             header whose whole value is a variable or a keyring entry"
        )),
        value => Ok(value),
    }
}

fn not_run(files: &Files<'_>, faults: &mut Vec<Fault>) {
    for (place, what) in NOT_RUN {
        let is_own = |path: &&str| {
            *path == *place || path.strip_prefix(place).is_some_and(|rest| rest.starts_with('/'))
        };
        let found: Vec<&str> = files.listing.paths().filter(is_own).collect();
        if found.is_empty() {
            continue;
        }
        let names =
            found.iter().take(MAX_NAMED).map(|path| format!("`{path}`")).collect::<Vec<_>>().join(", ");
        let more = found.len().saturating_sub(MAX_NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        faults.push(Fault::new(FaultKind::NotRun, format!("{what} of it are not run: {names}{more}")));
    }
}
