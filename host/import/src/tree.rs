//! A configuration file of any format as a tree of values, each with its position in the text.

use std::ops::Range;

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

    /// Returns the value of this name.
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
