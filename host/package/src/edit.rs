//! Changes single entries of a program.toml and leaves every other byte as it is: comments, order, spacing. Works on
//! the text alone; the caller checks the result before it is written.

use std::path::Path;

use toml_edit::{Array, ArrayOfTables, Document, DocumentMut, InlineTable, Item, Table, TableLike, Value};

use super::kind::Kind;
use super::request::Request;
use haft_core::grant::{CredentialStore, Right};
use haft_manifest::{Name, PluginSecret, SecretSource};

/// Why an entry cannot be changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// Not TOML.
    #[error("it cannot be read as TOML: {0}")]
    Syntax(String),
    /// No such entry.
    #[error("it has no entry `{1}` in `[[{0}]]`")]
    Absent(&'static str, String),
    /// The entry is not written as one.
    #[error("its `{0}` is neither an array of tables nor an array")]
    Form(&'static str),
    /// The change would be another one than was meant.
    #[error("its form is one that haft cannot change; change it by hand")]
    Unsure,
}

/// A new entry.
#[derive(Clone, Copy, Debug)]
pub struct NewEntry<'a> {
    /// The table it goes to.
    pub kind: Kind,
    /// Its name.
    pub name: &'a str,
    /// Where it comes from.
    pub source: &'a str,
    /// What is granted of what was asked for.
    pub granted: &'a [Request],
}

/// `text`, or where nothing is in it yet what a program.toml in `folder` begins with.
pub fn begun(text: &str, folder: &Path) -> String {
    if !text.trim().is_empty() {
        return text.to_owned();
    }
    let name = Name::of_folder(folder);
    format!(
        "# Tools work in this folder; `workspace` in `[sandbox]` names another.\n\
         [program]\nname = \"{}\"\nversion = \"0.1.0\"\n",
        name.as_str()
    )
}

/// Adds an entry at the end of `text`.
pub fn add(text: &str, entry: &NewEntry<'_>) -> Result<String, EditError> {
    let document = parse(text)?;
    let table = entry.kind.table();
    let added = match document.get(table) {
        // Written as one array, it cannot be gone on with elsewhere.
        Some(Item::Value(Value::Array(_))) => add_inline(document, entry)?,
        None | Some(Item::ArrayOfTables(_)) => {
            let new = new_table(entry);
            let mut wrapped = DocumentMut::new();
            wrapped.insert(table, Item::ArrayOfTables(ArrayOfTables::from_iter([new])));
            joined(text, &wrapped.to_string())
        }
        Some(_) => return Err(EditError::Form(table)),
    };
    let is_right = |rest: &toml::Table| *rest == plain(text);
    if is_right(&without(&added, entry.kind, entry.name)) { Ok(added) } else { Err(EditError::Unsure) }
}

/// Both texts, one empty line between them, with the first one's kind of line end.
fn joined(text: &str, new: &str) -> String {
    let end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let body = text.trim_end_matches(['\n', '\r', ' ', '\t']);
    let gap = if body.is_empty() { String::new() } else { end.repeat(2) };
    // What is not empty keeps its own last lines, but for empty ones.
    let new = new.trim_start_matches('\n').replace('\n', end);
    format!("{body}{gap}{new}")
}

fn new_table(entry: &NewEntry<'_>) -> Table {
    let mut table = Table::new();
    table.insert("name", toml_edit::value(entry.name));
    table.insert(entry.kind.source_key(), toml_edit::value(entry.source));
    Editing { table: &mut table, is_inline: false }.grant(entry.granted);
    table
}

fn add_inline(mut document: DocumentMut, entry: &NewEntry<'_>) -> Result<String, EditError> {
    let mut table = InlineTable::new();
    table.insert("name", entry.name.into());
    table.insert(entry.kind.source_key(), entry.source.into());
    Editing { table: &mut table, is_inline: true }.grant(entry.granted);
    let array = document.get_mut(entry.kind.table()).and_then(Item::as_array_mut);
    array.ok_or(EditError::Form(entry.kind.table()))?.push(table);
    Ok(document.to_string())
}

/// Removes an entry with the comments that stand directly above it and in it.
pub fn remove(text: &str, kind: Kind, name: &str) -> Result<String, EditError> {
    let mut document = parse(text)?;
    let expected = without(text, kind, name);
    if expected == plain(text) {
        return Err(EditError::Absent(kind.table(), name.to_owned()));
    }
    if let Some(cut) = cut(text, kind, name).filter(|cut| plain(cut) == expected) {
        return Ok(cut);
    }
    match document.get_mut(kind.table()) {
        Some(Item::ArrayOfTables(tables)) => {
            tables.retain(|table| name_of(table) != Some(name));
            if tables.is_empty() {
                document.remove(kind.table());
            }
        }
        Some(Item::Value(Value::Array(array))) => {
            array.retain(|value| value.as_inline_table().and_then(|table| name_of(table)) != Some(name));
        }
        _ => return Err(EditError::Form(kind.table())),
    }
    let removed = document.to_string();
    if plain(&removed) == expected { Ok(removed) } else { Err(EditError::Unsure) }
}

/// Adds to what an entry grants.
pub fn grant(text: &str, kind: Kind, name: &str, granted: &[Request]) -> Result<String, EditError> {
    changed(text, kind, name, |entry| entry.grant(granted))
}

/// Changes where an entry comes from.
pub fn source(text: &str, kind: Kind, name: &str, source: &str) -> Result<String, EditError> {
    changed(text, kind, name, |entry| entry.put(kind.source_key(), source.into()))
}

/// Changes one entry.
fn changed(
    text: &str,
    kind: Kind,
    name: &str,
    change: impl FnOnce(&mut Editing<'_>),
) -> Result<String, EditError> {
    let mut document = parse(text)?;
    let absent = || EditError::Absent(kind.table(), name.to_owned());
    match document.get_mut(kind.table()) {
        Some(Item::ArrayOfTables(tables)) => {
            let table = tables.iter_mut().find(|table| name_of(*table) == Some(name)).ok_or_else(absent)?;
            change(&mut Editing { table, is_inline: false });
        }
        Some(Item::Value(Value::Array(array))) => {
            let mut tables = array.iter_mut().filter_map(Value::as_inline_table_mut);
            let table = tables.find(|table| name_of(*table) == Some(name)).ok_or_else(absent)?;
            change(&mut Editing { table, is_inline: true });
        }
        None => return Err(absent()),
        Some(_) => return Err(EditError::Form(kind.table())),
    }
    Ok(document.to_string())
}

/// What `[sandbox]` can say that processes may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SandboxRight {
    /// To read this directory.
    Read(String),
    /// To write this directory.
    Write(String),
    /// To read this credential store.
    Credentials(CredentialStore),
    /// To use the network.
    Network,
}

/// Adds to what `[sandbox]` allows, unless it is there.
pub fn sandbox(text: &str, right: &SandboxRight) -> Result<String, EditError> {
    let mut document = parse(text)?;
    Editing { table: document.as_table_mut(), is_inline: false }.inside("sandbox", |sandbox| match right {
        SandboxRight::Read(path) => sandbox.push("read", path),
        SandboxRight::Write(path) => sandbox.push("write", path),
        SandboxRight::Credentials(store) => sandbox.push("credentials", &store.to_string()),
        SandboxRight::Network => sandbox.put("network", true.into()),
    });
    let changed = document.to_string();
    // An implicit or inline table of another form is left as it is, which the check of the result would take for done.
    let others = |text: &str| {
        let mut all = plain(text);
        all.remove("sandbox");
        all
    };
    let is_done = plain(&changed).contains_key("sandbox") && others(text) == others(&changed);
    if is_done { Ok(changed) } else { Err(EditError::Unsure) }
}

/// Adds a rule to `allow` of `[agent]`, unless it is there.
pub fn allow(text: &str, rule: &str) -> Result<String, EditError> {
    let mut document = parse(text)?;
    Editing { table: document.as_table_mut(), is_inline: false }
        .inside("agent", |agent| agent.push("allow", rule));
    let changed = document.to_string();
    let rules = |text: &str| {
        let agent = plain(text).remove("agent");
        let rules = agent.as_ref().and_then(|agent| agent.get("allow")?.as_array().cloned());
        rules.unwrap_or_default()
    };
    let (before, after) = (rules(text), rules(&changed));
    let is_there = |rules: &[toml::Value]| rules.iter().any(|own| own.as_str() == Some(rule));
    let added = usize::from(!is_there(&before));
    if is_there(&after) && after.len() == before.len() + added { Ok(changed) } else { Err(EditError::Unsure) }
}

/// The list of `[plugins.grant]` that a right stands in, and its text there; `None` where it is a key of its own.
fn list_entry(right: &Right) -> Option<(&'static str, String)> {
    match right {
        Right::Read(path) => Some(("read", path.clone())),
        Right::Write(path) => Some(("write", path.clone())),
        Right::Host(host) => Some(("hosts", host.to_string())),
        Right::Env(name) => Some(("env", name.clone())),
        Right::Credentials(store) => Some(("credentials", store.to_string())),
        Right::State(_) | Right::Cache(_) => None,
    }
}

/// Whether nothing else that is granted includes the right: of two plugins of a package the larger quota is written.
fn is_most(right: &Right, granted: &[Request]) -> bool {
    let includes =
        |other: &Request| matches!(other, Request::Right(_, other) if other != right && other.covers(right));
    !granted.iter().any(includes)
}

/// A table being changed, and whether it is written in braces.
struct Editing<'t> {
    table: &'t mut dyn TableLike,
    is_inline: bool,
}

impl Editing<'_> {
    /// Adds what is granted, each thing where program.toml has it, unless it is there.
    fn grant(&mut self, granted: &[Request]) {
        for request in granted {
            match request {
                Request::Right(_, right) => self.inside("grant", |grant| match list_entry(right) {
                    Some((key, text)) => grant.push(key, &text),
                    None if is_most(right, granted) => grant.put_pair(&right.to_string()),
                    None => {}
                }),
                Request::Limit(_, limit) => {
                    self.inside("limits", |limits| limits.put_pair(&limit.to_string()));
                }
                Request::Secret(_, secret) => self.inside("secrets", |secrets| secrets.put_secret(secret)),
                Request::Command(..) | Request::Server(..) | Request::Instructions | Request::Unknown(_) => {}
            }
        }
    }

    /// Changes the table `key`, which is made if it is not there. A value of another type stays: the check of the
    /// result reports it.
    fn inside(&mut self, key: &str, change: impl FnOnce(&mut Editing<'_>)) {
        let is_inline = self.is_inline;
        if !self.table.contains_key(key) {
            let new =
                if is_inline { toml_edit::value(InlineTable::new()) } else { Item::Table(Table::new()) };
            self.table.insert(key, new);
        }
        if let Some(table) = self.table.get_mut(key).and_then(Item::as_table_like_mut) {
            change(&mut Editing { table, is_inline });
        }
    }

    /// Sets a value, with the comment and the spaces that the old one had.
    fn put(&mut self, key: &str, mut value: Value) {
        match self.table.get_mut(key).and_then(Item::as_value_mut) {
            Some(old) => {
                *value.decor_mut() = old.decor().clone();
                *old = value;
            }
            None => {
                self.table.insert(key, Item::Value(value));
            }
        }
    }

    /// Sets what is written as `key=value`.
    fn put_pair(&mut self, text: &str) {
        let (key, value) = text.split_once('=').unwrap_or((text, ""));
        self.put(key, value.into());
    }

    /// Adds a text to a list that does not have it.
    fn push(&mut self, key: &str, text: &str) {
        if !self.table.contains_key(key) {
            self.table.insert(key, toml_edit::value(Array::new()));
        }
        let array = self.table.get_mut(key).and_then(Item::as_array_mut);
        if let Some(array) = array.filter(|array| !array.iter().any(|value| value.as_str() == Some(text))) {
            add_last(array, text);
        }
    }

    fn put_secret(&mut self, secret: &PluginSecret) {
        let (key, place) = match &secret.source {
            SecretSource::Env(variable) => ("env", variable.to_string()),
            SecretSource::File(path) => ("file", path.to_string_lossy().into_owned()),
            SecretSource::Keyring(entry) => ("keyring", entry.to_string()),
        };
        self.inside(&secret.name.value, |table| {
            table.put("host", secret.host.to_string().into());
            table.put("header", secret.header.as_str().into());
            if !secret.prefix.is_empty() {
                table.put("prefix", secret.prefix.as_str().into());
            }
            table.put(key, place.into());
        });
    }
}

/// Adds a text at the end of an array, laid out as what was the last value before: on a line of its own where that is, and
/// with the spaces that stand behind.
fn add_last(array: &mut Array, text: &str) {
    let Some(last) = array.iter_mut().last() else { return array.push(text) };
    let own =
        |raw: Option<&toml_edit::RawString>| raw.and_then(|raw| raw.as_str()).unwrap_or_default().to_owned();
    let (before, behind) = (own(last.decor().prefix()), own(last.decor().suffix()));
    // A comment above the value is that value's.
    let before = before.rfind('\n').and_then(|end| before.get(end..)).unwrap_or(" ").to_owned();
    last.decor_mut().set_suffix("");
    array.push_formatted(Value::from(text).decorated(before, behind));
}

fn parse(text: &str) -> Result<DocumentMut, EditError> {
    text.parse().map_err(|error: toml_edit::TomlError| EditError::Syntax(error.message().to_owned()))
}

/// What a text says, without how; nothing where it says nothing that can be understood.
fn plain(text: &str) -> toml::Table {
    toml::from_str(text).unwrap_or_default()
}

/// The same without one entry.
fn without(text: &str, kind: Kind, name: &str) -> toml::Table {
    let mut table = plain(text);
    if let Some(entries) = table.get_mut(kind.table()).and_then(toml::Value::as_array_mut) {
        entries.retain(|entry| entry.get("name").and_then(toml::Value::as_str) != Some(name));
        if entries.is_empty() {
            table.remove(kind.table());
        }
    }
    table
}

fn name_of(table: &dyn TableLike) -> Option<&str> {
    table.get("name").and_then(Item::as_str)
}

/// The text without the lines of an entry, as far as they stand in one piece.
fn cut(text: &str, kind: Kind, name: &str) -> Option<String> {
    let document = Document::parse(text).ok()?;
    let tables = document.get(kind.table())?.as_array_of_tables()?;
    let entry = tables.iter().find(|table| name_of(*table) == Some(name))?;
    let first = entry.span()?.start;
    let last = last_byte(entry)?;
    let (start, end) = (comments_above(text, line_start(text, first)), paragraph_end(text, last));
    let (before, after) = (text.get(..start)?, text.get(end..)?);
    // The empty lines behind it go with it, or those before it where it was the last.
    let after = after.trim_start_matches(['\n', '\r']);
    Some(if after.is_empty() {
        let end = if before.contains("\r\n") { "\r\n" } else { "\n" };
        let kept = before.trim_end_matches(['\n', '\r']);
        if kept.is_empty() { String::new() } else { format!("{kept}{end}") }
    } else {
        format!("{before}{after}")
    })
}

/// The last byte of anything in a table.
fn last_byte(table: &Table) -> Option<usize> {
    let own = table.span().map(|span| span.end);
    let inner = table.iter().filter_map(|(_, item)| match item {
        Item::Table(table) => last_byte(table),
        Item::ArrayOfTables(tables) => tables.iter().filter_map(last_byte).max(),
        Item::Value(value) => value.span().map(|span| span.end),
        Item::None => None,
    });
    inner.max().max(own)
}

fn line_start(text: &str, at: usize) -> usize {
    text.get(..at).and_then(|before| before.rfind('\n')).map_or(0, |newline| newline + 1)
}

/// Where the comments begin that stand directly above the line at `start`.
fn comments_above(text: &str, mut start: usize) -> usize {
    while start > 0 {
        let above = line_start(text, start - 1);
        match text.get(above..start) {
            Some(line) if line.trim_start().starts_with('#') => start = above,
            _ => break,
        }
    }
    start
}

/// Where the paragraph ends that `at` is in: at the first empty line, or where the next table begins with
/// the comments directly above it.
fn paragraph_end(text: &str, at: usize) -> usize {
    let mut end = at;
    for (index, line) in text.get(at..).unwrap_or_default().split_inclusive('\n').enumerate() {
        // The first is the rest of a line of its own.
        let is_comment = line.trim_start().starts_with('#');
        if index > 0 && !is_comment {
            let is_empty = line.trim().is_empty();
            return if is_empty { end } else { comments_above(text, end).max(line_end(text, at)) };
        }
        end += line.len();
    }
    end
}

fn line_end(text: &str, at: usize) -> usize {
    text.get(at..).and_then(|rest| rest.find('\n')).map_or(text.len(), |newline| at + newline + 1)
}

#[cfg(test)]
mod tests;
