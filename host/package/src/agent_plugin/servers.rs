//! mcp.json of an Agent Plugin (§7.2): a closed schema for the file, whose violation disables all servers, and a
//! closed schema for each server, whose violation omits that server.

use haft_core::grant::Right;
use haft_manifest::TextOrSecret;
use serde_json::{Map, Value};

use super::permissions::Permissions;
use super::server::{Directory, PluginServer, Start};
use super::{DATA, Fault, FaultKind, Files, ROOT, written};
use crate::download::{Url, is_this_machine};

/// The file of the servers.
pub const FILE: &str = "mcp.json";

/// The schema of the only version that is read (§7.2.1).
pub const SCHEMA: &str = "https://agent-plugins.org/schemas/1.0.0/mcp.schema.json";

/// Maximum number of servers of one plugin: more are too many for a model.
const MAX_SERVERS: usize = 64;

pub(super) fn discovered(
    files: &Files<'_>,
    permissions: &Permissions,
    faults: &mut Vec<Fault>,
) -> Vec<PluginServer> {
    if files.is_folder(FILE) {
        faults.push(Fault::new(FaultKind::ComponentInvalid, "`mcp.json` is a folder: no server is used"));
        return Vec::new();
    }
    if !files.has(FILE) {
        return Vec::new();
    }
    let found = files.json(FILE).and_then(|document| top(&document).cloned());
    match found {
        Ok(entries) => {
            let mut servers = Vec::new();
            put_all(&entries, (&mut servers, faults), |name| permissions.server(name), entry);
            servers
        }
        Err(why) => {
            let text = format!("no server is used: `mcp.json`: {why}");
            faults.push(Fault::new(FaultKind::McpDisabled, text));
            Vec::new()
        }
    }
}

/// §7.2.1, §7.2.2 rule 2
fn top(document: &Value) -> Result<&Map<String, Value>, String> {
    let fields = document.as_object().ok_or("expected a JSON object")?;
    match fields.get("$schema") {
        Some(Value::String(schema)) if schema == SCHEMA => {}
        Some(Value::String(schema)) => return Err(format!("`{schema}` is not the version of `plugin.json`")),
        _ => return Err("expected `$schema`, a string".to_owned()),
    }
    if let Some(other) = fields.keys().find(|key| !matches!(key.as_str(), "$schema" | "mcpServers")) {
        return Err(format!("unknown field `{other}`"));
    }
    fields.get("mcpServers").and_then(Value::as_object).ok_or("expected `mcpServers`, an object".to_owned())
}

/// The reason why a server is omitted.
pub(super) enum Skipped {
    /// The entry breaks a rule.
    Invalid(String),
    /// haft does not support the server's transport.
    Transport,
}

impl From<String> for Skipped {
    fn from(why: String) -> Self {
        Self::Invalid(why)
    }
}

impl From<&str> for Skipped {
    fn from(why: &str) -> Self {
        Self::Invalid(why.to_owned())
    }
}

/// Adds the usable servers of `entries`. `read` parses one entry.
pub(super) fn put_all(
    entries: &Map<String, Value>,
    (servers, faults): (&mut Vec<PluginServer>, &mut Vec<Fault>),
    proposed: impl Fn(&str) -> Option<Vec<Right>>,
    read: impl Fn(&Value) -> Result<Start, Skipped>,
) {
    for (name, value) in entries {
        let server = read(value).and_then(|start| named(name, start, proposed(name), servers));
        match server {
            Ok(server) => servers.push(server),
            Err(Skipped::Invalid(why)) => {
                let text = format!("server `{name}` is left out: {why}");
                faults.push(Fault::new(FaultKind::ServerSkipped, text));
            }
            Err(Skipped::Transport) => {
                let text = format!("server `{name}` is left out: haft does not support its transport, `sse`");
                faults.push(Fault::new(FaultKind::TransportUnsupported, text));
            }
        }
    }
}

fn named(
    name: &str,
    start: Start,
    proposed: Option<Vec<Right>>,
    others: &[PluginServer],
) -> Result<PluginServer, Skipped> {
    let called = haft_manifest::Name::of_text(name).map_err(|error| error.to_string())?.to_string();
    if others.iter().any(|other| other.called == called) {
        return Err(format!("another server is named `{called}`").into());
    }
    if others.len() >= MAX_SERVERS {
        return Err(format!("a plugin has at most {MAX_SERVERS}").into());
    }
    let server = PluginServer { name: name.to_owned(), called, skill: None, start, proposed };
    written::check_server(&server)?;
    Ok(server)
}

fn entry(value: &Value) -> Result<Start, Skipped> {
    let fields = value.as_object().ok_or("expected an object")?;
    let kind = fields.get("type").and_then(Value::as_str).ok_or("expected `type`, a string")?;
    let known: &[&str] = match kind {
        "stdio" => &["type", "command", "args", "env", "cwd"],
        "streamable-http" | "sse" => &["type", "url", "headers"],
        other => return Err(format!("unknown transport `{other}`").into()),
    };
    if let Some(other) = fields.keys().find(|key| !known.contains(&key.as_str())) {
        return Err(format!("unknown field `{other}` of a server of type `{kind}`").into());
    }
    if kind == "stdio" {
        return stdio(fields);
    }
    let (url, headers) = (url(fields)?, headers(fields)?);
    if kind == "sse" { Err(Skipped::Transport) } else { Ok(Start::Http { url, headers }) }
}

fn stdio(fields: &Map<String, Value>) -> Result<Start, Skipped> {
    let command = fields.get("command").and_then(Value::as_str).ok_or("expected `command`, a string")?;
    let command = program(command)?;
    let mut words = vec![command];
    words.extend(texts(fields, "args")?);
    let env = pairs(fields, "env")?;
    if let Some((name, _)) = env.iter().find(|(name, _)| name == ROOT || name == DATA) {
        return Err(format!("`env` has `{name}`, which the client sets").into());
    }
    let env = env.into_iter().map(|(name, value)| (name, TextOrSecret::Text(value))).collect();
    let directory = match fields.get("cwd") {
        None => Directory::Root(String::new()),
        Some(Value::String(written)) => directory(written)?,
        Some(_) => return Err("expected `cwd`, a string".into()),
    };
    Ok(Start::Stdio { words, env, directory })
}

/// Parses one token: the bare name of a program, or `./…` below the plugin's folder (§7.2.1).
pub(super) fn program(command: &str) -> Result<String, String> {
    match command.strip_prefix("./") {
        Some(path) => match inside(path) {
            Some(path) if !path.is_empty() => Ok(format!("./{path}")),
            _ => Err(format!("its `command`, `{command}`, is outside the plugin")),
        },
        None if command.is_empty() || command.contains(['/', '\\', '\0']) => {
            Err(format!("its `command`, `{command}`, must be a bare name or start with `./`"))
        }
        None => Ok(command.to_owned()),
    }
}

/// Parses a working directory in one of three forms (§7.2.1).
pub(super) fn directory(written: &str) -> Result<Directory, String> {
    let below = |anchor: &str| {
        let rest = written.strip_prefix(anchor)?;
        if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
    };
    let (data, root) = (below(&placeholder(DATA)), below(&placeholder(ROOT)));
    let found = match (data, root.or_else(|| written.strip_prefix("./"))) {
        (Some(path), _) => inside(path).map(Directory::Data),
        (None, Some(path)) => inside(path).map(Directory::Root),
        (None, None) => return Err(format!("its `cwd`, `{written}`, is not a valid directory")),
    };
    found.ok_or_else(|| format!("its `cwd`, `{written}`, is outside the plugin"))
}

pub(super) fn placeholder(name: &str) -> String {
    format!("${{{name}}}")
}

/// Returns a path without `.` and `..`; `None` for a path to the outside.
fn inside(path: &str) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

pub(super) fn texts(fields: &Map<String, Value>, key: &str) -> Result<Vec<String>, String> {
    let wrong = || format!("expected `{key}`, an array of strings");
    let Some(value) = fields.get(key) else { return Ok(Vec::new()) };
    let texts = value.as_array().ok_or_else(wrong)?.iter().map(|value| value.as_str().map(str::to_owned));
    texts.collect::<Option<_>>().ok_or_else(wrong)
}

pub(super) fn pairs(fields: &Map<String, Value>, key: &str) -> Result<Vec<(String, String)>, String> {
    let wrong = || format!("expected `{key}`, an object of strings");
    let Some(value) = fields.get(key) else { return Ok(Vec::new()) };
    let pair = |(name, value): (&String, &Value)| Some((name.clone(), value.as_str()?.to_owned()));
    value.as_object().ok_or_else(wrong)?.iter().map(pair).collect::<Option<_>>().ok_or_else(wrong)
}

/// §7.2.1: HTTPS, or HTTP on this machine; no user information and no fragment.
pub(super) fn url(fields: &Map<String, Value>) -> Result<String, String> {
    let text = fields.get("url").and_then(Value::as_str).ok_or("expected `url`, a string")?;
    // Some programs do not end the host at a backslash.
    let url = Url::parse(text).ok().filter(|_| text.contains("://") && !text.contains('\\'));
    let url = url.ok_or("its `url` is not an absolute URL")?;
    let has_user = !url.username().is_empty() || url.password().is_some();
    if url.fragment().is_some() || has_user || !url.has_host() {
        return Err("its `url` has a fragment or user information, or no host".to_owned());
    }
    match url.scheme() {
        "https" => Ok(text.to_owned()),
        "http" if is_this_machine(&url) => Ok(text.to_owned()),
        "http" => Err("its `url` is neither encrypted nor on this machine".to_owned()),
        _ => Err("its `url` is neither `https://` nor `http://`".to_owned()),
    }
}

fn headers(fields: &Map<String, Value>) -> Result<Vec<(String, TextOrSecret)>, String> {
    let all = pairs(fields, "headers")?;
    for (index, (name, value)) in all.iter().enumerate() {
        if all.iter().take(index).any(|(other, _)| other.eq_ignore_ascii_case(name)) {
            return Err(format!("the header `{name}` is set twice"));
        }
        if !is_header(name, value) {
            return Err(format!("`{name}` is not a valid header"));
        }
    }
    Ok(all.into_iter().map(|(name, value)| (name, TextOrSecret::Text(value))).collect())
}

/// RFC 9110, §5.1 and §5.5
pub(super) fn is_header(name: &str, value: &str) -> bool {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    let is_value = |c: char| c == '\t' || !c.is_control();
    !name.is_empty() && name.chars().all(is_token) && value.chars().all(is_value)
}
