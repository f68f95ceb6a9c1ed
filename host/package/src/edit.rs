//! Changes single entries of a program.toml and keeps every other byte: comments, order, spacing. Edits the
//! text alone; the caller checks the result before it is written.

mod proposal;
mod server;

use std::path::Path;

use toml_edit::{Array, ArrayOfTables, Document, DocumentMut, InlineTable, Item, Table, TableLike, Value};

pub use self::proposal::{ProposedLine, propose};
pub(crate) use self::server::toml_value;
pub use self::server::{NewServer, add_server, grant_process};
use super::Kind;
use super::request::Request;
use haft_core::grant::Right;
use haft_manifest::{Name, PluginSecret, SecretSource};

/// Reasons why an entry cannot be changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// The text is not TOML.
    #[error("it cannot be read as TOML: {0}")]
    Syntax(String),
    /// The entry does not exist.
    #[error("it has no entry `{1}` in `[[{0}]]`")]
    Absent(&'static str, String),
    /// The table is neither an array of tables nor an array.
    #[error("its `{0}` is neither an array of tables nor an array")]
    Form(&'static str),
    /// The edit would change more than the entry.
    #[error("haft cannot edit a file of this form; edit it by hand")]
    Unsure,
}

/// A new entry.
#[derive(Clone, Copy, Debug)]
pub struct NewEntry<'a> {
    /// The kind, which selects the table.
    pub kind: Kind,
    /// The entry's name.
    pub name: &'a str,
    /// The entry's source.
    pub source: &'a str,
    /// The granted requests.
    pub granted: &'a [Request],
}

/// Returns `text`, or the initial content of a program.toml in `folder` if `text` is empty.
pub fn begun(text: &str, folder: &Path) -> String {
    if !text.trim().is_empty() {
        return text.to_owned();
    }
    let name = Name::of_folder(folder);
    format!(
        "# Tools work in this folder; `workspace` in `[sandbox]` sets another folder.\n\
         [program]\nname = \"{}\"\nversion = \"0.1.0\"\n",
        name.as_str()
    )
}

/// Appends an entry to `text`.
pub fn add(text: &str, entry: &NewEntry<'_>) -> Result<String, EditError> {
    let document = parse(text)?;
    let table = entry.kind.table();
    let added = match document.get(table) {
        // An inline array cannot be continued by a `[[table]]`.
        Some(Item::Value(Value::Array(_))) => add_inline(document, entry)?,
        None | Some(Item::ArrayOfTables(_)) => {
            let mut new = Table::new();
            fill(&mut new, false, entry);
            let mut wrapped = DocumentMut::new();
            wrapped.insert(table, Item::ArrayOfTables(ArrayOfTables::from_iter([new])));
            joined(text, &wrapped.to_string())
        }
        Some(_) => return Err(EditError::Form(table)),
    };
    if without(&added, table, entry.name) == plain(text) { Ok(added) } else { Err(EditError::Unsure) }
}

/// Joins both texts with one empty line between them, in the line ends of the first.
fn joined(text: &str, new: &str) -> String {
    let end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let body = text.trim_end_matches(['\n', '\r', ' ', '\t']);
    let gap = if body.is_empty() { String::new() } else { end.repeat(2) };
    // A non-empty text keeps its last lines, except empty lines.
    let new = new.trim_start_matches('\n').replace('\n', end);
    format!("{body}{gap}{new}")
}

fn fill(table: &mut dyn TableLike, is_inline: bool, entry: &NewEntry<'_>) {
    table.insert("name", toml_edit::value(entry.name));
    table.insert(entry.kind.source_key(), toml_edit::value(entry.source));
    Editing { table, is_inline }.grant(entry.granted);
}

fn add_inline(mut document: DocumentMut, entry: &NewEntry<'_>) -> Result<String, EditError> {
    let mut table = InlineTable::new();
    fill(&mut table, true, entry);
    let array = document.get_mut(entry.kind.table()).and_then(Item::as_array_mut);
    array.ok_or(EditError::Form(entry.kind.table()))?.push(table);
    Ok(document.to_string())
}

/// Removes an entry with the comments directly above it and in it.
pub fn remove(text: &str, kind: Kind, name: &str) -> Result<String, EditError> {
    let mut document = parse(text)?;
    let expected = without(text, kind.table(), name);
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

/// Adds granted requests to an entry.
pub fn grant(text: &str, kind: Kind, name: &str, granted: &[Request]) -> Result<String, EditError> {
    changed(text, kind.table(), name, |entry| entry.grant(granted))
}

/// Changes the source of an entry.
pub fn source(text: &str, kind: Kind, name: &str, source: &str) -> Result<String, EditError> {
    changed(text, kind.table(), name, |entry| entry.put(kind.source_key(), source.into()))
}

fn changed(
    text: &str,
    list: &'static str,
    name: &str,
    change: impl FnOnce(&mut Editing<'_>),
) -> Result<String, EditError> {
    let mut document = parse(text)?;
    // Servers are in either of two lists.
    let is_in_other = list == "mcp_servers" && has(text, "mcp", name) && !has(text, list, name);
    let list = if is_in_other { "mcp" } else { list };
    let absent = || EditError::Absent(list, name.to_owned());
    match document.get_mut(list) {
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
        Some(_) => return Err(EditError::Form(list)),
    }
    Ok(document.to_string())
}

/// Adds a right of processes to `[sandbox]`, unless it is present: an entry of one of its lists, or the network without
/// `right`.
pub fn sandbox(text: &str, right: Option<&Right>) -> Result<String, EditError> {
    let mut document = parse(text)?;
    let mut editing = Editing { table: document.as_table_mut(), is_inline: false };
    match right.map(Right::list_entry) {
        None => editing.inside("sandbox", |sandbox| sandbox.put("network", true.into())),
        Some(Some((key, entry))) => editing.inside("sandbox", |sandbox| sandbox.push(key, &entry)),
        // A right with its own key is one of plugins.
        Some(None) => {}
    }
    changed_sandbox(text, &document)
}

/// Returns the text of `document`, which was `text`, if `[sandbox]` alone has changed.
fn changed_sandbox(text: &str, document: &DocumentMut) -> Result<String, EditError> {
    let changed = document.to_string();
    // An implicit or inline table of another form stays unchanged, which the check of the result would accept.
    let others = |text: &str| {
        let mut table = plain(text);
        table.remove("sandbox");
        table
    };
    let is_done = plain(&changed).contains_key("sandbox") && others(text) == others(&changed);
    if is_done { Ok(changed) } else { Err(EditError::Unsure) }
}

/// Adds a rule to `allow` of `[agent]`, unless it is present.
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
    let is_there = |rules: &[toml::Value]| rules.iter().any(|present| present.as_str() == Some(rule));
    let added = usize::from(!is_there(&before));
    if is_there(&after) && after.len() == before.len() + added { Ok(changed) } else { Err(EditError::Unsure) }
}

/// Reports whether no other granted request covers the right: of two plugins of a package the larger quota is
/// written.
fn is_most(right: &Right, granted: &[Request]) -> bool {
    let includes =
        |other: &Request| matches!(other, Request::Right(_, other) if other != right && other.covers(right));
    !granted.iter().any(includes)
}

/// A table that is being changed, and whether it is an inline table.
struct Editing<'t> {
    table: &'t mut dyn TableLike,
    is_inline: bool,
}

impl Editing<'_> {
    /// Adds each granted request under its key of program.toml, unless it is present.
    fn grant(&mut self, granted: &[Request]) {
        for request in granted {
            match request {
                Request::Right(_, right) => self.inside("grant", |grant| match right.list_entry() {
                    Some((key, text)) => grant.push(key, &text),
                    None if is_most(right, granted) => grant.put_pair(&right.to_string()),
                    None => {}
                }),
                Request::Limit(_, limit) => {
                    self.inside("limits", |limits| limits.put_pair(&limit.to_string()));
                }
                Request::Secret(_, secret) => self.inside("secrets", |secrets| secrets.put_secret(secret)),
                Request::Command(..)
                | Request::Server(..)
                | Request::AnyGrant(_)
                | Request::Instructions
                | Request::Unknown(_) => {}
            }
        }
    }

    /// Changes the table `key`, which is created if missing. A value of another type is not changed: the check
    /// of the result reports it.
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

    /// Sets a value; keeps the old value's comment and spaces.
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

    fn put_pair(&mut self, text: &str) {
        let (key, value) = text.split_once('=').unwrap_or((text, ""));
        self.put(key, value.into());
    }

    /// Appends a text to a list, unless it is present.
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
        let (key, place) = place_of(&secret.source);
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

/// Returns the key and the value that name the place of a secret.
fn place_of(source: &SecretSource) -> (&'static str, String) {
    match source {
        SecretSource::Env(variable) => ("env", variable.to_string()),
        SecretSource::File(path) => ("file", path.to_string_lossy().into_owned()),
        SecretSource::Keyring(entry) => ("keyring", entry.to_string()),
    }
}

/// Appends a text to an array in the layout of the last value: on its own line if the last value is, and with
/// equal trailing spaces.
fn add_last(array: &mut Array, text: &str) {
    let Some(last) = array.iter_mut().last() else { return array.push(text) };
    let space =
        |raw: Option<&toml_edit::RawString>| raw.and_then(|raw| raw.as_str()).unwrap_or_default().to_owned();
    let (before, behind) = (space(last.decor().prefix()), space(last.decor().suffix()));
    // A comment above the last value stays with it.
    let before = before.rfind('\n').and_then(|end| before.get(end..)).unwrap_or(" ").to_owned();
    last.decor_mut().set_suffix("");
    array.push_formatted(Value::from(text).decorated(before, behind));
}

fn parse(text: &str) -> Result<DocumentMut, EditError> {
    text.parse().map_err(|error: toml_edit::TomlError| EditError::Syntax(error.message().to_owned()))
}

/// Parses the text without its layout; empty if the text is invalid.
fn plain(text: &str) -> toml::Table {
    toml::from_str(text).unwrap_or_default()
}

fn without(text: &str, list: &str, name: &str) -> toml::Table {
    let mut table = plain(text);
    if let Some(entries) = table.get_mut(list).and_then(toml::Value::as_array_mut) {
        entries.retain(|entry| entry.get("name").and_then(toml::Value::as_str) != Some(name));
        if entries.is_empty() {
            table.remove(list);
        }
    }
    table
}

fn has(text: &str, list: &str, name: &str) -> bool {
    let entries = plain(text).remove(list);
    let mut entries = entries.iter().filter_map(toml::Value::as_array).flatten();
    entries.any(|entry| entry.get("name").and_then(toml::Value::as_str) == Some(name))
}

fn name_of(table: &dyn TableLike) -> Option<&str> {
    table.get("name").and_then(Item::as_str)
}

/// Returns the text without the lines of an entry, if these lines are contiguous.
fn cut(text: &str, kind: Kind, name: &str) -> Option<String> {
    let document = Document::parse(text).ok()?;
    let tables = document.get(kind.table())?.as_array_of_tables()?;
    let entry = tables.iter().find(|table| name_of(*table) == Some(name))?;
    let first = entry.span()?.start;
    let last = last_byte(entry)?;
    let (start, end) = (comments_above(text, line_start(text, first)), paragraph_end(text, last));
    let (before, after) = (text.get(..start)?, text.get(end..)?);
    // The empty lines after the entry are removed with it; for the last entry, those before it.
    let after = after.trim_start_matches(['\n', '\r']);
    Some(if after.is_empty() {
        let end = if before.contains("\r\n") { "\r\n" } else { "\n" };
        let kept = before.trim_end_matches(['\n', '\r']);
        if kept.is_empty() { String::new() } else { format!("{kept}{end}") }
    } else {
        format!("{before}{after}")
    })
}

/// Returns the last byte of a table and its values.
fn last_byte(table: &Table) -> Option<usize> {
    let header_end = table.span().map(|span| span.end);
    let inner = table.iter().filter_map(|(_, item)| match item {
        Item::Table(table) => last_byte(table),
        Item::ArrayOfTables(tables) => tables.iter().filter_map(last_byte).max(),
        Item::Value(value) => value.span().map(|span| span.end),
        Item::None => None,
    });
    inner.max().max(header_end)
}

fn line_start(text: &str, at: usize) -> usize {
    text.get(..at).and_then(|before| before.rfind('\n')).map_or(0, |newline| newline + 1)
}

/// Returns the start of the comments directly above the line at `start`.
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

/// Returns the end of the paragraph around `at`: the first empty line, or the comments directly above the next
/// table.
fn paragraph_end(text: &str, at: usize) -> usize {
    let mut end = at;
    for (index, line) in text.get(at..).unwrap_or_default().split_inclusive('\n').enumerate() {
        // The first item is the rest of the current line.
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
