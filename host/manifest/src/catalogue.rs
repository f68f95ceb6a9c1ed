//! The catalogue of program.toml: its tables, their keys, and the type of each value. `table!` declares each table
//! in the file of the struct that is read from it. Contains data only.

/// A table: the keys it may have.
#[derive(Clone, Copy)]
pub(super) struct Table {
    /// How a person writes its head: `[[plugins]]`, `[plugins.limits]`; empty where it has none.
    pub(super) header: &'static str,
    /// What it is for.
    pub(super) doc: &'static str,
    /// The keys, in the order in which they are best written.
    pub(super) rows: &'static [Row],
}

/// A key of a table, or the keys that make one value together.
pub(super) enum Row {
    Key(Key),
    Group(&'static [Row]),
}

pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) required: bool,
    /// What it means, with its default: shown in hints and by editors.
    pub(super) doc: &'static str,
    /// Other words that people use for it; only ever suggested, never accepted.
    pub(super) also: &'static [&'static str],
}

/// What a value may be.
pub(super) enum Kind {
    /// Any text that is not blank.
    Text,
    /// Any text.
    Word,
    /// `true` or `false`.
    Flag,
    /// A whole number, both bounds included.
    Count { min: u64, max: u64 },
    /// An amount of money, no less than nothing.
    Price,
    /// A text such as `"64MiB"`.
    Size,
    /// A text such as `"30s"`.
    Time,
    /// One of these texts.
    OneOf(fn() -> Vec<&'static str>),
    /// A text of this regular expression, which the reader checks by a type of its own.
    Pattern(&'static str),
    /// A port, or a text of this regular expression.
    PortOr(&'static str),
    /// A path, relative to the folder of the file.
    Path,
    /// A command line: one text split as a shell splits words, or the words.
    Command,
    /// A text, a number, a flag, or an array of texts.
    Scalar,
    /// A table that is passed on as JSON.
    Json,
    /// A path, or a table that is passed on as JSON.
    PathOrJson,
    /// A text, or a secret.
    TextOrSecret,
    /// A text, a number, a flag, or a secret.
    Setting,
    /// An array.
    List(&'static Kind),
    /// A table whose keys are the user's.
    Map(&'static Kind),
    /// One table.
    Table(&'static Table),
}

impl Table {
    pub(super) fn keys(&self) -> Vec<&'static Key> {
        fn collect(rows: &'static [Row], keys: &mut Vec<&'static Key>) {
            for row in rows {
                match row {
                    Row::Key(key) => keys.push(key),
                    Row::Group(rows) => collect(rows, keys),
                }
            }
        }
        let mut keys = Vec::new();
        collect(self.rows, &mut keys);
        keys
    }

    pub(super) fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys().into_iter().find(|key| key.name == name)
    }
}

#[cfg(test)]
impl Kind {
    /// The table that a value of this kind is made of, if it is.
    pub(super) fn table(&self) -> Option<&'static Table> {
        match self {
            Self::Table(table) => Some(table),
            Self::List(inner) | Self::Map(inner) => inner.table(),
            _ => None,
        }
    }
}
