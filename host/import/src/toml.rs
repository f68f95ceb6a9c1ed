//! TOML to a tree with places.

use toml_edit::{Document, Item, TableLike, Value as Toml};

use super::tree::{Member, Node, SyntaxError, Value};

/// The tree of `text`.
pub(crate) fn parse(text: &str) -> Result<Node, SyntaxError> {
    let document = Document::parse(text).map_err(|error| SyntaxError {
        at: error.span().map_or(0, |span| span.start),
        message: error.message().to_owned(),
    })?;
    Ok(Node { range: 0..text.len(), value: Value::Table(members(document.as_table())) })
}

/// The parser bounds the depth.
fn members(table: &dyn TableLike) -> Vec<Member> {
    let member = |(key, item): (&str, &Item)| {
        let start = table.key(key).and_then(toml_edit::Key::span).unwrap_or_default().start;
        Member { key: key.to_owned(), start, node: node(item) }
    };
    table.iter().map(member).collect()
}

fn node(item: &Item) -> Node {
    let range = item.span().unwrap_or_default();
    match item {
        Item::Table(table) => Node { range, value: Value::Table(members(table)) },
        Item::Value(value) => of_value(value),
        Item::ArrayOfTables(_) | Item::None => Node { range, value: Value::Other(String::new()) },
    }
}

fn of_value(toml: &Toml) -> Node {
    let value = match toml {
        Toml::InlineTable(table) => Value::Table(members(table)),
        Toml::Array(array) => Value::List(array.iter().map(of_value).collect()),
        Toml::String(text) => Value::Text(text.value().clone()),
        Toml::Boolean(flag) => Value::Flag(*flag.value()),
        other => Value::Other(other.to_string().trim().to_owned()),
    };
    Node { range: toml.span().unwrap_or_default(), value }
}
