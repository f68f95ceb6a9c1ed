//! Configurations of a NATS server: the users of the guide, with and without a system account, mutual TLS, nkeys,
//! and credentials files of an operator's accounts.

use std::fs;
use std::net::IpAddr;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nkeys::KeyPair;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, SanType};
use serde_json::{Value, json};

/// The guide with the users and permissions of these servers.
const GUIDE: &str = include_str!("../../docs/workers.md");

/// The users of the server.
const USERS: [&str; 5] = ["gate", "eu-1", "eu-2", "eu-3", "us-1"];

/// The kind of authentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setup {
    /// The configuration of the guide.
    Guide,
    /// The guide without the import of the system account.
    Silent,
    /// The users of the guide without permissions.
    Open,
    /// The guide, with less storage than the default reservation.
    Small,
    /// The guide with mutual TLS.
    Tls,
    /// Users with nkeys.
    Nkey,
    /// An operator's accounts, whose users have JWTs.
    Credentials,
}

/// A server's configuration, and the logins of its users.
pub(crate) struct Prepared {
    pub(crate) configuration: String,
    /// The URL without the port.
    pub(crate) address: &'static str,
    /// For each user, the keys of `[nats]` and the files that they name.
    logins: Vec<(&'static str, Login)>,
}

#[derive(Clone, Default)]
pub(crate) struct Login {
    pub(crate) table: String,
    pub(crate) files: Vec<(&'static str, String)>,
}

impl Setup {
    /// The configuration at `port`, with its files in `folder`.
    pub(crate) fn prepare(self, port: u16, folder: &Path) -> Prepared {
        let listen = format!(
            "listen: \"127.0.0.1:{port}\"\njetstream {{ max_file_store: 100GB, store_dir: \"{}\" }}\n",
            folder.join("store").display()
        );
        let plain = "nats://127.0.0.1";
        let prepared = |rest: String, address, logins| Prepared {
            configuration: format!("{listen}{rest}"),
            address,
            logins,
        };
        match self {
            Self::Guide => prepared(guide(true, password), plain, passwords()),
            Self::Open => {
                let users = USERS.map(|name| format!("{{ {} }}", password(name))).join(", ");
                prepared(format!("authorization {{ users: [ {users} ] }}\n"), plain, passwords())
            }
            Self::Small => Prepared {
                configuration: format!("{}{}", listen.replace("100GB", "2GB"), guide(true, password)),
                address: plain,
                logins: passwords(),
            },
            Self::Silent => prepared(guide(false, password), plain, passwords()),
            Self::Tls => {
                let (tls, logins) = tls(folder);
                prepared(format!("{tls}{}", guide(true, password)), "tls://localhost", logins)
            }
            Self::Nkey => {
                let keys = USERS.map(|name| (name, KeyPair::new_user()));
                let public = |name: &str| {
                    let (_, key) = keys.iter().find(|(own, _)| *own == name).unwrap();
                    format!("nkey: {}", key.public_key())
                };
                let login = |key: &KeyPair| Login {
                    table: "nkey = { file = \"seed\" }".into(),
                    files: vec![("seed", key.seed().unwrap())],
                };
                let logins = keys.iter().map(|(name, key)| (*name, login(key))).collect();
                prepared(guide(true, public), plain, logins)
            }
            Self::Credentials => {
                let (operator, logins) = operator();
                prepared(operator, plain, logins)
            }
        }
    }
}

impl Prepared {
    pub(crate) fn login(&self, user: &str) -> Login {
        self.logins.iter().find(|(name, _)| *name == user).unwrap().1.clone()
    }
}

fn password(name: &str) -> String {
    format!("user: {name}, password: {name}-password")
}

fn passwords() -> Vec<(&'static str, Login)> {
    let login = |name: &'static str| Login {
        table: "user = { file = \"user\" }\npassword = { file = \"password\" }".into(),
        files: vec![("user", name.into()), ("password", format!("{name}-password"))],
    };
    USERS.map(|name| (name, login(name))).into()
}

/// The configuration of the guide: two accounts, and users with only the permissions of their role. With `is_told`,
/// haft's account gets disconnections. `who` writes a user's identity.
fn guide(is_told: bool, who: impl Fn(&str) -> String) -> String {
    let worker = |name: &str| {
        let (label, _) = name.split_once('-').unwrap();
        let own = permissions("eu-1").replace(".*.*.eu\"", &format!(".*.*.{label}\"")).replace("eu-1", name);
        format!("{{ {}, {own}", who(name))
    };
    let workers: String = USERS[1..].iter().map(|name| worker(name)).collect::<Vec<_>>().join("\n");
    let subject = "\"$SYS.ACCOUNT.HAFT.DISCONNECT\"";
    let (exports, imports) = if is_told {
        (
            format!("exports: [{{ stream: {subject}, accounts: [HAFT] }}]"),
            format!("imports: [{{ stream: {{ account: SYS, subject: {subject} }} }}]"),
        )
    } else {
        (String::new(), String::new())
    };
    format!(
        r"
        system_account: SYS
        accounts {{
          SYS {{ {exports} }}
          HAFT {{
            jetstream: enabled
            {imports}
            users: [
              {{ {}, {}
              {workers}
            ]
          }}
        }}
        ",
        who("gate"),
        permissions("gate")
    )
}

/// The permissions of the user `name` in the guide.
fn permissions(name: &str) -> String {
    let begin = format!("{{ user: {name}, password: …, ");
    let (_, rest) = GUIDE.split_once(&begin).unwrap();
    let (own, _) = rest.split_once("} }").unwrap();
    format!("{own}}} }}")
}

/// A certificate authority, the server's certificate, and one for all clients.
fn tls(folder: &Path) -> (String, Vec<(&'static str, Login)>) {
    let mut authority = CertificateParams::new(Vec::<String>::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, rcgen::KeyPair::generate().unwrap()).unwrap();
    let issue = |names: Vec<SanType>| {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::new(Vec::<String>::new()).unwrap();
        parameters.subject_alt_names = names;
        (parameters.signed_by(&key, &authority).unwrap().pem(), key.serialize_pem())
    };
    let here = SanType::IpAddress(IpAddr::from([127, 0, 0, 1]));
    let (server, server_key) = issue(vec![SanType::DnsName("localhost".try_into().unwrap()), here]);
    let (client, client_key) = issue(vec![SanType::DnsName("client.test".try_into().unwrap())]);
    for (name, text) in [("ca.pem", authority.pem()), ("server.pem", server), ("server.key", server_key)] {
        fs::write(folder.join(name), text).unwrap();
    }
    let folder = folder.display();
    let server = format!(
        "tls {{ cert_file: \"{folder}/server.pem\", key_file: \"{folder}/server.key\", ca_file: \"{folder}/ca.pem\", \
         verify: true }}\n"
    );
    let shown = |(name, Login { table, files }): (&'static str, Login)| {
        let table = format!("{table}\nca = \"ca.pem\"\ncertificate = \"client.pem\"\nkey = \"client.key\"");
        let own =
            [("ca.pem", authority.pem()), ("client.pem", client.clone()), ("client.key", client_key.clone())];
        (name, Login { table, files: files.into_iter().chain(own).collect() })
    };
    (server, passwords().into_iter().map(shown).collect())
}

/// An operator with an account for haft and a system account, and a credentials file for each user.
fn operator() -> (String, Vec<(&'static str, Login)>) {
    let (operator, system, account) =
        (KeyPair::new_operator(), KeyPair::new_account(), KeyPair::new_account());
    let limits = json!({
        "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1,
        "leaf": -1, "mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1
    });
    let mut without_streams = limits.clone();
    for name in ["mem_storage", "disk_storage", "streams", "consumer"] {
        without_streams[name] = json!(0);
    }
    let of_operator = signed(&operator, &operator.public_key(), "operator", json!({}));
    let of_system = signed(&operator, &system.public_key(), "account", json!({ "limits": without_streams }));
    let of_haft = signed(&operator, &account.public_key(), "account", json!({ "limits": limits }));
    let configuration = format!(
        "operator: {of_operator}\nresolver: MEMORY\nsystem_account: {}\n\
         resolver_preload: {{ {}: {of_system}, {}: {of_haft} }}\n",
        system.public_key(),
        system.public_key(),
        account.public_key()
    );
    let login = || {
        let user = KeyPair::new_user();
        let rights = json!({ "pub": {}, "sub": {}, "subs": -1, "data": -1, "payload": -1 });
        let token = signed(&account, &user.public_key(), "user", rights);
        let text = format!(
            "-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\n{}\n------END USER NKEY SEED------\n",
            user.seed().unwrap()
        );
        Login { table: "credentials = { file = \"user.creds\" }".into(), files: vec![("user.creds", text)] }
    };
    (configuration, USERS.map(|name| (name, login())).into())
}

/// A JWT in NATS's format.
fn signed(by: &KeyPair, subject: &str, kind: &str, mut claims: Value) -> String {
    claims["type"] = json!(kind);
    claims["version"] = json!(2);
    let whole = json!({
        "jti": subject, "iat": 1_700_000_000, "iss": by.public_key(), "name": kind, "sub": subject, "nats": claims
    });
    let header = json!({ "typ": "JWT", "alg": "ed25519-nkey" });
    let parts = [header, whole].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
    let text = parts.join(".");
    let signature = by.sign(text.as_bytes()).unwrap();
    format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))
}
