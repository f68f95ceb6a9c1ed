//! `[[serve.callers]]`: who may call the tools that `haft serve --http` serves, which of them, with how much of their
//! rights and how often. A caller is told by a token or by a JSON Web Token; neither is read or asked for here.

use std::path::PathBuf;

use super::catalogue::{CALLER, CALLER_GRANT, CALLER_JWT, SECRET};
use super::entry::{Entry, Located};
use super::name::Name;
use super::pattern::ToolPattern;
use super::plugin::GrantTable;
use super::secret::SecretSource;
use super::section::{Section, note_duplicates};
use super::values::host_of;
use crate::net::is_loopback;

/// Somebody who may call.
#[derive(Clone, Debug, PartialEq)]
pub struct CallerTable {
    /// What the journal calls it.
    pub name: Located<Name>,
    /// How it shows who it is.
    pub proof: CallerProof,
    /// Which tools there are for it, by their exposed names.
    pub tools: Located<Vec<ToolPattern>>,
    /// The most that these tools may do for it; `None`: as much as for the program itself.
    pub grant: Option<Located<GrantTable>>,
    /// Calls in a minute; `None`: any number.
    pub calls_per_minute: Option<u32>,
    /// Calls at the same time; `None`: any number.
    pub calls_at_once: Option<u32>,
}

/// How a caller shows who it is.
#[derive(Clone, Debug, PartialEq)]
pub enum CallerProof {
    /// A token of its own.
    Token(SecretSource),
    /// A JSON Web Token that an authorization server issued for haft.
    Jwt(JwtTable),
}

/// `[serve.callers.jwt]`: which JSON Web Tokens are a caller's.
#[derive(Clone, Debug, PartialEq)]
pub struct JwtTable {
    /// The authorization server, exactly as `iss` says it.
    pub issuer: String,
    /// What has to be in `aud`: this server.
    pub audience: String,
    /// Where the issuer's public keys are (RFC 7517).
    pub keys: KeysAt,
    /// With which algorithms tokens may be signed.
    pub algorithms: Vec<JwtAlgorithm>,
    /// The only values of `sub` that are meant; empty: all.
    pub subjects: Vec<String>,
    /// What has to be in `scope`.
    pub scopes: Vec<String>,
}

/// Where public keys are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum KeysAt {
    /// At this address.
    Url(String),
    /// In a file, as written: relative to the program's folder, or below `~/`.
    File(PathBuf),
}

/// An algorithm of signatures with a public key (RFC 7518, RFC 8037). There is none with a shared secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the registered ones")]
pub enum JwtAlgorithm {
    RS256,
    RS384,
    RS512,
    PS256,
    PS384,
    PS512,
    ES256,
    ES384,
    EdDSA,
}

/// The algorithms by their registered names.
const ALGORITHMS: &[(&str, JwtAlgorithm)] = &[
    ("RS256", JwtAlgorithm::RS256),
    ("RS384", JwtAlgorithm::RS384),
    ("RS512", JwtAlgorithm::RS512),
    ("PS256", JwtAlgorithm::PS256),
    ("PS384", JwtAlgorithm::PS384),
    ("PS512", JwtAlgorithm::PS512),
    ("ES256", JwtAlgorithm::ES256),
    ("ES384", JwtAlgorithm::ES384),
    ("EdDSA", JwtAlgorithm::EdDSA),
];

impl CallerTable {
    /// Each is compared with what a request shows, and has a list of tools of its own.
    pub const MAX_CALLERS: usize = 64;
    /// More than a server answers in a minute.
    pub(crate) const MAX_PER_MINUTE: u32 = 10_000_000;
    /// More than a server has places for.
    pub(crate) const MAX_AT_ONCE: u32 = 100_000;

    pub(super) fn read_all(serve: &Section<'_>) -> Vec<Self> {
        let sections = serve.tables("callers", &CALLER);
        let names = sections.iter().filter_map(|section| Some((section.span_of("name"), section.name()?)));
        note_duplicates(serve.notes(), "callers", names);
        if sections.len() > Self::MAX_CALLERS {
            serve.reject("callers", format!("at most {} callers can be told apart", Self::MAX_CALLERS));
        }
        sections.iter().filter_map(Self::read).collect()
    }

    fn read(section: &Section<'_>) -> Option<Self> {
        let name = section.require("name", |entry| entry.located(Entry::parse));
        let token = section.get("token", |entry| entry.secret(&SECRET));
        let jwt = section.get("jwt", |entry| entry.section(&CALLER_JWT));
        let jwt = jwt.as_ref().and_then(JwtTable::read);
        let tools = section.require("tools", |entry| entry.located(Entry::tool_patterns));
        let grant = section.get("grant", |entry| entry.located(|entry| entry.section(&CALLER_GRANT)));
        let count = |key, most| section.get(key, |entry| entry.count(1..=most));
        let (calls_per_minute, calls_at_once) =
            (count("calls_per_minute", Self::MAX_PER_MINUTE), count("calls_at_once", Self::MAX_AT_ONCE));
        if section.has("token") == section.has("jwt") {
            section.reject_whole("a caller has either a `token` or a `jwt`");
        }
        Some(Self {
            name: name?,
            proof: token.map(CallerProof::Token).or(jwt.map(CallerProof::Jwt))?,
            tools: tools?,
            grant: grant.map(|own| Located { value: GrantTable::read(&own.value), span: own.span }),
            calls_per_minute,
            calls_at_once,
        })
    }
}

impl JwtTable {
    /// What authorization servers sign with unless they are told otherwise.
    pub(crate) const DEFAULT_ALGORITHMS: [JwtAlgorithm; 3] =
        [JwtAlgorithm::RS256, JwtAlgorithm::ES256, JwtAlgorithm::EdDSA];

    fn read(section: &Section<'_>) -> Option<Self> {
        let issuer = section.require("issuer", Entry::text);
        let audience = section.require("audience", Entry::text);
        let url = section.get("jwks_url", keys_url).map(KeysAt::Url);
        let file = section.get("jwks_file", Entry::path).map(KeysAt::File);
        if section.has("jwks_url") == section.has("jwks_file") {
            section.reject_whole("the issuer's keys are at either a `jwks_url` or a `jwks_file`");
        }
        let algorithms = section.get("algorithms", |entry| entry.list(|entry| entry.one_of(ALGORITHMS)));
        if algorithms.as_ref().is_some_and(Vec::is_empty) {
            section.reject("algorithms", "with none of them no token could be signed");
        }
        Some(Self {
            issuer: issuer?,
            audience: audience?,
            keys: url.or(file)?,
            algorithms: algorithms.unwrap_or_else(|| Self::DEFAULT_ALGORITHMS.to_vec()),
            subjects: section.list("subjects", Entry::text),
            scopes: section.list("scopes", scope),
        })
    }
}

impl JwtAlgorithm {
    /// The registered names.
    pub(super) fn names() -> Vec<&'static str> {
        ALGORITHMS.iter().map(|(name, _)| *name).collect()
    }
}

/// Whoever changes keys on their way calls as anybody.
fn keys_url(entry: &Entry<'_>) -> Option<String> {
    let url = entry.url()?;
    match url.strip_prefix("http://") {
        Some(rest) if !is_loopback(host_of(rest)) => {
            entry.reject("keys that come unencrypted are anybody's: fetch them with `https://`")
        }
        _ => Some(url),
    }
}

/// One word of a `scope` (RFC 6749, section 3.3).
fn scope(entry: &Entry<'_>) -> Option<String> {
    let is_fine = |c: char| c.is_ascii_graphic() && c != '"' && c != '\\';
    let text = entry.text()?;
    if text.chars().all(is_fine) {
        Some(text)
    } else {
        entry.reject("a scope has no white space and no quotes")
    }
}
