//! Secrets in program.toml, which contains only their sources: a variable, a file or a keyring entry. This module
//! reads no secret, and hides a value that was written instead of a source.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use haft_core::grant::CredentialStore;
use haft_core::report::Span;
use haft_core::secret::is_credential;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::entry::{Entry, Located};
use super::name::Variable;
use super::section::Section;
use super::table::{FromTable, FromValue, Kind, Table, table, texts};

/// Where a secret is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretSource {
    /// An environment variable of haft.
    Env(Variable),
    /// A file, as written: relative to the program's folder, or below `~/`. Its content without
    /// the newlines at its end is the secret.
    File(PathBuf),
    /// The person's keyring.
    Keyring(KeyringEntry),
}

/// An entry of the keyring, as program.toml writes it: `service/user`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyringEntry {
    /// What the secret is for; may hold a `/` itself.
    pub service: String,
    /// The user that the entry belongs to.
    pub user: String,
}

texts! { KeyringEntry: Kind::Pattern("^.*\\S.*/.*\\S") }

impl FromStr for KeyringEntry {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FORM: &str = "expected `SERVICE/USER`, the secret's entry in the keyring";
        let (service, user) = text.rsplit_once('/').ok_or(FORM)?;
        if service.trim().is_empty() || user.trim().is_empty() {
            return Err(FORM);
        }
        Ok(Self { service: service.to_owned(), user: user.to_owned() })
    }
}

impl fmt::Display for KeyringEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.service, self.user)
    }
}

impl SecretSource {
    /// The file, as written, if it is one.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Env(_) | Self::Keyring(_) => None,
        }
    }
}

/// A value that may be a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextOrSecret {
    /// The value itself.
    Text(String),
    /// Where it is kept.
    Secret(SecretSource),
}

impl TextOrSecret {
    /// Where it is kept, if it is a secret.
    pub fn source(&self) -> Option<&SecretSource> {
        match self {
            Self::Secret(source) => Some(source),
            Self::Text(_) => None,
        }
    }
}

table! {
    /// Where a secret is kept: `env`, `file` or `keyring`.
    struct SourceKeys = "" {
        /// the environment variable that holds the secret
        #[also("environment", "var")]
        env: Option<Variable> = None,
        /// the file that holds the secret
        #[also("path")]
        file: Option<PathBuf> = None,
        /// `SERVICE/USER`: the entry of the keyring that holds the secret
        #[also("keychain")]
        keyring: Option<KeyringEntry> = None,
    }
}

impl FromTable for SecretSource {
    const TABLE: Table = SourceKeys::TABLE;

    fn from_table(section: &Section<'_>) -> Option<Self> {
        let SourceKeys { env, file, keyring } = SourceKeys::from_table(section)?;
        if ["env", "file", "keyring"].iter().filter(|key| section.has(key)).count() != 1 {
            section.reject_whole("expected exactly one of `env`, `file` and `keyring`");
            return None;
        }
        env.map(Self::Env).or(file.map(Self::File)).or(keyring.map(Self::Keyring))
    }
}

impl FromValue for SecretSource {
    const KIND: Kind = Kind::Table(&Self::TABLE);

    fn from_value(entry: &Entry<'_>) -> Option<Self> {
        if entry.raw().is_str() {
            return entry.reject_with_hint(
                "expected the place of a secret, not the secret",
                "write `{ env = \"NAME\" }` for an environment variable, `{ file = \"PATH\" }`, or \
                 `{ keyring = \"SERVICE/USER\" }`",
            );
        }
        entry.table(&Self::TABLE)
    }
}

pub(super) const HEADERS: Kind = Kind::Map(&Kind::TextOrSecret);

/// Headers of HTTP, in the order of the file.
pub(super) fn headers(entry: &Entry<'_>) -> Option<Vec<(String, TextOrSecret)>> {
    entry.texts_and_secrets(check_header)
}

impl Entry<'_> {
    /// A text, or where a secret is kept; a text under the name of a credential is refused.
    pub(super) fn text_or_secret(&self, name: &str) -> Option<TextOrSecret> {
        let is_written = self.raw().as_str().is_some_and(|text| !text.is_empty());
        if self.raw().is_str() && !(is_written && is_credential(name)) {
            return self.word().map(TextOrSecret::Text);
        }
        SecretSource::from_value(self).map(TextOrSecret::Secret)
    }

    /// A table of secrets by their names; `example` shows one.
    pub(super) fn secrets<T: FromTable>(&self, example: &str) -> Option<Vec<T>> {
        let secret = |(name, entry): &(Located<String>, Entry<'_>)| {
            if entry.raw().is_str() {
                let why = "expected the place of a secret, not the secret";
                return entry.reject_with_hint(why, format!("write `{example}`"));
            }
            T::from_table(&entry.section_called(Some(name), &T::TABLE)?)
        };
        Some(self.entries()?.iter().filter_map(secret).collect())
    }

    /// A table of texts and secrets, in the order of the file. `check` judges the names.
    pub(super) fn texts_and_secrets(
        &self,
        check: impl Fn(&str) -> Result<(), String>,
    ) -> Option<Vec<(String, TextOrSecret)>> {
        let mut values = Vec::new();
        for (name, entry) in self.entries()? {
            if let Err(why) = check(&name) {
                entry.reject_name(&name, why);
            } else if let Some(value) = entry.text_or_secret(&name) {
                values.push((name.value, value));
            }
        }
        Some(values)
    }
}

/// A name that HTTP allows for a header (RFC 9110, section 5.1).
pub(super) fn check_header(name: &str) -> Result<(), String> {
    let ok = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    match name.chars().find(|c| !ok(*c)) {
        _ if name.is_empty() => Err("a header's name must not be empty".to_owned()),
        Some(found) => Err(format!("{found:?} is not allowed in a header's name")),
        None => Ok(()),
    }
}

/// Where texts stand that are secrets by the name of their key, wherever in the tree.
pub(super) fn written_secrets(root: &DeTable<'_>) -> Vec<Span> {
    let mut spans = Vec::new();
    // A list of work instead of recursion: the depth of the tree is the author's.
    let mut work: Vec<(&str, &Spanned<DeValue<'_>>)> =
        root.iter().map(|(key, value)| (&**key.get_ref(), value)).collect();
    while let Some((name, value)) = work.pop() {
        match value.get_ref() {
            DeValue::String(text) if hides(name) && !names_a_store(text) || user_in_url(text).is_some() => {
                spans.push(value.span().into());
            }
            DeValue::Array(array) => work.extend(array.iter().map(|value| (name, value))),
            DeValue::Table(table) => {
                work.extend(table.iter().map(|(key, value)| (below(name, key.get_ref()), value)));
            }
            _ => {}
        }
    }
    spans
}

/// Inside the value of a credential every text is one, except where it is named.
fn below<'a>(outer: &'a str, key: &'a str) -> &'a str {
    let is_named = matches!(
        key,
        "env" | "file" | "keyring" | "host" | "hosts" | "header" | "prefix" | "variable" | "allow"
    );
    if hides(outer) && !is_named { outer } else { key }
}

/// Where the user and password of a URL stand, if there is one with them.
fn user_in_url(text: &str) -> Option<Range<usize>> {
    let start = text.find("://")? + 3;
    let rest = text.get(start..)?;
    let end = rest.find(|c: char| c.is_whitespace() || "/?#\"'".contains(c)).unwrap_or(rest.len());
    let user = rest.get(..end)?.rfind('@')?;
    Some(start..start + user)
}

/// What `credentials` of a grant names is no secret.
fn names_a_store(text: &str) -> bool {
    text.parse::<CredentialStore>().is_ok()
}

/// `secrets` is the table of a plugin; the keys in it are any names.
fn hides(name: &str) -> bool {
    is_credential(name) || matches!(name, "login" | "secrets")
}

/// The same for a text that is not valid TOML: what follows the name of a credential, up to
/// the end of the line or of the text in triple quotes that begins there.
pub(super) fn suspected_secrets(text: &str) -> Vec<Span> {
    let mut spans = users_in_urls(text);
    let mut at = 0;
    while let Some((start, end)) = next_word(text, at) {
        at = end;
        if !text.get(start..end).is_some_and(is_credential) {
            continue;
        }
        let rest = text.get(end..).unwrap_or_default();
        let value = rest.trim_start_matches(['"', '\'', ' ', '\t', '=', ':']);
        if !value.starts_with('{') {
            at = end + secret_length(rest);
            spans.push(Span { start: end, end: at });
        }
    }
    spans
}

fn users_in_urls(text: &str) -> Vec<Span> {
    let mut spans = Vec::new();
    let mut at = 0;
    while let Some(found) = text.get(at..).and_then(|rest| rest.find("://")) {
        let url = at + found;
        let user = text.get(url..).and_then(user_in_url);
        spans.extend(user.map(|user| Span { start: url + user.start, end: url + user.end }));
        at = url + 3;
    }
    spans
}

fn next_word(text: &str, from: usize) -> Option<(usize, usize)> {
    let in_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let start = from + text.get(from..)?.find(in_word)?;
    let rest = text.get(start..)?;
    Some((start, start + rest.find(|c| !in_word(c)).unwrap_or(rest.len())))
}

fn secret_length(rest: &str) -> usize {
    let line = rest.find('\n').unwrap_or(rest.len());
    let opening = ["\"\"\"", "'''"]
        .into_iter()
        .filter_map(|quotes| Some((rest.get(..line)?.find(quotes)?, quotes)))
        .min();
    let Some((start, quotes)) = opening else {
        return line;
    };
    let body = start + quotes.len();
    let close = rest.get(body..).and_then(|body| body.find(quotes));
    close.map_or(rest.len(), |close| line.max(body + close))
}

#[cfg(test)]
mod tests {
    use super::*;
    use haft_core::report::Source;

    fn masked(text: &str) -> String {
        let problem = haft_core::report::Problem::new("x").at(Span { start: 0, end: text.len() }, "");
        let source = Source::new("x", text).masked(&suspected_secrets(text));
        haft_core::report::Report::with_source(source, vec![problem]).to_string()
    }

    /// CL04: not even a file that cannot be parsed shows a secret.
    #[test]
    fn secrets_are_hidden_where_the_toml_is_broken() {
        for text in [
            "api_key = \"hunter2",
            "api_key: hunter2",
            "\"x-api-key\" hunter2",
            "a = { GITHUB_TOKEN = hunter2, b = 1",
            "password = '''\nhunter2\nhunter2",
            "token = \"\"\"hunter2\nhunter2\"\"\" x",
            "api_key = hunter2 # password",
            "url = https://a.b/ https://ada:hunter2@x.org/",
        ] {
            assert!(!masked(text).contains("hunter2"), "{}", masked(text));
        }
        assert!(masked("api_key = { env = \"HUNTER2\" ]").contains("HUNTER2"));
    }

    #[test]
    fn a_keyring_entry_is_a_service_and_a_user() {
        let entry: KeyringEntry = "https://api.test/v1/ada".parse().unwrap();
        assert_eq!((entry.service.as_str(), entry.user.as_str()), ("https://api.test/v1", "ada"));
        assert_eq!(entry.to_string(), "https://api.test/v1/ada");
        for wrong in ["", "ada", "/ada", "service/", " / "] {
            assert!(wrong.parse::<KeyringEntry>().is_err(), "{wrong}");
        }
    }
}
