//! The subject of a call as one text, which questions to the user show and rules are compared with, and its arguments as
//! people see them. Makes no decision, and does not neutralise text.

use serde_json::{Map, Value};

use super::Difference;
use crate::report::shortened;

/// The subject of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A command line, as a shell reads it.
    Command(String),
    /// A requested URL.
    Address(String),
    /// A path of a file, as the caller wrote it.
    Path(String),
    /// The arguments, if the tool declares no subject: JSON with ordered keys.
    Arguments(String),
}

/// The argument that is the subject of a tool's calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SubjectArgument {
    /// All arguments.
    #[default]
    All,
    /// The argument of this name, a URL.
    Address(&'static str),
    /// The argument of this name, a path.
    Path(&'static str),
}

impl SubjectArgument {
    /// Returns the subject of a call with `arguments`.
    pub fn subject(self, arguments: &Value) -> Subject {
        let named = |name: &str| arguments.get(name).and_then(Value::as_str).map(str::to_owned);
        let found = match self {
            Self::All => None,
            Self::Address(name) => named(name).map(Subject::Address),
            Self::Path(name) => named(name).map(Subject::Path),
        };
        found.unwrap_or_else(|| Subject::arguments(arguments))
    }

    /// Returns the path that a call with `arguments` is about.
    pub fn path(self, arguments: &Value) -> Option<&str> {
        match self {
            Self::Path(name) => arguments.get(name).and_then(Value::as_str),
            Self::All | Self::Address(_) => None,
        }
    }
}

impl Subject {
    /// Returns all of the arguments as the subject.
    pub fn arguments(arguments: &Value) -> Self {
        let mut sorted = arguments.clone();
        sorted.sort_all_objects();
        Self::Arguments(sorted.to_string())
    }

    /// Returns a command line that is the argument `name`.
    pub fn command(arguments: &Value, name: &str) -> Self {
        let command = arguments.get(name).and_then(Value::as_str);
        command.map_or_else(|| Self::arguments(arguments), |command| Self::Command(command.to_owned()))
    }

    /// Returns the verb of a call, as one word before the subject.
    pub(super) fn verb(&self) -> &'static str {
        match self {
            Self::Command(_) => "Run",
            Self::Address(_) => "Fetch",
            Self::Path(_) | Self::Arguments(_) => "Call",
        }
    }

    /// Returns the answer to a call that the user denied.
    pub(super) fn denied(&self) -> &'static str {
        match self {
            Self::Command(_) => "Command execution denied by user.",
            Self::Address(_) => "Fetch request denied by user.",
            Self::Path(_) | Self::Arguments(_) => "Tool call denied by user.",
        }
    }

    /// Returns the complete effect of a call of `tool` with `arguments`, for people, except for the part in
    /// `difference`.
    pub(super) fn shown(&self, tool: &str, arguments: &Value, difference: Option<&Difference>) -> String {
        match self {
            Self::Command(text) | Self::Address(text) => text.clone(),
            // A path alone would not show the content to write.
            Self::Path(_) | Self::Arguments(_) => {
                format!("{tool} {}", in_full(arguments, difference)).trim_end().to_owned()
            }
        }
    }

    /// Returns the text itself.
    pub fn text(&self) -> &str {
        match self {
            Self::Command(text) | Self::Address(text) | Self::Path(text) | Self::Arguments(text) => text,
        }
    }
}

// The arguments of a call for people: on one line, or one argument a line.

/// Arguments that are the subject of a call, in order of preference: shown first, without their names.
const SUBJECTS: &[&str] = &["command", "file_path", "path", "url", "query"];

/// Maximum number of characters of a value in a line.
const MAX_VALUE: usize = 60;

/// Maximum number of characters of all arguments on one line.
const MAX_WHOLE: usize = 160;

/// Returns a call's arguments on a line of at most `characters` characters: the subject first, long values
/// shortened.
pub fn in_a_line(arguments: &Value, characters: usize) -> String {
    let Value::Object(fields) = arguments else { return shortened(&arguments.to_string(), characters) };
    let difference = Difference::of(arguments, None);
    let subject = subject_of(fields);
    let counts = difference.iter().map(|found| format!("+{} -{}", found.added, found.removed));
    let rest = rest(fields, subject, difference.as_ref());
    let words = subject.iter().map(|(_, text)| first_line(text));
    let words = words.chain(counts).chain(rest.map(|(name, value)| format!("{name}={}", brief(value))));
    shortened(&words.collect::<Vec<_>>().join(" "), characters)
}

/// Returns all arguments except those in `difference`: on one line if short, otherwise one a line.
pub fn in_full(arguments: &Value, difference: Option<&Difference>) -> String {
    let Value::Object(fields) = arguments else { return arguments.to_string() };
    let subject = subject_of(fields).filter(|(_, text)| !text.contains('\n'));
    let about = subject.map(|(_, text)| text.to_owned());
    let has_lines = |value: &Value| value.as_str().is_some_and(|text| text.contains('\n'));
    let others: Vec<_> = rest(fields, subject, difference).collect();
    let line = others.iter().map(|(name, value)| format!("{name}={}", word(value)));
    let line = about.iter().cloned().chain(line).collect::<Vec<_>>().join(" ");
    if line.chars().count() <= MAX_WHOLE && !others.iter().any(|(_, value)| has_lines(value)) {
        return line;
    }
    let blocks = others.iter().map(|(name, value)| match value.as_str() {
        Some(text) if text.contains('\n') => {
            format!("  {name}:\n    {}", text.trim_end().replace('\n', "\n    "))
        }
        _ => format!("  {name}: {}", word(value)),
    });
    std::iter::once(about.unwrap_or_default()).chain(blocks).collect::<Vec<_>>().join("\n")
}

/// Returns the argument that is the subject of a call.
fn subject_of(fields: &Map<String, Value>) -> Option<(&'static str, &str)> {
    SUBJECTS.iter().find_map(|name| Some((*name, fields.get(*name)?.as_str()?)))
}

/// Returns the arguments that are neither the subject nor in the difference.
fn rest<'a>(
    fields: &'a Map<String, Value>,
    subject: Option<(&'static str, &str)>,
    difference: Option<&'a Difference>,
) -> impl Iterator<Item = (&'a String, &'a Value)> {
    let subject = subject.map(|(name, _)| name);
    let is_told = move |name: &str| subject == Some(name) || difference.is_some_and(|told| told.tells(name));
    fields.iter().filter(move |(name, _)| !is_told(name))
}

fn first_line(text: &str) -> String {
    let mut lines = text.trim_end().lines();
    let first = lines.next().unwrap_or_default();
    match lines.count() {
        0 => first.to_owned(),
        more => format!("{first} … (+{})", lines_of(more)),
    }
}

/// Returns a value in a few characters.
fn brief(value: &Value) -> String {
    if let Some(bytes) = digested(value) {
        return format!("({bytes} bytes)");
    }
    match value.as_str().map(|text| text.lines().count()) {
        Some(lines @ 2..) => format!("({})", lines_of(lines)),
        _ => shortened(&word(value), MAX_VALUE),
    }
}

/// Returns the number of bytes of a value that the journal keeps the SHA-256 of.
fn digested(value: &Value) -> Option<u64> {
    let fields = value.as_object().filter(|fields| fields.len() == 2 && fields.contains_key("sha256"))?;
    fields.get("bytes")?.as_u64()
}

fn lines_of(count: usize) -> String {
    if count == 1 { "1 line".to_owned() } else { format!("{count} lines") }
}

/// Returns a value as a unique word: JSON, or a plain text without its quotes.
fn word(value: &Value) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "_-./:@%+,~*".contains(c);
    match value.as_str() {
        Some(text)
            if !text.is_empty()
                && text.chars().all(is_plain)
                && serde_json::from_str::<Value>(text).is_err() =>
        {
            text.to_owned()
        }
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_order_of_keys_says_nothing() {
        let one: Value = serde_json::from_str(r#"{"b": [{"y": 1, "x": "/"}], "a": "\u002f"}"#).unwrap();
        assert_eq!(Subject::arguments(&one).text(), r#"{"a":"/","b":[{"x":"/","y":1}]}"#);
    }

    #[test]
    fn what_is_not_there_leaves_all_arguments() {
        let of_path = SubjectArgument::Path("file_path");
        assert_eq!(of_path.subject(&json!({"file_path": "a", "x": 1})), Subject::Path("a".into()));
        assert_eq!(of_path.subject(&json!({"file_path": 1})).text(), r#"{"file_path":1}"#);
    }

    /// U3: a call is shown as one readable line of bounded length.
    #[test]
    fn a_call_is_a_line_that_people_read() {
        let line = |arguments: Value| in_a_line(&arguments, 100);
        assert_eq!(line(json!({"command": "git status", "timeout": 5})), "git status timeout=5");
        assert_eq!(line(json!({"command": "cd x\nrm y\nls"})), "cd x … (+2 lines)");
        let edit = json!({"file_path": "a.md", "old_string": "one\n", "new_string": "two\nthree\n"});
        assert_eq!(line(edit), "a.md +2 -1");
        assert_eq!(line(json!({"file_path": "a.md", "content": "one\ntwo\n"})), "a.md content=(2 lines)");
        assert_eq!(line(json!({"content": {"sha256": "00", "bytes": 70_000}})), "content=(70000 bytes)");
        let others = json!({"a": "x y", "b": "true", "c": true, "d": [1], "e": "plan.md", "f": ""});
        assert_eq!(line(others), r#"a="x y" b="true" c=true d=[1] e=plan.md f="""#);
        assert_eq!(line(json!({})), "");
        assert_eq!(line(json!({"x": "y".repeat(1000)})).chars().count(), 2 + MAX_VALUE + 1);
        assert_eq!(in_a_line(&json!({"command": "x".repeat(1000)}), 10).chars().count(), 11);
    }

    /// U3: in full, no value is cut, and no value resembles another argument.
    #[test]
    fn in_full_no_value_is_cut_and_none_is_taken_for_another() {
        assert_eq!(in_full(&json!({"url": "x", "depth": 3}), None), "x depth=3");
        let write = json!({"file_path": "a", "content": "one\n  mode: 7\n", "mode": 6});
        assert_eq!(in_full(&write, None), "a\n  content:\n    one\n      mode: 7\n  mode: 6");
        let long = "y".repeat(1000);
        assert_eq!(in_full(&json!({"x": long}), None), format!("\n  x: {long}"));
        let found = Difference::of(&write, Some("one\n"));
        assert_eq!(in_full(&write, found.as_ref()), "a mode=6");
        assert_eq!(in_full(&json!(["a"]), None), "[\"a\"]");
    }
}
