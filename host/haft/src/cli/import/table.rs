//! The servers that `haft import` found, for people or as data: names, commands without secrets, and the changes.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use serde_json::{Value, json};

use super::{Setting, values};
use crate::cli::terminal::{Column, DIM, HEAD, Hinted, Terminal, did_you_mean};
use haft_core::report::plain;
use haft_import::{CLIENTS, Client, Config, ConfigError, Server, Start, hidden, is_secret, origin};

pub(super) fn show(found: &Found, setting: &Setting, terminal: Terminal) -> anyhow::Result<()> {
    if terminal.json {
        let rows = found
            .configs
            .iter()
            .flat_map(|config| config.servers.iter().map(|server| row(config, server, setting)));
        return terminal.json(&rows.collect::<Vec<_>>());
    }
    if found.configs.is_empty() {
        terminal.message(found.nothing(setting));
        return Ok(());
    }
    let mut text = String::new();
    for config in &found.configs {
        let (title, path) = (config.client.title, setting.shown(&config.path));
        let _ = writeln!(text, "{HEAD}{title}{HEAD:#} {DIM}{} {path}{DIM:#}", config.scope);
        for server in &config.servers {
            text.push_str(&line(server, left(server, config, setting).as_deref()));
            text.push('\n');
        }
    }
    Ok(terminal.data(text.trim_end())?)
}

/// Returns the line of a server, with the reason if haft does not change the server.
pub(super) fn line(server: &Server, left: Option<&str>) -> String {
    let project = server.project.iter().map(|project| format!(" in {}", plain(project)));
    let name = format!("{}{}", plain(&server.name), project.collect::<String>());
    let off = if server.enabled { "" } else { " (off)" };
    let mut line = format!("  {name}{off}: {Column}{}", plain(&shown(server)));
    if let Some(why) = left {
        let _ = write!(line, " {DIM}{why}{DIM:#}");
    }
    let secrets = secrets(server);
    if !secrets.is_empty() {
        let _ = write!(line, " {DIM}[written in the file: {}]{DIM:#}", plain(&secrets.join(", ")));
    }
    line
}

fn row(config: &Config, server: &Server, setting: &Setting) -> Value {
    let left = left(server, config, setting);
    json!({
        "client": config.client.name,
        "scope": config.scope,
        "project": server.project,
        "file": config.path,
        "name": server.name,
        "enabled": server.enabled,
        "command": server.process().map(|process| hidden(&process.words)),
        "url": if let Start::Http { url, .. } = &server.start { Some(origin(url)) } else { None },
        "variables": server.process().map(|process| process.variables().collect::<Vec<_>>()),
        "secrets": secrets(server),
        "change": left.is_none().then_some("wrap"),
        "left": left,
    })
}

fn shown(server: &Server) -> String {
    match &server.start {
        Start::Process(process) => hidden(&process.words).join(" "),
        Start::Http { url, .. } => origin(url),
        Start::Elsewhere => "no command".to_owned(),
    }
}

/// Returns the reason why `haft wrap` cannot start the command of a server.
pub(super) fn left(server: &Server, config: &Config, setting: &Setting) -> Option<String> {
    match &server.start {
        Start::Process(process) if process.is_wrapped(&setting.haft) => {
            Some("is already behind `haft wrap`".to_owned())
        }
        Start::Process(_) => None,
        Start::Http { .. } => Some("not changed: it uses HTTP and starts no process".to_owned()),
        Start::Elsewhere => {
            Some(format!("not changed: {} stores its command in another place", config.client.title))
        }
    }
}

fn secrets(server: &Server) -> Vec<&str> {
    let mut secrets: Vec<_> = values(server)
        .iter()
        .filter(|(name, value)| is_secret(name, value))
        .map(|(name, _)| name.as_str())
        .collect();
    let has_argument = server.process().is_some_and(|process| hidden(&process.words) != process.words);
    secrets.extend(has_argument.then_some("an argument"));
    secrets
}

pub(super) struct Found {
    pub(super) configs: Vec<Config>,
    pub(super) errors: Vec<ConfigError>,
    clients: Vec<&'static Client>,
}

impl Found {
    /// Reads the files of the client or file `source`, or of all clients. An unreadable file does not prevent the use
    /// of others.
    pub(super) fn of(source: Option<&str>, setting: &Setting) -> anyhow::Result<Self> {
        let mut found = Self { configs: Vec::new(), errors: Vec::new(), clients: Vec::new() };
        match source.map(|source| (source, Client::named(source))) {
            None => found.clients.extend(CLIENTS),
            Some((_, Some(client))) => found.clients.push(client),
            Some((path, None)) => {
                let path = file(path)?;
                found.configs.push(Config::of_file(path, &setting.machine)?);
            }
        }
        // Each file is listed once, even if the home directory is also the project's folder.
        let mut seen = BTreeSet::new();
        for client in found.clients.clone() {
            for place in client.places(&setting.machine) {
                let is_new = place.path.canonicalize().is_ok_and(|real| seen.insert(real));
                match Config::read(client, &place) {
                    Ok(Some(config)) if is_new && !config.servers.is_empty() => found.configs.push(config),
                    Ok(_) => {}
                    Err(error) => found.errors.push(error),
                }
            }
        }
        Ok(found)
    }

    /// Returns the message that no server was found, with the searched places.
    pub(super) fn nothing(&self, setting: &Setting) -> String {
        let places = self.clients.iter().flat_map(|client| client.places(&setting.machine));
        let places: Vec<_> = places.map(|place| setting.shown(&place.path)).collect();
        if places.is_empty() {
            return "no servers were found".to_owned();
        }
        format!("no servers were found in {}", places.join(", "))
    }
}

/// Returns the file of a source that is not the name of a client.
fn file(source: &str) -> anyhow::Result<&Path> {
    let path = Path::new(source);
    if path.exists() {
        return Ok(path);
    }
    let names = CLIENTS.iter().map(|client| client.name);
    let near = did_you_mean(source, names.clone());
    let message = format!("expected a client or a file, found `{}`{near}", plain(source));
    let names: Vec<_> = names.collect();
    Err(Hinted::new(message, format!("clients: {}", names.join(", "))).into())
}
