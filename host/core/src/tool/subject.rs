//! The subject of a call as one text, which questions to the user show and rules are compared with. Makes no
//! decision.

use serde_json::Value;

use super::{Difference, in_full};

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
        Self::Arguments(canonical(arguments).to_string())
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

/// Returns the value with the keys of every object in order.
fn canonical(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(canonical).collect(),
        Value::Object(object) => {
            let mut keys: Vec<&String> = object.keys().collect();
            keys.sort_unstable();
            let sorted = keys.into_iter().filter_map(|key| Some((key.clone(), canonical(object.get(key)?))));
            Value::Object(sorted.collect())
        }
        other => other.clone(),
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
}
