//! Parses the two formats of configuration files: JSON with comments and trailing commas, as editors write it, and
//! TOML. Both become a tree of values, each with its position in the text.

use std::ops::Range;

use jsonc_parser::ast::Value as Json;
use jsonc_parser::common::Ranged as _;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use toml_edit::{Document, Item, TableLike, Value as Toml};

/// A format of configuration files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syntax {
    /// JSON with comments and trailing commas.
    Json,
    Toml,
}

impl Syntax {
    /// Returns the format of a text: JSON begins with a brace or a comment, TOML with neither.
    pub(crate) fn of(text: &str) -> Self {
        if text.trim_start().starts_with(['{', '/']) { Self::Json } else { Self::Toml }
    }

    /// Parses `text`; `None` if it is empty.
    pub(crate) fn parse(self, text: &str) -> Result<Option<Node>, SyntaxError> {
        match self {
            Self::Json => parse_json(text),
            Self::Toml => parse_toml(text).map(Some),
        }
    }

    /// Returns `word` as a text of this format.
    pub(crate) fn quoted(self, word: &str) -> String {
        match self {
            Self::Json => serde_json::Value::from(word).to_string(),
            Self::Toml => toml_edit::Value::from(word).to_string(),
        }
    }

    pub(crate) fn pair(self, key: &str, value: &str) -> String {
        match self {
            Self::Json => format!("\"{key}\": {value}"),
            Self::Toml => format!("{key} = {value}"),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// The range in the text. For a TOML table, the range of its header.
    pub(crate) range: Range<usize>,
    pub(crate) value: Value,
}

#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// Keys with values, in the order of the file.
    Table(Vec<Member>),
    List(Vec<Node>),
    /// A text, without quotes and escapes.
    Text(String),
    /// `true` or `false`.
    Flag(bool),
    /// Any other value, unmodified.
    Other(String),
}

/// A key with its value.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    /// The key, without quotes.
    pub(crate) key: String,
    /// The beginning of the key; for a dotted key, of its last part.
    pub(crate) start: usize,
    pub(crate) node: Node,
}

/// A mistake in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SyntaxError {
    /// The byte position of the error.
    pub(crate) at: usize,
    /// The error.
    pub(crate) message: String,
}

impl Node {
    /// Returns the members of a table; none of anything else.
    pub(crate) fn members(&self) -> &[Member] {
        match &self.value {
            Value::Table(members) => members,
            _ => &[],
        }
    }

    /// Returns the member with this name; of several members the last one, as clients do.
    pub(crate) fn member(&self, key: &str) -> Option<&Member> {
        self.members().iter().rev().find(|member| member.key == key)
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        self.member(key).map(|member| &member.node)
    }

    /// Returns the values of a list; none of anything else.
    pub(crate) fn items(&self) -> &[Self] {
        match &self.value {
            Value::List(items) => items,
            _ => &[],
        }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the texts of a list, or `None` if it is no list of texts.
    pub(crate) fn texts(&self) -> Option<Vec<String>> {
        let Value::List(items) = &self.value else { return None };
        items.iter().map(|item| item.text().map(str::to_owned)).collect()
    }

    /// Returns the texts, numbers and flags of a table by their names.
    pub(crate) fn pairs(&self) -> Vec<(String, String)> {
        let pair = |member: &Member| {
            let text = match &member.node.value {
                Value::Text(text) | Value::Other(text) => text.clone(),
                Value::Flag(flag) => flag.to_string(),
                Value::Table(_) | Value::List(_) => return None,
            };
            Some((member.key.clone(), text))
        };
        self.members().iter().filter_map(pair).collect()
    }

    pub(crate) fn is(&self, flag: bool) -> bool {
        matches!(self.value, Value::Flag(own) if own == flag)
    }

    pub(crate) fn is_table(&self) -> bool {
        matches!(self.value, Value::Table(_))
    }
}

/// Comments and commas at the end are read, because some clients write them. Everything else is strict.
const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// Returns the tree of `text`; `None` if it contains only blanks and comments.
fn parse_json(text: &str) -> Result<Option<Node>, SyntaxError> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &OPTIONS)
        .map_err(|error| SyntaxError { at: error.range().start, message: error.kind().to_string() })?;
    Ok(parsed.value.as_ref().map(of_json))
}

/// Converts JSON to a tree. The parser bounds the depth.
fn of_json(json: &Json<'_>) -> Node {
    let value = match json {
        Json::Object(object) => {
            let member = |property: &jsonc_parser::ast::ObjectProp<'_>| Member {
                key: property.name.as_str().to_owned(),
                start: property.range.start,
                node: of_json(&property.value),
            };
            Value::Table(object.properties.iter().map(member).collect())
        }
        Json::Array(array) => Value::List(array.elements.iter().map(of_json).collect()),
        Json::StringLit(text) => Value::Text(text.value.to_string()),
        Json::BooleanLit(flag) => Value::Flag(flag.value),
        Json::NumberLit(number) => Value::Other(number.value.to_owned()),
        Json::NullKeyword(_) => Value::Other(String::new()),
    };
    let range = json.range();
    Node { range: range.start..range.end, value }
}

fn parse_toml(text: &str) -> Result<Node, SyntaxError> {
    let document = Document::parse(text).map_err(|error| SyntaxError {
        at: error.span().map_or(0, |span| span.start),
        message: error.message().to_owned(),
    })?;
    Ok(Node { range: 0..text.len(), value: Value::Table(members(document.as_table())) })
}

/// Returns the members of a table. The parser bounds the depth.
fn members(table: &dyn TableLike) -> Vec<Member> {
    let member = |(key, item): (&str, &Item)| {
        let start = table.key(key).and_then(toml_edit::Key::span).unwrap_or_default().start;
        Member { key: key.to_owned(), start, node: of_item(item) }
    };
    table.iter().map(member).collect()
}

fn of_item(item: &Item) -> Node {
    let range = item.span().unwrap_or_default();
    match item {
        Item::Table(table) => Node { range, value: Value::Table(members(table)) },
        Item::Value(value) => of_toml(value),
        Item::ArrayOfTables(_) | Item::None => Node { range, value: Value::Other(String::new()) },
    }
}

fn of_toml(toml: &Toml) -> Node {
    let value = match toml {
        Toml::InlineTable(table) => Value::Table(members(table)),
        Toml::Array(array) => Value::List(array.iter().map(of_toml).collect()),
        Toml::String(text) => Value::Text(text.value().clone()),
        Toml::Boolean(flag) => Value::Flag(*flag.value()),
        other => Value::Other(other.to_string().trim().to_owned()),
    };
    Node { range: toml.span().unwrap_or_default(), value }
}
