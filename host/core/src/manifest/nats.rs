//! `[nats]`: where the machines of a program meet. Only what is written; nothing is connected to here.

use std::path::PathBuf;
use std::str::FromStr;

use super::catalogue::{NATS, SECRET, STORAGE};
use super::entry::{Entry, Located};
use super::name::Name;
use super::secret::{SecretSource, TextOrSecret};
use super::section::Section;

/// `[nats]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NatsTable {
    /// Servers of one cluster, in the order of the file.
    pub urls: Vec<NatsUrl>,
    /// What all subjects, buckets and streams begin with.
    pub prefix: Option<Name>,
    /// Who this one is there.
    pub login: Option<NatsLogin>,
    /// Certificates to trust, as written; `None`: those of the system.
    pub ca: Option<Located<PathBuf>>,
    /// The client's certificate and its key, as written.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// `[nats.storage]`.
    pub storage: NatsStorage,
}

/// `[nats.storage]`: bytes that each bucket and stream reserves at the server, where it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NatsStorage {
    /// Which calls were claimed: 250 bytes each. One that has no room is not made, and its call not run.
    pub claims: u64,
    /// Arguments and answers that are too large for a message.
    pub payloads: u64,
    /// What workers noted of calls; the oldest lines go then.
    pub journal: u64,
    /// Which approvals were used: 250 bytes each. One that has no room is not made, and its call not run.
    pub approvals: u64,
    /// Tasks, but for long answers.
    pub tasks: u64,
    /// Long answers of tasks.
    pub answers: u64,
}

impl Default for NatsStorage {
    /// Together less than the 4 GB of a small volume.
    fn default() -> Self {
        let (claims, approvals, tasks) = (256 << 20, 64 << 20, 256 << 20);
        Self { claims, payloads: 1 << 30, journal: 1 << 30, approvals, tasks, answers: 1 << 30 }
    }
}

impl NatsStorage {
    /// Room for some thousand claims or tasks.
    pub(crate) const MIN: u64 = 1 << 20;
    /// What a machine's disk holds.
    pub(crate) const MAX: u64 = 1 << 40;

    fn read(root: &Section<'_>) -> Self {
        let default = Self::default();
        let Some(section) = root.get("storage", |entry| entry.section(&STORAGE)) else { return default };
        let size =
            |key, default| section.get(key, |entry| entry.size(Self::MIN..=Self::MAX)).unwrap_or(default);
        Self {
            claims: size("claims", default.claims),
            payloads: size("payloads", default.payloads),
            journal: size("journal", default.journal),
            approvals: size("approvals", default.approvals),
            tasks: size("tasks", default.tasks),
            answers: size("answers", default.answers),
        }
    }
}

/// Who a client of NATS is.
#[derive(Clone, Debug, PartialEq)]
pub enum NatsLogin {
    /// A user with a password.
    User(TextOrSecret, SecretSource),
    /// Whoever has the token.
    Token(SecretSource),
    /// A user's JWT and seed.
    Credentials(SecretSource),
    /// A user's seed.
    Nkey(SecretSource),
}

/// Where a NATS server is: `nats://host:port`, or `tls://` for one that has to be encrypted. It holds no password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NatsUrl(String);

impl NatsUrl {
    /// The URL as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for NatsUrl {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FORM: &str =
            "expected a server such as `nats://127.0.0.1:4222` or `tls://nats.example.com:4222`";
        let (scheme, rest) = text.split_once("://").ok_or(FORM)?;
        if rest.contains('@') {
            return Err("a URL must not contain a user, password or token: name them in `[nats]`, such as \
                        `token = { env = \"NATS_TOKEN\" }`");
        }
        let is_host =
            !rest.is_empty() && !rest.contains(['/', '?', '#']) && !rest.contains(char::is_whitespace);
        if matches!(scheme, "nats" | "tls") && is_host { Ok(Self(text.to_owned())) } else { Err(FORM) }
    }
}

impl NatsTable {
    pub(super) fn read(root: &Section<'_>) -> Self {
        let Some(section) = root.get("nats", |entry| entry.section(&NATS)) else {
            return Self::default();
        };
        let path = |key| section.get(key, Entry::path);
        let (certificate, key) = (path("certificate"), path("key"));
        for (has, lacks) in [("certificate", "key"), ("key", "certificate")] {
            if section.has(has) && !section.has(lacks) {
                section.reject(has, format!("needs a `{lacks}` beside it"));
            }
        }
        Self {
            urls: section.list("urls", Entry::parse),
            prefix: section.get("prefix", Entry::parse),
            login: NatsLogin::read(&section),
            ca: section.get("ca", Entry::located_path),
            certificate: certificate.zip(key),
            storage: NatsStorage::read(&section),
        }
    }

    /// Where its secrets are kept.
    pub(super) fn secrets(&self) -> Vec<&SecretSource> {
        match &self.login {
            None => Vec::new(),
            Some(NatsLogin::User(user, password)) => match user {
                TextOrSecret::Secret(user) => vec![user, password],
                TextOrSecret::Text(_) => vec![password],
            },
            Some(NatsLogin::Token(kept) | NatsLogin::Credentials(kept) | NatsLogin::Nkey(kept)) => vec![kept],
        }
    }
}

impl NatsLogin {
    fn read(section: &Section<'_>) -> Option<Self> {
        let secret = |key| section.get(key, |entry: &Entry<'_>| entry.secret(&SECRET));
        let user = section.get("user", |entry| entry.text_or_secret("user", &SECRET));
        let ways = ["user", "token", "credentials", "nkey"];
        let mut named = ways.into_iter().filter(|key| section.has(key));
        if let (Some(first), Some(second)) = (named.next(), named.next()) {
            section.reject(second, format!("there is a `{first}` already; a client is one of them"));
            return None;
        }
        for (has, lacks) in [("user", "password"), ("password", "user")] {
            if section.has(has) && !section.has(lacks) {
                section.reject(has, format!("needs a `{lacks}` beside it"));
            }
        }
        let user = user.zip(secret("password")).map(|(user, password)| Self::User(user, password));
        user.or_else(|| secret("token").map(Self::Token))
            .or_else(|| secret("credentials").map(Self::Credentials))
            .or_else(|| secret("nkey").map(Self::Nkey))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::manifest::Manifest;

    fn parse(text: &str) -> Result<NatsTable, String> {
        let parsed = Manifest::parse(text, Path::new("program.toml"));
        parsed.map(|manifest| manifest.nats).map_err(|report| report.to_string())
    }

    #[test]
    fn who_one_is_is_said_once_and_never_in_a_url() {
        let table =
            parse("[nats]\nurls = [\"tls://a:4222\"]\nuser = \"w\"\npassword = { env = \"PASSWORD\" }\n");
        let table = table.unwrap();
        assert!(matches!(table.login, Some(NatsLogin::User(..))));
        assert_eq!(table.urls[0].as_str(), "tls://a:4222");
        for (text, expected) in [
            ("urls = [\"nats://me:secret@a:4222\"]", "must not contain a user, password or token"),
            ("urls = [\"https://a\"]", "expected a server such as"),
            ("user = \"w\"", "needs a `password`"),
            ("token = { env = \"T\" }\nnkey = { env = \"N\" }", "there is a `token` already"),
            ("token = \"abcdefgh\"", "a secret is named here, never written"),
            ("ca = \"ca.pem\"\nkey = \"k.pem\"", "needs a `certificate`"),
        ] {
            let error = parse(&format!("[nats]\n{text}\n")).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
