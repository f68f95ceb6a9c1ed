//! Values that occur in several tables: paths, patterns, command lines, variables, URLs, JSON. Checks texts
//! only; looks at no file, host or program.

use std::path::PathBuf;

use serde_json::{Map, Number, Value};
use toml::de::DeValue;

use super::entry::{Entry, Located};
use super::name::Variable;
use super::section::Section;
use super::table::{FromValue, Kind, choices, texts};
use haft_core::grant::{CredentialStore, HostName, HostPattern, SandboxMode};
use haft_core::model::{ApiFormat, Effort, Route};
use haft_core::pattern::ToolPattern;
use haft_core::report::Problem;
use haft_core::rule::{Effect, RulePattern};

/// The pattern of `http://` and `https://` URLs; [`Entry::url`] checks them.
pub(super) const URL: Kind = Kind::Pattern("^https?://[^/?#@]");

pub(super) const VARIABLES: Kind = Kind::List(&Variable::KIND);

texts! {
    CredentialStore: Kind::OneOf(|| CredentialStore::all().map(CredentialStore::name).collect()),
    HostName: Kind::Pattern("^([A-Za-z0-9_.-]+|\\[[0-9A-Fa-f:.]+\\])$"),
    HostPattern: Kind::Pattern("^(https?://)?[^/?#@]+$"),
    RulePattern: Kind::Pattern("^[A-Za-z0-9_:*/-]+(\\(.+\\))?$"),
    ToolPattern: Kind::Pattern("^[A-Za-z0-9_:*/-]+$"),
}

choices! { ApiFormat, Effect, Effort, Route, SandboxMode }

impl FromValue for PathBuf {
    const KIND: Kind = Kind::Path;

    fn from_value(entry: &Entry<'_>) -> Option<Self> {
        entry.path()
    }
}

/// Words that only a shell interprets.
const OPERATORS: &[&str] = &["|", "||", "&&", "&", ";", ">", ">>", "<", "2>", "2>&1", "&>"];

impl Entry<'_> {
    /// Reads a path, unmodified. `~` is the home directory, at the beginning only.
    pub(super) fn path(&self) -> Option<PathBuf> {
        let text = self.text()?;
        if text.starts_with('~') && text != "~" && !text.starts_with("~/") {
            return self.reject("only `~` and `~/…` are supported; write other home directories in full");
        }
        Some(text.into())
    }

    pub(super) fn variable(&self) -> Option<String> {
        self.parse::<Variable>().map(String::from)
    }

    pub(super) fn variables(&self) -> Option<Vec<String>> {
        self.list(Entry::variable)
    }

    /// A command: at least one word, the first not blank.
    pub(super) fn command(&self) -> Option<Vec<String>> {
        let words = if self.raw().is_array() { self.list(Entry::word)? } else { self.split_words()? };
        match words.first() {
            Some(program) if !program.trim().is_empty() => Some(words),
            _ => self.reject("expected the name of a program"),
        }
    }

    fn split_words(&self) -> Option<Vec<String>> {
        let text = match self.raw().as_str() {
            Some(_) => self.word()?,
            None => return self.reject("expected a string, or an array of strings"),
        };
        let Ok(words) = shell_words::split(&text) else {
            return self.reject("a quote is not closed");
        };
        match words.iter().find(|word| OPERATORS.contains(&word.as_str())) {
            Some(operator) => self.reject_with_hint(
                format!("this command runs without a shell: `{operator}` would be an argument"),
                "to use a shell, write an array: `[\"sh\", \"-c\", \"…\"]`",
            ),
            None => Some(words),
        }
    }

    /// An `http://` or `https://` URL that paths are appended to.
    pub(super) fn base_url(&self) -> Option<String> {
        let url = self.url()?;
        if url.contains('?') { self.reject("the URL must end with its path: no `?`") } else { Some(url) }
    }

    /// An `http://` or `https://` URL without a user or a fragment.
    pub(super) fn url(&self) -> Option<String> {
        let text = self.word()?;
        check_url(&text).map_or_else(|why| self.reject(why), |()| Some(text))
    }

    /// Rejects the key instead of its value.
    pub(super) fn reject_name(&self, name: &Located<String>, why: impl Into<String>) {
        let problem = Problem::new(format!("invalid name `{}`", name.value)).at(name.span, why);
        self.notes().add(problem);
    }
}

impl Section<'_> {
    pub(super) fn reject_whole(&self, why: impl Into<String>) {
        let problem = Problem::new(format!("invalid `{}`", self.title())).at(self.span(), why);
        self.notes().add(problem);
    }
}

/// Checks the URL of a request. Refuses the parts that may hold a secret, because errors and logs show URLs.
pub(super) fn check_url(text: &str) -> Result<(), &'static str> {
    let (_, rest) = text
        .split_once("://")
        .filter(|(scheme, _)| matches!(*scheme, "http" | "https"))
        .ok_or("expected a URL that begins with `https://` or `http://`")?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err("a URL must not contain a user name or password");
    }
    if rest.contains('#') {
        return Err("the URL must not have a `#`");
    }
    if authority.is_empty() || text.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err("expected a URL with a host, such as `https://api.example.com/v1`");
    }
    Ok(())
}

/// Returns the host of the text after `://`, without the port.
pub(super) fn host_of(rest: &str) -> &str {
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let without_port = authority.rsplit_once(':').filter(|(_, port)| !port.contains(']'));
    without_port.map_or(authority, |(host, _)| host)
}

/// The maximum depth of a value: deeper than any request body. Bounds the recursion.
const MAX_DEPTH: usize = 32;

/// Converts a value to JSON. Rejects a value that JSON cannot express.
pub(super) fn json_value(entry: &Entry<'_>) -> Option<Value> {
    convert(entry, MAX_DEPTH)
}

/// Converts a table to a JSON object.
pub(super) fn json_object(entry: &Entry<'_>) -> Option<Map<String, Value>> {
    object_within(entry, MAX_DEPTH)
}

fn convert(entry: &Entry<'_>, depth: usize) -> Option<Value> {
    let Some(depth) = depth.checked_sub(1) else {
        return entry.reject("nested too deeply");
    };
    match entry.raw() {
        DeValue::String(text) => Some(Value::String(text.to_string())),
        DeValue::Boolean(flag) => Some(Value::Bool(*flag)),
        DeValue::Integer(integer) => {
            let number = i64::from_str_radix(integer.as_str(), integer.radix()).ok();
            number.map(Value::from).or_else(|| entry.reject("the number is too large"))
        }
        DeValue::Float(float) => {
            let number = float.as_str().parse().ok().and_then(Number::from_f64);
            number.map(Value::Number).or_else(|| entry.reject("JSON has no such number"))
        }
        DeValue::Datetime(_) => entry.reject("JSON has no dates: write a string"),
        DeValue::Array(_) => entry.list(|item| convert(item, depth)).map(Value::Array),
        DeValue::Table(_) => object_within(entry, depth).map(Value::Object),
    }
}

fn object_within(entry: &Entry<'_>, depth: usize) -> Option<Map<String, Value>> {
    let entries = entry.entries()?;
    Some(entries.iter().filter_map(|(key, item)| Some((key.value.clone(), convert(item, depth)?))).collect())
}
