//! Searches files and folders, line by line, until the limit of matches. Follows no link out of the searched
//! folder.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use regex::{Captures, Regex};

use crate::bindings::exports::examples::matches::matches::{Found, Place};

/// Bytes of a file.
const MAX_FILE: u64 = 16 << 20;

/// Files of one search.
const MAX_FILES: usize = 20_000;

/// Characters of a match that are shown.
const MAX_SHOWN: usize = 500;

/// Files of which it is said why they were passed over.
const MAX_SKIPPED: usize = 20;

/// A search under way.
pub(crate) struct Search {
    pattern: Regex,
    limit: usize,
    hidden: bool,
    files: usize,
    found: Found,
}

impl Search {
    pub(crate) fn new(pattern: Regex, limit: usize, hidden: bool) -> Self {
        let found = Found { places: Vec::new(), more: false, skipped: Vec::new() };
        Self { pattern, limit, hidden, files: 0, found }
    }

    /// What was found until now.
    pub(crate) fn end(self) -> Found {
        self.found
    }

    /// Looks through a file, or through a folder with everything below it. A relative path begins in the
    /// workspace.
    pub(crate) fn begin(&mut self, path: &str) {
        self.look(&whole(Path::new(path)));
    }

    fn look(&mut self, path: &Path) {
        let looked = if path.is_dir() { self.folder(path) } else { self.file(path) };
        if let Err(error) = looked {
            self.skip(path, error.to_string());
        }
    }

    fn folder(&mut self, path: &Path) -> io::Result<()> {
        let entries: io::Result<Vec<_>> = fs::read_dir(path)?.collect();
        let mut entries = entries?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            if self.found.more || (!self.hidden && entry.file_name().to_string_lossy().starts_with('.')) {
                continue;
            }
            let kind = entry.file_type()?;
            if kind.is_dir() || kind.is_file() {
                self.look(&entry.path());
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path) -> io::Result<()> {
        self.files += 1;
        if self.found.more || self.files > MAX_FILES {
            self.found.more = true;
            return Ok(());
        }
        let mut bytes = Vec::new();
        fs::File::open(path)?.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_FILE {
            self.skip(path, format!("more than {} MiB", MAX_FILE >> 20));
        } else if bytes.contains(&0) {
            self.skip(path, "no text".to_owned());
        } else {
            self.text(path, &String::from_utf8_lossy(&bytes));
        }
        Ok(())
    }

    fn text(&mut self, path: &Path, text: &str) {
        let pattern = self.pattern.clone();
        for (number, line) in text.lines().enumerate() {
            for groups in pattern.captures_iter(line) {
                if self.found.places.len() >= self.limit {
                    self.found.more = true;
                    return;
                }
                self.found.places.push(place(path, number, line, &groups));
            }
        }
    }

    fn skip(&mut self, path: &Path, why: String) {
        if self.found.skipped.len() < MAX_SKIPPED {
            self.found.skipped.push((path.to_string_lossy().into_owned(), why));
        }
    }
}

#[cfg(target_os = "wasi")]
fn whole(path: &Path) -> PathBuf {
    let workspace = wasip2::cli::environment::initial_cwd().unwrap_or_default();
    Path::new(&workspace).join(path).components().collect()
}

#[cfg(not(target_os = "wasi"))]
fn whole(path: &Path) -> PathBuf {
    path.to_owned()
}

fn place(path: &Path, number: usize, line: &str, groups: &Captures<'_>) -> Place {
    let whole = groups.get_match();
    let before = line[..whole.start()].chars().count();
    Place {
        file: path.to_string_lossy().into_owned(),
        line: u32::try_from(number + 1).unwrap_or(u32::MAX),
        column: u32::try_from(before + 1).unwrap_or(u32::MAX),
        text: shown(whole.as_str()),
        groups: groups.iter().skip(1).map(|group| group.map(|group| shown(group.as_str()))).collect(),
    }
}

fn shown(text: &str) -> String {
    text.chars().take(MAX_SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(pattern: &str, limit: usize, hidden: bool) -> Search {
        Search::new(Regex::new(pattern).unwrap(), limit, hidden)
    }

    #[test]
    fn a_match_is_told_by_line_and_character() {
        let mut search = search(r"n(e)?\w", 10, false);
        search.text(Path::new("a"), "é ne1\r\n\nna");
        let found = search.end().places;
        let places: Vec<_> = found.iter().map(|place| (place.line, place.column, place.text.as_str())).collect();
        assert_eq!(places, [(1, 3, "ne1"), (3, 1, "na")]);
        assert_eq!(found[1].groups, [None]);
    }

    #[test]
    fn it_ends_when_enough_was_found() {
        let mut search = search("a", 2, false);
        search.text(Path::new("a"), "aaa");
        let found = search.end();
        assert_eq!((found.places.len(), found.more), (2, true));
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let mut search = search("fn ", 1000, true);
        search.begin("src");
        search.begin("nowhere");
        let found = search.end();
        assert!(found.places.iter().any(|place| place.file == "src/search.rs"));
        assert_eq!(found.skipped.len(), 1);
        assert_eq!(found.skipped[0].0, "nowhere");
    }
}
