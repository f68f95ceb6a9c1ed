//! Appends MCP servers to a program.toml, and grants them rights.

use toml_edit::{Array, ArrayOfTables, DocumentMut, InlineTable, Item, Table, Value};

use super::{EditError, changed, joined, parse, place_of, plain, without};
use crate::Request;
use haft_core::grant::Right;
use haft_manifest::TextOrSecret;

/// The table of MCP servers.
const TABLE: &str = "mcp_servers";

/// Adds rights to the grant of a process: an MCP server or a command of the list `list` of program.toml.
pub fn grant_process(
    text: &str,
    list: &'static str,
    name: &str,
    rights: &[Right],
) -> Result<String, EditError> {
    let rights: Vec<_> = rights.iter().map(|right| Request::Right(None, right.clone())).collect();
    changed(text, list, name, |entry| entry.grant(&rights))
}

/// A new MCP server.
#[derive(Clone, Copy, Debug)]
pub struct NewServer<'a> {
    /// The server's name.
    pub name: &'a str,
    /// The words of the command line; empty for a server with a URL.
    pub command: &'a [String],
    /// The address.
    pub url: Option<&'a str>,
    /// The variables of a command, or the headers of an address.
    pub values: &'a [(String, TextOrSecret)],
    /// Whether the server is used.
    pub enabled: bool,
}

/// Appends a server to `text`, which has none of its name.
pub fn add_server(text: &str, server: &NewServer<'_>) -> Result<String, EditError> {
    let document = parse(text)?;
    if !matches!(document.get(TABLE), None | Some(Item::ArrayOfTables(_))) {
        return Err(EditError::Form(TABLE));
    }
    let mut wrapped = DocumentMut::new();
    wrapped.insert(TABLE, Item::ArrayOfTables(ArrayOfTables::from_iter([table(server)])));
    let added = joined(text, &wrapped.to_string());
    if without(&added, TABLE, server.name) == plain(text) { Ok(added) } else { Err(EditError::Unsure) }
}

fn table(server: &NewServer<'_>) -> Table {
    let mut table = Table::new();
    table.insert("name", toml_edit::value(server.name));
    match server.url {
        Some(url) => table.insert("url", toml_edit::value(url)),
        None => table.insert("command", toml_edit::value(server.command.iter().collect::<Array>())),
    };
    if !server.values.is_empty() {
        let key = if server.url.is_some() { "headers" } else { "env" };
        let values = server.values.iter().map(|(name, value)| (name.as_str(), written(value)));
        table.insert(key, toml_edit::value(values.collect::<InlineTable>()));
    }
    if !server.enabled {
        table.insert("enabled", toml_edit::value(false));
    }
    table
}

/// Returns a value as an entry of program.toml has it.
pub(crate) fn toml_value(value: &TextOrSecret) -> toml::Value {
    match value {
        TextOrSecret::Text(text) => text.clone().into(),
        TextOrSecret::Secret(source) => {
            let (key, place) = place_of(source);
            toml::Table::from_iter([(key.to_owned(), place.into())]).into()
        }
    }
}

fn written(value: &TextOrSecret) -> Value {
    match value {
        TextOrSecret::Text(text) => text.into(),
        TextOrSecret::Secret(source) => {
            let (key, place) = place_of(source);
            InlineTable::from_iter([(key, Value::from(place))]).into()
        }
    }
}
