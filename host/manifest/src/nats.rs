//! `[nats]`: the NATS server at which the machines of a program connect. Parses settings; opens no connection.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;

use super::entry::Located;
use super::name::Name;
use super::secret::{SecretSource, TextOrSecret};
use super::section::Section;
use super::table::{FromTable, Kind, table, texts};

table! {
    /// Where gates and workers of this program meet, and who this one is there.
    #[derive(Clone, Debug, PartialEq)]
    pub struct NatsTable = "[nats]" {
        /// servers of one cluster, such as `tls://nats.example.com:4222`
        #[also("url", "servers", "server")]
        pub urls: Vec<NatsUrl> = Vec::new(),
        /// prefix of all subjects, buckets and streams; default `haft`
        #[also("subject", "subject_prefix", "namespace")]
        pub prefix: Option<Name> = None,
        /// Who this one is there.
        #[read(rows LoginKeys::TABLE.rows, NatsLogin::read)]
        pub login: Option<NatsLogin> = None,
        /// certificates to trust; default those of the system
        #[also("ca_file", "root")]
        pub ca: Option<Located<PathBuf>> = None,
        /// The certificate of the client and its key, as written.
        #[read(rows CertificateKeys::TABLE.rows, certificate)]
        pub certificate: Option<(PathBuf, PathBuf)> = None,
        /// reserved storage
        #[also("sizes", "jetstream")]
        pub storage: NatsStorage = NatsStorage::default(),
    }
}

table! {
    /// What each bucket and stream reserves of the server's storage, where haft makes it: from `1MiB` to `1024GiB`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct NatsStorage = "[nats.storage]" {
        // All defaults together are less than the 4 GB of a small volume. A claim or an approval that has no room is not
        // made, and its call not run.
        /// claimed calls, for 2 hours, 250 bytes each; default `256MiB`
        #[read(size Self::SIZES)]
        pub claims: u64 = 256 << 20,
        /// arguments and answers that are too large for a message, for 10 minutes; default `1GiB`
        #[read(size Self::SIZES)]
        #[also("objects")]
        pub payloads: u64 = 1 << 30,
        /// the workers' logs of calls, for 30 days; default `1GiB`
        #[read(size Self::SIZES)]
        #[also("log")]
        pub journal: u64 = 1 << 30,
        /// used approvals, for an hour, 250 bytes each; default `64MiB`
        #[read(size Self::SIZES)]
        pub approvals: u64 = 64 << 20,
        /// tasks of MCP clients, for an hour; default `256MiB`
        #[read(size Self::SIZES)]
        pub tasks: u64 = 256 << 20,
        /// long answers of tasks, for an hour; default `1GiB`
        #[read(size Self::SIZES)]
        pub answers: u64 = 1 << 30,
    }
}

impl NatsStorage {
    /// From room for some thousand claims or tasks to what a machine's disk holds.
    const SIZES: RangeInclusive<u64> = 1 << 20..=1 << 40;
}

/// Who a client of NATS is.
#[derive(Clone, Debug, PartialEq)]
pub enum NatsLogin {
    /// A user with a password.
    User(TextOrSecret, SecretSource),
    /// Anyone who has the token.
    Token(SecretSource),
    /// A user's JWT and seed.
    Credentials(SecretSource),
    /// A user's seed.
    Nkey(SecretSource),
}

/// Where a NATS server is: `nats://host:port`, or `tls://` for one that has to be encrypted. It holds no password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NatsUrl(String);

texts! { NatsUrl: Kind::Pattern("^(nats|tls)://[^/?#@]+$") }

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
            return Err("a URL must not contain a user, password or token: set them in `[nats]`, such as \
                        `token = { env = \"NATS_TOKEN\" }`");
        }
        let is_host =
            !rest.is_empty() && !rest.contains(['/', '?', '#']) && !rest.contains(char::is_whitespace);
        if matches!(scheme, "nats" | "tls") && is_host { Ok(Self(text.to_owned())) } else { Err(FORM) }
    }
}

impl NatsTable {
    pub(super) fn secrets(&self) -> Vec<&SecretSource> {
        match &self.login {
            None => Vec::new(),
            Some(NatsLogin::User(user, password)) => user.source().into_iter().chain([password]).collect(),
            Some(NatsLogin::Token(kept) | NatsLogin::Credentials(kept) | NatsLogin::Nkey(kept)) => vec![kept],
        }
    }
}

table! {
    struct LoginKeys = "" {
        /// the user's name, with `password`
        #[read(Kind::TextOrSecret, |entry| entry.text_or_secret("user"))]
        #[also("username")]
        user: Option<TextOrSecret> = None,
        /// where the user's password is stored
        #[also("pass")]
        password: Option<SecretSource> = None,
        /// where the token is stored, for servers without users
        token: Option<SecretSource> = None,
        /// where the user's JWT and seed are stored: a `.creds` file
        #[also("creds", "jwt")]
        credentials: Option<SecretSource> = None,
        /// where the user's seed is stored
        #[also("seed")]
        nkey: Option<SecretSource> = None,
    }
}

table! {
    struct CertificateKeys = "" {
        /// the client's certificate, with `key`
        #[also("cert")]
        certificate: Option<PathBuf> = None,
        /// the private key of the client's certificate
        #[also("private_key")]
        key: Option<PathBuf> = None,
    }
}

impl NatsLogin {
    fn read(section: &Section<'_>) -> Option<Self> {
        let LoginKeys { user, password, token, credentials, nkey } = LoginKeys::from_table(section)?;
        let ways = ["user", "token", "credentials", "nkey"];
        let mut named = ways.into_iter().filter(|key| section.has(key));
        if let (Some(first), Some(second)) = (named.next(), named.next()) {
            section.reject(second, format!("expected only one of them: `{first}` is set too"));
            return None;
        }
        note_alone(section, ["user", "password"]);
        let user = user.zip(password).map(|(user, password)| Self::User(user, password));
        user.or_else(|| token.map(Self::Token))
            .or_else(|| credentials.map(Self::Credentials))
            .or_else(|| nkey.map(Self::Nkey))
    }
}

fn certificate(section: &Section<'_>) -> Option<(PathBuf, PathBuf)> {
    let CertificateKeys { certificate, key } = CertificateKeys::from_table(section)?;
    note_alone(section, ["certificate", "key"]);
    certificate.zip(key)
}

/// Notes one of two keys that is there without the other.
fn note_alone(section: &Section<'_>, [one, other]: [&str; 2]) {
    for (has, lacks) in [(one, other), (other, one)] {
        if section.has(has) && !section.has(lacks) {
            section.reject(has, format!("also needs `{lacks}`"));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::Manifest;

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
            ("user = \"w\"", "also needs `password`"),
            ("token = { env = \"T\" }\nnkey = { env = \"N\" }", "`token` is set too"),
            ("token = \"abcdefgh\"", "expected the place of a secret, not the secret"),
            ("ca = \"ca.pem\"\nkey = \"k.pem\"", "also needs `certificate`"),
        ] {
            let error = parse(&format!("[nats]\n{text}\n")).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
