//! A stack frame: a function and its source location.

use std::fmt;

use haft_core::net::one_line;

/// Maximum number of characters of a function's name or a file's path.
const MAX_NAME: usize = 160;

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    /// The path that the compiler or interpreter records, relative to the project's folder if that is known.
    pub(crate) file: String,
    /// Counted from 1; 0 if unknown.
    pub(crate) line: u32,
}

/// A stack frame.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Frame {
    pub(crate) function: String,
    pub(crate) place: Option<Place>,
}

impl Place {
    /// Returns the place that is written `FILE:LINE` or `FILE:LINE:COLUMN`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (before, last) = text.trim().rsplit_once(':')?;
        let last = last.parse().ok()?;
        match before.rsplit_once(':') {
            Some((file, line)) if line.parse::<u32>().is_ok() => Self::new(file, line.parse().ok()?),
            _ => Self::new(before, last),
        }
    }

    pub(crate) fn new(file: &str, line: u32) -> Option<Self> {
        (!file.is_empty()).then(|| Self { file: file.to_owned(), line })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = end_of(&one_line(&self.file), MAX_NAME);
        if self.line == 0 { f.write_str(&file) } else { write!(f, "{file}:{}", self.line) }
    }
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let function: String = one_line(&self.function).chars().take(MAX_NAME).collect();
        match &self.place {
            Some(place) if function.is_empty() => write!(f, "{place}"),
            Some(place) => write!(f, "{function} ({place})"),
            None => f.write_str(&function),
        }
    }
}

/// Returns the last `most` characters of a text, which are more informative than the first.
pub(crate) fn end_of(text: &str, most: usize) -> String {
    match text.chars().count().saturating_sub(most) {
        0 => text.to_owned(),
        beyond => ['…'].into_iter().chain(text.chars().skip(beyond)).collect(),
    }
}

// Whether a file is the author's own, or that of a language's library or a dependency. A mistake is usually in the
// author's own file.

/// Parts of the paths of Rust's library, of crates from a registry, of wasi-libc, of zig's library and of interpreters.
const LIBRARIES: &[&str] = &[
    "/rustc/",
    "/cargo/registry/",
    "/.cargo/registry/",
    "/cargo/git/",
    "/.cargo/git/",
    "/lib/libc/",
    "/wasi-libc/",
    "/lib/std/",
    "/site-packages/",
    "/python/lib/",
    "/node_modules/",
];

/// Prefixes of such relative paths.
const BEGINNINGS: &[&str] = &["library/std/", "library/core/", "library/alloc/", "node_modules/"];

/// Files that `haft plugin build` writes between the author's own and the component.
const GENERATED: &[&str] = &["src/bindings.rs", "build/bindings/", "build/js/", "haft_app.py", "wit_world/"];

/// Returns whether `path`, below a project's folder, was written by `haft plugin build`.
pub(crate) fn is_generated(path: &str) -> bool {
    GENERATED.iter().any(|part| path.starts_with(part) || path.contains(&format!("/{part}")))
}

/// Returns whether `path` is in none of an author's own folders.
pub(crate) fn is_library(path: &str) -> bool {
    path.is_empty()
        || path.starts_with('<')
        || LIBRARIES.iter().any(|part| path.contains(part))
        || BEGINNINGS.iter().any(|beginning| path.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_with_its_column_and_without() {
        for text in ["src/lib.rs:14:9", "src/lib.rs:14", " src/lib.rs:14\n"] {
            assert_eq!(Place::parse(text).unwrap().to_string(), "src/lib.rs:14", "{text}");
        }
        assert_eq!(Place::parse("c:/x.rs:3:1").unwrap().to_string(), "c:/x.rs:3");
        for text in ["", "src/lib.rs", ":3", "a:b"] {
            assert_eq!(Place::parse(text), None, "{text}");
        }
    }

    #[test]
    fn what_a_guest_names_is_one_line_of_bounded_length() {
        let place = Place::new(&format!("{}\nhint: x.rs", "a/".repeat(1000)), 3);
        let frame = Frame { function: "f\nhint: ".repeat(1000), place };
        let text = frame.to_string();
        assert!(!text.contains('\n') && text.len() < 400 && text.ends_with("x.rs:3)"), "{text}");
    }
}
