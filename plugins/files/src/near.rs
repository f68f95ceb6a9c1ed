//! Existing names that look like a missing one: they differ in the kind of a space (U+202F, U+00A0), the
//! normalization of an accent (NFC, NFD), the form of a quotation mark, or case. The tools propose them and never
//! use them: rules compare the path of the call.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use unicode_normalization::UnicodeNormalization;

/// Entries of a directory that are looked at.
const MAX_ENTRIES: usize = 10_000;

/// Names that are told.
const MAX_NAMES: usize = 3;

/// Why there is nothing at `path`, with what looks like it.
pub(crate) fn missing(path: &Path) -> String {
    let near: Vec<String> = alike(path).iter().map(|path| shown(path)).collect();
    match near.as_slice() {
        [] => "there is no such file".to_owned(),
        near => format!("there is no such file, but what looks alike: {}", near.join(", ")),
    }
}

/// A path, and how it is written in JSON where that is not seen.
fn shown(path: &Path) -> String {
    let text = path.display().to_string();
    let written = escaped(&text);
    if written == text { format!("`{text}`") } else { format!("`{text}` (in JSON: \"{written}\")") }
}

/// `text` as it may be written in JSON: of ASCII alone.
fn escaped(text: &str) -> String {
    let escape = |c: char| {
        let mut units = [0; 2];
        c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")).collect::<String>()
    };
    text.chars().map(|c| if c.is_ascii() { c.to_string() } else { escape(c) }).collect()
}

/// The paths that are like `path` but for how names are written.
fn alike(path: &Path) -> Vec<PathBuf> {
    let is_there = |path: &&Path| path.as_os_str().is_empty() || path.symlink_metadata().is_ok();
    let Some(place) = path.ancestors().skip(1).find(is_there) else { return Vec::new() };
    let Ok(rest) = path.strip_prefix(place) else { return Vec::new() };
    let mut parts = rest.components();
    let Some(sought) = parts.next().map(|name| folded(name.as_os_str())) else { return Vec::new() };
    let here = if place.as_os_str().is_empty() { Path::new(".") } else { place };
    let Ok(entries) = fs::read_dir(here) else { return Vec::new() };
    let names = entries.take(MAX_ENTRIES).filter_map(|entry| Some(entry.ok()?.file_name()));
    // Joined part by part: nothing joined is a slash at the end.
    let near = names.filter(|name| folded(name) == sought).map(|name| {
        let mut near = place.join(name);
        near.extend(parts.as_path());
        near
    });
    // A link that leads nowhere is there under its own name.
    let is_near = |near: &PathBuf| near != path && near.symlink_metadata().is_ok();
    let mut near: Vec<PathBuf> = near.filter(is_near).take(MAX_NAMES).collect();
    near.sort();
    near
}

/// What a name looks like.
fn folded(name: &OsStr) -> String {
    let name = name.to_string_lossy();
    let seen = name.nfkd().filter(|c| !is_unseen(*c)).map(|c| match c {
        '\u{2018}' | '\u{2019}' | '\u{201a}' | '\u{201b}' | '\u{2032}' | '\u{b4}' | '`' => '\'',
        '\u{201c}'..='\u{201f}' | '\u{2033}' | '\u{ab}' | '\u{bb}' => '"',
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        c if c.is_whitespace() => ' ',
        c => c,
    });
    seen.collect::<String>().to_lowercase()
}

/// Whether nothing is drawn for a character.
fn is_unseen(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2064}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_look_alike_are_told() {
        for (there, asked) in [
            ("Shot 1.01.11\u{202f}AM.txt", "Shot 1.01.11 AM.txt"),
            ("obraz v\u{a0}13.05.txt", "obraz v 13.05.txt"),
            ("Scha\u{308}tzung.txt", "Sch\u{e4}tzung.txt"),
            ("Sch\u{e4}tzung.txt", "Scha\u{308}tzung.txt"),
            ("it\u{2019}s.txt", "it's.txt"),
            ("\u{201c}a\u{201d}.txt", "\"a\".txt"),
            ("a\u{2013}b.txt", "a-b.txt"),
            ("a\u{200b}b.txt", "ab.txt"),
            ("README.md", "readme.md"),
            ("it\u{2019}s/a.txt", "it's/a.txt"),
        ] {
            let place = tempfile::tempdir().unwrap();
            let path = place.path().join(there);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
            let told = missing(&place.path().join(asked));
            assert!(told.contains(&format!("but what looks alike: `{}`", path.display())), "{told}");
            assert_eq!(told.contains("in JSON"), !there.is_ascii(), "{told}");
            for other in ["nothing-like-it.txt", "other/a.txt", "it's/b.txt"] {
                assert_eq!(missing(&place.path().join(other)), "there is no such file", "{there} {other}");
            }
        }
        let place = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("nowhere", place.path().join("link")).unwrap();
        assert_eq!(missing(&place.path().join("link")), "there is no such file");
        assert_eq!(escaped("a \u{202f}\u{1f980}\""), "a \\u202f\\ud83e\\udd80\"");
    }
}
