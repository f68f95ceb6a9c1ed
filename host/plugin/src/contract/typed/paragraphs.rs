//! Extracts the documentation of parameters from a function's documentation. WIT has none for parameters, so that
//! authors write it there, one line for each, in one of the forms of their language:
//!
//! ```text
//! - name: words        - `name`: words        * name - words
//! @param name words    :param name: words     name -- words
//! ```
//!
//! Removes only lines about an existing parameter; all other lines stay unmodified.

use std::borrow::Cow;
use std::collections::BTreeMap;

use haft_core::call::Hints;

/// A function's text, taken apart.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Paragraphs {
    pub(super) text: String,
    pub(super) params: BTreeMap<String, String>,
}

const HEADINGS: [&str; 6] = ["arguments", "parameters", "params", "args", "inputs", "input"];

impl Paragraphs {
    pub(super) fn parse(text: &str, params: &[&str]) -> Self {
        let mut found = Self::default();
        let mut remaining: Vec<&str> = Vec::new();
        // The parameter that an indented line continues.
        let mut current: Option<(String, usize)> = None;
        for line in text.lines() {
            let indent = line.len() - line.trim_start().len();
            if let Some((name, docs)) = parse_parameter_line(line, params, &found.params) {
                found.params.insert(name.clone(), docs);
                current = Some((name, indent));
                continue;
            }
            match &current {
                Some((name, depth)) if indent > *depth && !line.trim().is_empty() => {
                    let docs = found.params.entry(name.clone()).or_default();
                    docs.push(' ');
                    docs.push_str(line.trim());
                }
                _ => {
                    current = None;
                    remaining.push(line);
                }
            }
        }
        found.text =
            if found.params.is_empty() { text.trim().to_owned() } else { without_headings(&remaining) };
        found
    }
}

/// Returns the parameter that a line documents, and its text. Of several lines about one parameter the first counts.
fn parse_parameter_line(
    line: &str,
    params: &[&str],
    known: &BTreeMap<String, String>,
) -> Option<(String, String)> {
    let line = line.trim();
    let bullet = line.strip_prefix(['-', '*', '+']).filter(|rest| rest.starts_with(' '));
    let tag = || ["@param ", ":param ", "\\param "].iter().find_map(|tag| line.strip_prefix(tag));
    let (rest, tagged) = match (bullet, tag()) {
        (Some(rest), _) => (rest.trim_start(), false),
        (None, Some(rest)) => (rest.trim_start(), true),
        (None, None) => (line, false),
    };
    let (name, rest) = word(rest)?;
    let name = *params.iter().find(|param| is_name(name, param))?;
    let docs = separated(rest, tagged, bullet.is_some())?;
    (!docs.is_empty() && !known.contains_key(name)).then(|| (name.to_owned(), docs.to_owned()))
}

fn word(text: &str) -> Option<(&str, &str)> {
    for mark in ["**`", "`", "**", "*", "_"] {
        if let Some(rest) = text.strip_prefix(mark) {
            let closing: String = mark.chars().rev().collect();
            return rest.split_once(closing.as_str());
        }
    }
    let end = text.find(|c: char| !c.is_alphanumeric() && !matches!(c, '-' | '_'));
    let (name, rest) = text.split_at_checked(end.unwrap_or(text.len()))?;
    (!name.is_empty()).then_some((name, rest))
}

/// Returns whether a word names a parameter: as WIT writes it, or as a language does.
fn is_name(word: &str, param: &str) -> bool {
    let plain = |text: &str| -> String {
        text.chars().filter(|c| !matches!(c, '-' | '_')).flat_map(char::to_lowercase).collect()
    };
    plain(word) == plain(param)
}

/// Returns the separator after a name and the text. A tag needs only a space; a line without a mark at its
/// beginning needs a separator that no sentence has.
fn separated(rest: &str, tagged: bool, bullet: bool) -> Option<&str> {
    let rest = rest.trim_start();
    // A type in parentheses, as some languages' comments have it.
    let rest = match rest.strip_prefix('(').and_then(|inner| inner.split_once(')')) {
        Some((_, after)) if after.trim_start().starts_with([':', '-', '–', '—']) => after.trim_start(),
        _ => rest,
    };
    let separators: &[&str] =
        if tagged || bullet { &[":", "--", "—", "–", "-", "="] } else { &[": ", "--", "—"] };
    let found = separators.iter().find_map(|separator| rest.strip_prefix(separator));
    match found {
        Some(docs) => Some(docs.trim()),
        None if tagged => Some(rest.trim()),
        None => None,
    }
}

/// Returns the remaining lines without headings of removed lists, and without two consecutive empty lines.
fn without_headings(lines: &[&str]) -> String {
    let is_heading = |line: &str| {
        let word = line.trim().trim_matches(['#', '*', ':', '_', ' ']).to_lowercase();
        HEADINGS.contains(&word.as_str())
    };
    let mut remaining: Vec<&str> = Vec::new();
    for line in lines.iter().filter(|line| !is_heading(line)) {
        if !line.trim().is_empty() || remaining.last().is_some_and(|last| !last.trim().is_empty()) {
            remaining.push(line.trim_end());
        }
    }
    remaining.join("\n").trim().to_owned()
}

// Extracts annotations from a function's documentation. WIT has no place for them, so that authors write separate
// lines:
//
// ```text
// @read-only          changes nothing outside itself, and is held to it
// @destructive        may destroy or overwrite what was there
// @idempotent         a second call with the same arguments changes nothing more
// @open-world         reaches beyond this machine
// @title Words        what it is called where people choose it
// ```
//
// One line may have several of the first four annotations. A line with other text is not an annotation, and stays.

/// The annotations of a function's behaviour.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Annotations {
    pub(super) title: Option<String>,
    pub(super) hints: Hints,
}

impl Annotations {
    /// Returns the annotations in a text, and the text without them.
    pub(super) fn take(text: &str) -> (Self, Cow<'_, str>) {
        let mut found = Self::default();
        if !text.contains('@') {
            return (found, text.into());
        }
        let remaining: Vec<&str> = text.lines().filter(|line| !found.take_line(line.trim())).collect();
        // A read-only tool is restricted to reading, and destroys nothing.
        found.hints.destructive &= !found.hints.read_only;
        (found, remaining.join("\n").into())
    }

    /// Returns whether a line is an annotation; of several titles the first counts.
    fn take_line(&mut self, line: &str) -> bool {
        if let Some(title) = line.strip_prefix("@title ").map(str::trim).filter(|title| !title.is_empty()) {
            self.title.get_or_insert_with(|| title.to_owned());
            return true;
        }
        let mut hints = self.hints;
        let is_annotation =
            line.starts_with('@') && line.split_whitespace().all(|word| set(&mut hints, word));
        if is_annotation {
            self.hints = hints;
        }
        is_annotation
    }
}

fn set(hints: &mut Hints, word: &str) -> bool {
    let hint = match word {
        "@read-only" => &mut hints.read_only,
        "@destructive" => &mut hints.destructive,
        "@idempotent" => &mut hints.idempotent,
        "@open-world" => &mut hints.open_world,
        _ => return false,
    };
    *hint = true;
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str, params: &[&str]) -> (String, Vec<(String, String)>) {
        let found = Paragraphs::parse(text, params);
        (found.text, found.params.into_iter().collect())
    }

    fn pair(name: &str, docs: &str) -> (String, String) {
        (name.to_owned(), docs.to_owned())
    }

    #[test]
    fn every_usual_form_is_understood() {
        for line in [
            "- max-count: how many",
            "* `max-count`: how many",
            "* **max_count** - how many",
            "- max_count (u32): how many",
            "@param maxCount how many",
            "@param max-count - how many",
            ":param max_count: how many",
            "max-count: how many",
            "`max-count` -- how many",
            "- `max-count` — how many",
        ] {
            let (text, params) = parts(&format!("Counts.\n\n{line}\n"), &["text", "max-count"]);
            assert_eq!((text.as_str(), params), ("Counts.", vec![pair("max-count", "how many")]), "{line}");
        }
    }

    #[test]
    fn a_list_goes_with_its_heading_and_the_rest_stays() {
        let text = "Counts words.\n\n# Arguments\n\n- text: what to count\n  in, as UTF-8\n- other: nothing of ours\n- limit: stop there\n\nReturns the count.";
        let (text, params) = parts(text, &["text", "limit"]);
        assert_eq!(text, "Counts words.\n\n- other: nothing of ours\n\nReturns the count.");
        assert_eq!(params, [pair("limit", "stop there"), pair("text", "what to count in, as UTF-8")]);
    }

    #[test]
    fn a_sentence_is_not_taken_for_a_parameter() {
        let text = "Text is split at spaces.\ntext - the first\nNothing else.";
        assert_eq!(parts(text, &["text"]), (text.to_owned(), Vec::new()));
        assert_eq!(parts("", &[]), (String::new(), Vec::new()));
        assert_eq!(parts("- text:", &["text"]).1, []);
    }

    fn taken(text: &str) -> (Option<String>, Hints, String) {
        let (found, text) = Annotations::take(text);
        (found.title, found.hints, text.into_owned())
    }

    #[test]
    fn annotations_are_taken_out_of_the_text() {
        let text =
            "Reads a page.\n\n@title Read a page\n  @read-only @open-world\n@idempotent\n@param url where";
        let hints = Hints { read_only: true, idempotent: true, open_world: true, destructive: false };
        assert_eq!(
            taken(text),
            (Some("Read a page".into()), hints, "Reads a page.\n\n@param url where".into())
        );
    }

    #[test]
    fn a_line_with_anything_else_is_text() {
        for text in ["@read-only unless forced", "@title", "Say @read-only.", "@readonly", "@since 1.2", "@"]
        {
            assert_eq!(taken(text), (None, Hints::default(), text.to_owned()), "{text}");
        }
    }

    #[test]
    fn a_tool_that_only_reads_destroys_nothing() {
        assert_eq!(taken("@destructive\n@read-only").1, Hints { read_only: true, ..Hints::default() });
        assert_eq!(taken("@destructive").1, Hints { destructive: true, ..Hints::default() });
    }
}
