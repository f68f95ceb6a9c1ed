//! The macro `table!`, which declares a table of program.toml: it generates the struct, the catalogue entry and the
//! reader from one list of keys.
//!
//! ```text
//! table! {
//!     /// What one call may use.
//!     #[derive(Clone, Debug)]
//!     pub struct Bounds = "[plugins.bounds]" {
//!         /// questions in one run; default 50
//!         #[read(count 1..=1000)]
//!         #[also("turns", "max_steps")]
//!         pub max_turns: u32 = 50,
//!     }
//! }
//! ```
//!
//! The doc comment of a key is its text in `haft self schema`, editors and hints. A key with a value after `=` is
//! optional and has this default; a key without one is required. `also` lists other names that users try, for
//! suggestions. `read` selects the reader of a value if the type of the field does not ([`FromValue`]):
//!
//! - `count`, `size`, `time` and a range: a number, a size or a duration within it
//! - `tables "plugins"`: an array of tables with distinct names, called `plugins` in messages
//! - `KIND, reader`: any function from an [`Entry`]
//! - `flatten`: several keys of this table, declared with the type of the field
//! - `section KIND, reader`: any function from the whole [`Section`], for a value that depends on other keys
//! - `rows ROWS, reader`: such a function for a field that is not a key, but may have the keys of `ROWS`
//!
//! A reader returns `None` after it has recorded an error; a reader of the whole section does so only if the key
//! has no default.
//!
//! The types of this module need no `use` inside. After the header, `=> function` names the function that completes
//! or checks the value. If every key has a default, the struct implements `Default`.

use std::time::Duration;

pub(super) use super::catalogue::{Key, Kind, Row, Table};
pub(super) use super::entry::{Entry, Located};
pub(super) use super::section::{Section, note_duplicates};

/// What can be read from one value of TOML.
pub(super) trait FromValue: Sized {
    /// What the value may be.
    const KIND: Kind;

    /// The value; `None` once it is noted what is wrong with it.
    fn from_value(entry: &Entry<'_>) -> Option<Self>;

    /// A list of such values.
    fn list(entry: &Entry<'_>) -> Option<Vec<Self>> {
        entry.list(Self::from_value)
    }
}

/// What can be read from the keys of a table.
pub(super) trait FromTable: Sized {
    const TABLE: Table;

    /// The value; `None` once it is noted what is wrong with the keys.
    fn from_table(section: &Section<'_>) -> Option<Self>;
}

impl<T: FromValue> FromValue for Option<T> {
    const KIND: Kind = T::KIND;

    fn from_value(entry: &Entry<'_>) -> Option<Self> {
        T::from_value(entry).map(Some)
    }
}

impl<T: FromValue> FromValue for Vec<T> {
    const KIND: Kind = Kind::List(&T::KIND);

    fn from_value(entry: &Entry<'_>) -> Option<Self> {
        T::list(entry)
    }
}

impl<T: FromValue> FromValue for Located<T> {
    const KIND: Kind = T::KIND;

    fn from_value(entry: &Entry<'_>) -> Option<Self> {
        entry.located(T::from_value)
    }
}

impl FromValue for bool {
    const KIND: Kind = Kind::Flag;

    fn from_value(entry: &Entry<'_>) -> Option<Self> {
        entry.flag()
    }
}

impl FromValue for String {
    const KIND: Kind = Kind::Text;

    fn from_value(entry: &Entry<'_>) -> Option<Self> {
        entry.text()
    }
}

impl FromValue for f64 {
    const KIND: Kind = Kind::Price;

    fn from_value(entry: &Entry<'_>) -> Option<Self> {
        entry.price()
    }
}

impl Entry<'_> {
    /// A table of `shape`, which may be the table of `T` under another header.
    pub(super) fn table<T: FromTable>(&self, shape: &'static Table) -> Option<T> {
        T::from_table(&self.section(shape)?)
    }

    /// The tables of an array, no two of one name; messages call them `what`.
    pub(super) fn tables<T: FromTable>(&self, what: &str) -> Option<Vec<T>> {
        let sections = self.sections(&T::TABLE)?;
        let names = sections.iter().filter_map(|section| Some((section.span_of("name"), section.name()?)));
        note_duplicates(self.notes(), what, names);
        Some(sections.iter().filter_map(T::from_table).collect())
    }
}

pub(super) const SHORTEST: Duration = Duration::from_millis(1);

macro_rules! table {
    (
        $(#[doc = $about:literal])*
        $(#[derive($($derive:ident),+)])?
        $(#[expect($($expect:tt)+)])?
        $vis:vis struct $name:ident = $header:literal $(=> $finish:path)? {
            $(
                $(#[doc = $doc:literal])*
                $(#[read($($how:tt)+)])?
                $(#[key($key:literal)])?
                $(#[also($($also:literal),+)])?
                $seen:vis $field:ident: $type:ty $(= $default:expr)?,
            )*
        }
    ) => {
        $(#[doc = $about])*
        $(#[derive($($derive),+)])?
        $(#[expect($($expect)+)])?
        $vis struct $name {
            $($(#[doc = $doc])* $seen $field: $type,)*
        }

        const _: () = {
            use $crate::table::{Entry, FromTable, FromValue, Key, Kind, Row, Section, Table};
            use $crate::table::{defaults, field, kind, name, reader, required, row};

            impl FromTable for $name {
                const TABLE: Table = Table {
                    header: $header,
                    doc: concat!($($about),*).trim_ascii_start(),
                    rows: &[$(row! {
                        [$field $($key)?] [$($doc),*] [$($($also),+)?] [$($default)?] $type; $($($how)+)?
                    }),*],
                };

                fn from_table(section: &Section<'_>) -> Option<Self> {
                    $(let $field: Option<$type> = field! {
                        section [$field $($key)?] [$($default)?] $type; $($($how)+)?
                    };)*
                    let read = Self { $($field: $field?),* };
                    $(let read = $finish(read, section);)?
                    Some(read)
                }
            }

            impl FromValue for $name {
                const KIND: Kind = Kind::Table(&Self::TABLE);

                fn from_value(entry: &Entry<'_>) -> Option<Self> {
                    entry.table(&Self::TABLE)
                }
            }

            defaults! { $name $([$field $($default)?])* }
        };
    };
}

/// The row of a key in the catalogue.
macro_rules! row {
    ([$($name:tt)+] [$($doc:literal),*] [$($also:literal),*] [$($default:expr)?] $type:ty; flatten) => {
        Row::Group(<$type as FromTable>::TABLE.rows)
    };
    ([$($name:tt)+] [$($doc:literal),*] [$($also:literal),*] [$($default:expr)?] $type:ty; rows $rows:expr, $read:expr) => {
        Row::Group($rows)
    };
    ([$($name:tt)+] [$($doc:literal),*] [$($also:literal),*] [$($default:expr)?] $type:ty; $($how:tt)*) => {
        Row::Key(Key {
            name: name!($($name)+),
            kind: kind!($type; $($how)*),
            required: required!($($default)?),
            doc: concat!($($doc),*).trim_ascii_start(),
            also: &[$($also),*],
        })
    };
}

/// The value of a field: `None` once it is noted what is wrong.
macro_rules! field {
    ($section:ident [$($name:tt)+] [$($default:expr)?] $type:ty; flatten) => {
        <$type as FromTable>::from_table($section)
    };
    ($section:ident [$($name:tt)+] [] $type:ty; section $kind:expr, $read:expr) => { $read($section) };
    ($section:ident [$($name:tt)+] [] $type:ty; rows $rows:expr, $read:expr) => { $read($section) };
    ($section:ident [$($name:tt)+] [$default:expr] $type:ty; section $kind:expr, $read:expr) => {
        Some($read($section))
    };
    ($section:ident [$($name:tt)+] [$default:expr] $type:ty; rows $rows:expr, $read:expr) => {
        Some($read($section))
    };
    ($section:ident [$($name:tt)+] [] $type:ty; $($how:tt)*) => {
        $section.require(name!($($name)+), reader!($type; $($how)*))
    };
    ($section:ident [$($name:tt)+] [$default:expr] $type:ty; $($how:tt)*) => {
        Some($section.get(name!($($name)+), reader!($type; $($how)*)).map_or_else(|| $default, Into::into))
    };
}

macro_rules! kind {
    ($type:ty;) => {
        <$type as FromValue>::KIND
    };
    ($type:ty; count $range:expr) => {{
        let range: std::ops::RangeInclusive<u32> = $range;
        Kind::Count { min: *range.start() as u64, max: *range.end() as u64 }
    }};
    ($type:ty; size $range:expr) => {
        Kind::Size
    };
    ($type:ty; time $range:expr) => {
        Kind::Time
    };
    ($type:ty; tables $what:literal) => {
        <$type as FromValue>::KIND
    };
    ($type:ty; section $kind:expr, $read:expr) => {
        $kind
    };
    ($type:ty; $kind:expr, $read:expr) => {
        $kind
    };
}

macro_rules! reader {
    ($type:ty;) => {
        <$type as FromValue>::from_value
    };
    ($type:ty; count $range:expr) => {
        |entry| entry.count($range)
    };
    ($type:ty; size $range:expr) => {
        |entry| entry.size($range)
    };
    ($type:ty; time $range:expr) => {
        |entry| entry.duration($range)
    };
    ($type:ty; tables $what:literal) => {
        |entry| entry.tables($what)
    };
    ($type:ty; $kind:expr, $read:expr) => {
        $read
    };
}

/// A key's name is that of the field, unless that is a word of Rust.
macro_rules! name {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $key:literal) => {
        $key
    };
}

macro_rules! required {
    () => {
        true
    };
    ($default:expr) => {
        false
    };
}

/// What holds where the table is absent, if it may be.
macro_rules! defaults {
    ($name:ident $([$field:ident $default:expr])*) => {
        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default),* }
            }
        }
    };
    ($($required:tt)*) => {};
}

/// Enums of words, as the values of a key.
macro_rules! choices {
    ($($name:ident),+) => {$(
        impl $crate::table::FromValue for $name {
            const KIND: $crate::table::Kind =
                $crate::table::Kind::OneOf(|| $name::ALL.iter().map(|row| row.0).collect());

            fn from_value(entry: &$crate::table::Entry<'_>) -> Option<Self> {
                entry.one_of($name::ALL)
            }
        }
    )+};
}

/// Texts that a type of their own checks. Editors know a regular expression for each.
macro_rules! texts {
    ($($name:ty: $kind:expr),+ $(,)?) => {$(
        impl $crate::table::FromValue for $name {
            const KIND: $crate::table::Kind = $kind;

            fn from_value(entry: &$crate::table::Entry<'_>) -> Option<Self> {
                entry.parse()
            }
        }
    )+};
}

pub(super) use {choices, defaults, field, kind, name, reader, required, row, table, texts};

#[cfg(test)]
mod tests;
