//! Reads a TOML table key by key. Every error is recorded with its position and reading continues, so that one run
//! reports all errors; a default never replaces an invalid value.

use std::collections::BTreeMap;

use haft_core::report::{Problem, Span, nearest};
use toml::de::DeTable;

use super::catalogue::{Key, Table};
use super::entry::{Entry, Located, Notes};

/// A table whose keys are all allowed ones; the others have been noted.
pub(super) struct Section<'a> {
    /// Where it stands: `plugins.limits`, empty for the file.
    path: String,
    table: &'a DeTable<'a>,
    shape: &'static Table,
    span: Span,
    notes: &'a Notes,
    /// Its name, where that stands in its head.
    head: Option<Located<String>>,
}

impl<'a> Section<'a> {
    pub(super) fn root(table: &'a DeTable<'a>, shape: &'static Table, notes: &'a Notes) -> Self {
        let section = Self { path: String::new(), table, shape, span: Span::default(), notes, head: None };
        section.note_unknown_keys();
        section
    }

    pub(super) fn head(&self) -> Option<Located<String>> {
        self.head.clone()
    }

    /// Where its head stands.
    pub(super) fn span(&self) -> Span {
        self.span
    }

    pub(super) fn notes(&self) -> &'a Notes {
        self.notes
    }

    /// What a person calls it: `[[plugins]]`, or its path where it has no head of its own.
    pub(super) fn title(&self) -> &str {
        match (self.shape.header, self.path.as_str()) {
            ("", "") => "program.toml",
            ("", path) => path,
            (header, _) => header,
        }
    }

    /// Its name as written, if that is a text; whether it is a good one is told elsewhere.
    pub(super) fn name(&self) -> Option<&'a str> {
        self.table.get("name")?.get_ref().as_str()
    }

    fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// Whether the key is there, whatever it holds.
    pub(super) fn has(&self, key: &str) -> bool {
        self.entry(key).is_some()
    }

    /// Where a key's value stands; the table's head when it does not exist.
    pub(super) fn span_of(&self, key: &str) -> Span {
        self.entry(key).map_or(self.span, |entry| entry.span())
    }

    /// The key's value as `read` understands it; `None` if it is absent or was noted as wrong.
    pub(super) fn get<T>(&self, key: &str, read: impl FnOnce(&Entry<'a>) -> Option<T>) -> Option<T> {
        self.entry(key).and_then(|entry| read(&entry))
    }

    /// The same, where a missing key is a problem too.
    pub(super) fn require<T>(&self, key: &str, read: impl FnOnce(&Entry<'a>) -> Option<T>) -> Option<T> {
        if !self.has(key) {
            self.note_missing(key);
        }
        self.get(key, read)
    }

    /// Notes a problem of the table as a whole, or of one key where it is there.
    pub(super) fn reject(&self, key: &str, label: impl Into<String>) {
        let message = format!("invalid `{}`", self.path_of(key));
        self.notes.add(Problem::new(message).at(self.span_of(key), label));
    }

    fn entry(&self, key: &str) -> Option<Entry<'a>> {
        debug_assert!(self.shape.key(key).is_some(), "`{key}` is not in the catalogue");
        let raw = self.table.get(key)?;
        Some(Entry::new(self.path_of(key), raw, self.notes))
    }

    fn note_missing(&self, key: &str) {
        let label = format!("`{}` needs a `{key}`", self.title());
        let problem = Problem::new(format!("missing key `{}`", self.path_of(key))).at(self.span, label);
        let doc = self.shape.key(key).map(|key| format!("`{}`: {}", key.name, key.doc));
        self.notes.add(doc.into_iter().fold(problem, Problem::hint));
    }

    fn note_unknown_keys(&self) {
        for (key, _) in self.table {
            let name: &str = key.get_ref();
            if !self.allowed().any(|allowed| allowed.name == name) {
                self.notes.add(self.unknown_key(name, key.span().into()));
            }
        }
    }

    /// A key that is not in the catalogue, with the one that was probably meant.
    fn unknown_key(&self, name: &str, span: Span) -> Problem {
        let label = match self.meant_key(name) {
            Some(key) => format!("did you mean `{key}`?"),
            None => "unknown key".to_owned(),
        };
        let allowed = self.allowed().map(|key| format!("`{}`", key.name)).collect::<Vec<_>>().join(", ");
        Problem::new(format!("unknown key `{name}` in `{}`", self.title()))
            .at(span, label)
            .hint(format!("allowed keys: {allowed}"))
    }

    /// By the words that people use for a key, then by likeness.
    fn meant_key(&self, name: &str) -> Option<&'static str> {
        let known_as = self.allowed().find(|key| key.also.contains(&name)).map(|key| key.name);
        known_as.or_else(|| nearest(name, self.allowed().map(|key| key.name)))
    }

    fn allowed(&self) -> impl Iterator<Item = &'static Key> {
        self.shape.keys().into_iter()
    }
}

impl<'a> Entry<'a> {
    pub(super) fn section(&self, shape: &'static Table) -> Option<Section<'a>> {
        self.section_called(None, shape)
    }

    /// A table of `shape`, whose name stands in its `head`.
    pub(super) fn section_called(
        &self,
        head: Option<&Located<String>>,
        shape: &'static Table,
    ) -> Option<Section<'a>> {
        let Some(table) = self.raw().as_table() else {
            return self.wrong_type(&match shape.header {
                "" => "a table".to_owned(),
                header => format!("the table `{header}`"),
            });
        };
        let (path, span, notes) = (self.place().to_owned(), self.span(), self.notes());
        let section = Section { path, table, shape, span, notes, head: head.cloned() };
        section.note_unknown_keys();
        Some(section)
    }

    pub(super) fn sections(&self, shape: &'static Table) -> Option<Vec<Section<'a>>> {
        let expected = match shape.header {
            "" => "an array".to_owned(),
            header if self.raw().is_table() => {
                let hint = format!("write `{header}`, and the name as its key `name`");
                return self.reject_with_hint(format!("expected `{header}` tables, found a table"), hint);
            }
            header => format!("`{header}` tables"),
        };
        Some(self.elements(&expected)?.iter().filter_map(|entry| entry.section(shape)).collect())
    }
}

/// Notes every name that is used a second time, with both places.
pub(super) fn note_duplicates<'a>(
    notes: &Notes,
    what: &str,
    names: impl IntoIterator<Item = (Span, &'a str)>,
) {
    let mut first: BTreeMap<&str, Span> = BTreeMap::new();
    for (span, name) in names {
        if let Some(before) = first.get(name) {
            let problem = Problem::new(format!("two {what} have the name `{name}`"))
                .at(span, "second definition")
                .related(*before, "first definition");
            notes.add(problem);
        } else {
            first.insert(name, span);
        }
    }
}
